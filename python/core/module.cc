// The Python module _core: the runtime without TensorFlow.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>

#include "tf_collectives/runtime.h"

namespace py = pybind11;

namespace tf_collectives {
namespace {

/// Raised before init() and after shutdown().
struct NotInitializedError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void RaiseIfError(const Status& status) {
  if (status.ok()) return;
  if (status.code() == StatusCode::kFailedPrecondition) throw NotInitializedError(status.message());
  if (status.code() == StatusCode::kInvalidArgument) throw py::value_error(status.message());
  throw std::runtime_error(status.message());
}

Topology CurrentTopology() {
  Topology topology;
  RaiseIfError(Runtime::Get().GetTopology(&topology));
  return topology;
}

void Initialize() {
  Environment environment;
  RaiseIfError(Environment::FromProcess(&environment));
  Status status;
  {
    py::gil_scoped_release release;
    status = Runtime::Get().Initialize(environment);
  }
  if (!status.ok()) throw std::runtime_error(status.message());
}

std::vector<std::vector<int>> Plan(const std::vector<std::pair<std::string, int64_t>>& tensors) {
  std::vector<Request> requests(tensors.size());
  std::vector<const Request*> ready;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorSpec& spec = requests[i].tensors.emplace_back();
    if (!ParseDataType(tensors[i].first, &spec.dtype))
      throw py::value_error("unknown dtype '" + tensors[i].first + "'");
    spec.shape = {tensors[i].second / static_cast<int64_t>(SizeOf(spec.dtype))};
    ready.push_back(&requests[i]);
  }
  std::vector<std::vector<int>> plan;
  for (const FusionBatch& batch : PlanFusion(ready, Runtime::Get().FusionThreshold())) {
    std::vector<int>& indices = plan.emplace_back();
    for (const BatchMember& member : batch.members) indices.push_back(member.request);
  }
  return plan;
}

py::list DescribeEnvironment() {
  py::list variables;
  for (const Environment::Variable& variable : Environment::Describe()) {
    py::dict entry;
    entry["name"] = variable.name;
    entry["type"] = variable.type;
    entry["default"] = variable.default_value;
    entry["meaning"] = variable.meaning;
    entry["group"] = variable.group;
    variables.append(entry);
  }
  return variables;
}

py::dict Statistics() {
  const FusionStatistics statistics = Runtime::Get().Statistics();
  py::dict counters;
  counters["tensors"] = statistics.tensors;
  counters["batches"] = statistics.batches;
  counters["bytes"] = statistics.bytes;
  counters["cache_hits"] = statistics.cache_hits;
  counters["cache_misses"] = statistics.cache_misses;
  return counters;
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "The runtime of tf_collectives, without TensorFlow.";
  py::register_exception<NotInitializedError>(module, "NotInitializedError", PyExc_RuntimeError);

  module.def("init", Initialize);
  module.def("set_nccl_library", [](const std::string& path) { Runtime::Get().SetNcclLibrary(path); }, py::arg("path"));
  module.def("shutdown", [] { Runtime::Get().Shutdown(); }, py::call_guard<py::gil_scoped_release>());
  module.def("is_initialized", [] { return Runtime::Get().initialized(); });
  module.def("interrupt", [] { Runtime::Get().Interrupt(); }, py::call_guard<py::gil_scoped_release>());

  module.def("rank", [] { return CurrentTopology().rank; });
  module.def("size", [] { return CurrentTopology().size; });
  module.def("local_rank", [] { return CurrentTopology().local_rank; });
  module.def("local_size", [] { return CurrentTopology().local_size; });
  module.def("cross_rank", [] { return CurrentTopology().cross_rank; });
  module.def("cross_size", [] { return CurrentTopology().cross_size; });

  module.def("fusion_threshold", [] { return Runtime::Get().FusionThreshold(); });
  module.def("set_fusion_threshold", [](int64_t bytes) { Runtime::Get().SetFusionThreshold(bytes); }, py::arg("bytes"));
  module.def("fusion_plan", Plan, py::arg("tensors"));
  module.def("statistics", Statistics);
  module.def("reset_statistics", [] { Runtime::Get().ResetStatistics(); });
  module.def("environment_variables", DescribeEnvironment);
}

}  // namespace tf_collectives
