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

bool ExecutionRun::OnGpu(const FusionBatch& planned) const {
  return entries_[planned.members[0].request].operation->request.device == DeviceKind::kGpu;
}

void* ExecutionRun::gpu_stream() const {
  for (const Entry& entry : entries_) {
    if (entry.operation->request.device == DeviceKind::kGpu) return entry.operation->stream;
  }
  return nullptr;
}

Status ExecutionRun::RunAll(Communicator* communicator, DeviceBackend* gpu,
                            const std::function<void(const Status&)>& on_device_done) {
  for (Entry& entry : entries_) {
    if (!entry.reported) AllocateOutputs(&entry, gpu);
  }
  for (const FusionBatch& planned : plan_) {
    if (!OnGpu(planned)) {
      TFC_RETURN_IF_ERROR(communicator->Run(Assemble(planned)));
      Finish(planned, Status::Ok());
    } else if (!entries_[planned.members[0].request].reported) {
      DeviceBatch batch = AssembleForGpu(planned);
      batch.done = [self = shared_from_this(), &planned, on_device_done](const Status& status) {
        self->Finish(planned, status);
        on_device_done(status);
      };
      gpu->Launch(std::move(batch));
    }
  }
  return Status::Ok();
}

void ExecutionRun::FailGpu(const Status& status) {
  for (Entry& entry : entries_) {
    if (entry.operation->request.device == DeviceKind::kGpu) Report(&entry, status);
  }
}

void ExecutionRun::FailRest(const Status& status) {
  for (Entry& entry : entries_) Report(&entry, status);
}

void ExecutionRun::AllocateOutputs(Entry* entry, DeviceBackend* gpu) {
  Operation& operation = *entry->operation;
  if (operation.allocate_outputs == nullptr) return;
  entry->status = operation.allocate_outputs(entry->sizes);
  // TensorFlow may hand out memory that kernels still use which are queued by now.
  if (entry->status.ok() && operation.request.device == DeviceKind::kGpu) entry->status = gpu->MarkReady(&operation);
  // Without memory this rank still takes part, because the others need its data.
  if (!entry->status.ok()) operation.outputs.assign(operation.inputs.size(), nullptr);
}

DeviceBatch ExecutionRun::AssembleForGpu(const FusionBatch& planned) const {
  DeviceBatch batch;
  batch.batch = Assemble(planned);
  for (const BatchMember& member : planned.members) batch.ready.push_back(entries_[member.request].operation->ready);
  return batch;
}

void ExecutionRun::Finish(const FusionBatch& planned, const Status& status) {
  for (const BatchMember& member : planned.members) {
    Entry& entry = entries_[member.request];
    bool is_last;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (entry.status.ok()) entry.status = status;
      is_last = --entry.parts_left == 0;
    }
    if (is_last) Report(&entry, entry.status);
  }
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
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (entry->reported) return;
    entry->reported = true;
  }
  entry->operation->done(status);
}

}  // namespace tf_collectives
