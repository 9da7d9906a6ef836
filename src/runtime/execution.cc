#include "runtime/execution.h"

#include <numeric>

namespace tf_collectives {
namespace {

/// The request as all ranks see it: an all-gather counts with the rows of all ranks, so that every rank plans alike.
Request CommonView(const Request& request, const GatherSizes& sizes) {
  Request view = request;
  for (size_t t = 0; t < sizes.size(); ++t)
    view.tensors[t].shape[0] = std::accumulate(sizes[t].begin(), sizes[t].end(), int64_t{0});
  return view;
}

size_t RowBytes(const TensorSpec& tensor) {
  size_t bytes = SizeOf(tensor.dtype);
  for (size_t i = 1; i < tensor.shape.size(); ++i) bytes *= static_cast<size_t>(tensor.shape[i]);
  return bytes;
}

}  // namespace

ExecutionRun::ExecutionRun(std::vector<StartedOperation> started, int64_t fusion_threshold) {
  std::vector<Request> views;
  views.reserve(started.size());
  std::vector<const Request*> requests;
  for (StartedOperation& start : started) {
    const Request& request = start.operation->request;
    if (start.sizes.empty()) {
      requests.push_back(&request);
    } else {
      requests.push_back(&views.emplace_back(CommonView(request, start.sizes)));
    }
    tensors_ += static_cast<int64_t>(request.tensors.size());
    for (const TensorSpec& tensor : request.tensors) bytes_ += static_cast<int64_t>(tensor.bytes());
    entries_.push_back({std::move(start.operation), std::move(start.sizes), Status::Ok(), 0, false});
  }
  plan_ = PlanFusion(requests, fusion_threshold);
  for (const FusionBatch& batch : plan_) {
    for (const BatchMember& member : batch.members) ++entries_[member.request].parts_left;
  }
}

Status ExecutionRun::RunAll(Communicator* communicator) {
  for (Entry& entry : entries_) AllocateOutputs(&entry);
  for (const FusionBatch& planned : plan_) {
    TFC_RETURN_IF_ERROR(communicator->Run(Assemble(planned)));
    for (const BatchMember& member : planned.members) {
      Entry& entry = entries_[member.request];
      if (--entry.parts_left == 0) Report(&entry, entry.status);
    }
  }
  return Status::Ok();
}

void ExecutionRun::FailRest(const Status& status) {
  for (Entry& entry : entries_) {
    if (!entry.reported) Report(&entry, status);
  }
}

void ExecutionRun::AllocateOutputs(Entry* entry) {
  Operation& operation = *entry->operation;
  if (operation.allocate_outputs == nullptr) return;
  entry->status = operation.allocate_outputs(entry->sizes);
  // Without memory this rank still takes part, because the others need its data.
  if (!entry->status.ok()) operation.outputs.assign(operation.inputs.size(), nullptr);
}

Batch ExecutionRun::Assemble(const FusionBatch& planned) const {
  Batch batch;
  for (const BatchMember& member : planned.members) {
    const Entry& entry = entries_[member.request];
    const Request& request = entry.operation->request;
    batch.kind = request.kind;
    batch.reduce_op = request.reduce_op;
    batch.root_rank = request.root_rank;
    for (int t : member.tensors) {
      batch.dtype = request.tensors[t].dtype;
      Batch::Segment& segment = batch.segments.emplace_back();
      segment.input = entry.operation->inputs[t];
      segment.output = entry.operation->outputs[t];
      segment.bytes = request.tensors[t].bytes();
      segment.prescale_factor = request.prescale_factor;
      segment.postscale_factor = request.postscale_factor;
      if (request.kind != CollectiveKind::kAllGather) continue;
      for (int64_t rows : entry.sizes[t])
        segment.rank_bytes.push_back(static_cast<size_t>(rows) * RowBytes(request.tensors[t]));
    }
  }
  return batch;
}

void ExecutionRun::Report(Entry* entry, const Status& status) {
  entry->reported = true;
  entry->operation->done(status);
}

}  // namespace tf_collectives
