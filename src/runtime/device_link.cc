#include "runtime/device_link.h"

#include <cstring>
#include <vector>

#include "runtime/device_library.h"
#include "text.h"

namespace tf_collectives {
namespace {

/// What a rank passes to the others in one step of connecting.
struct Report {
  StatusCode code = StatusCode::kOk;
  char message[1000] = {};
  DeviceIntroduction introduction;
};

/// Gives every rank the reports of all.
Status Exchange(const Report& own, int size, Communicator* communicator, std::vector<Report>* all) {
  all->resize(size);
  Batch batch;
  batch.kind = CollectiveKind::kAllGather;
  batch.dtype = DataType::kUint8;
  Batch::Segment& segment = batch.segments.emplace_back();
  segment.input = &own;
  segment.output = all->data();
  segment.bytes = sizeof(Report);
  segment.rank_bytes.assign(size, sizeof(Report));
  if (size == 1) segment.rank_bytes.clear();
  return communicator->Run(batch);
}

Report ReportOf(const Status& status) {
  Report report;
  report.code = status.code();
  std::strncpy(report.message, status.message().c_str(), sizeof(report.message) - 1);
  return report;
}

/// The first rank's error, naming the rank.
Status FirstError(const std::vector<Report>& reports) {
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    if (reports[rank].code == StatusCode::kOk) continue;
    return {reports[rank].code, Concat("rank ", rank, " cannot connect its GPU: ", reports[rank].message)};
  }
  return Status::Ok();
}

Status CheckDistinct(const std::vector<Report>& reports, bool may_share) {
  for (size_t rank = 0; rank < reports.size() && !may_share; ++rank) {
    for (size_t other = 0; other < rank; ++other) {
      if (reports[rank].introduction.uuid != reports[other].introduction.uuid) continue;
      return {StatusCode::kFailedPrecondition,
              Concat("ranks ", other, " and ", rank, " use the same GPU (", reports[rank].introduction.bus_id.data(),
                     "). Give each rank a GPU of its own: call tf_collectives.pin_gpu() after init(), before "
                     "TensorFlow uses a GPU, or "
                     "tf.config.set_visible_devices with the GPU of local_rank(). With NCCL 2.30 or newer ranks can "
                     "share one: "
                     "NCCL_MULTI_RANK_GPU_ENABLE=1.")};
    }
  }
  return Status::Ok();
}

}  // namespace

Status DeviceLink::Open() {
  if (backend_ != nullptr) return Status::Ok();
  DeviceBackend::Options options;
  options.rank = environment_.topology.rank;
  options.size = environment_.topology.size;
  options.name = "tf_collectives " + environment_.job_id.substr(0, 8);
  options.timeout =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(environment_.timeout_seconds));
  options.pack_limit_bytes = environment_.pack_limit_bytes;
  options.slab_bytes = environment_.fusion_threshold;
  options.nccl_library = nccl_library_;
  return LoadDeviceBackend(options, &backend_);
}

Status DeviceLink::MarkReady(Operation* operation) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    TFC_RETURN_IF_ERROR(Open());
  }
  return backend_->MarkReady(operation);
}

Status DeviceLink::Connect(void* stream, Communicator* exchange) {
  if (backend_->connected()) return Status::Ok();
  std::vector<Report> reports;
  DeviceIntroduction introduction;
  Report own = ReportOf(backend_->Introduce(stream, &introduction));
  own.introduction = introduction;
  TFC_RETURN_IF_ERROR(Exchange(own, environment_.topology.size, exchange, &reports));
  TFC_RETURN_IF_ERROR(FirstError(reports));
  TFC_RETURN_IF_ERROR(CheckDistinct(reports, environment_.ranks_share_gpu));
  own = ReportOf(backend_->Connect(reports[0].introduction));
  TFC_RETURN_IF_ERROR(Exchange(own, environment_.topology.size, exchange, &reports));
  return FirstError(reports);
}

void DeviceLink::Abort(const Status& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (backend_ != nullptr) backend_->Abort(status);
}

void DeviceLink::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  backend_ = nullptr;
}

}  // namespace tf_collectives
