// cuStream*, cuEvent* and host functions.

#include "common/call_log.h"
#include "driver/devices.h"
#include "driver/private_api.h"
#include "driver/streams.h"

#pragma GCC visibility push(default)

using namespace cuda_standin;

#define RETURN_STICKY_ERROR() \
  if (const CUresult sticky_ = StickyError(); sticky_ != CUDA_SUCCESS) return sticky_

namespace {

CUresult Create(CUstream* handle, unsigned flags, int priority) {
  if (CurrentDevice() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  *handle = AddStream(std::make_shared<Stream>(CurrentDevice(), flags, priority));
  return CUDA_SUCCESS;
}

unsigned long long Id(CUstream handle) { return IsLogging() ? IdOfStream(handle) : 0; }

CUresult Record(CUevent event, CUstream stream) {
  RETURN_STICKY_ERROR();
  const std::shared_ptr<Event> recorded = FindEvent(event);
  const std::shared_ptr<Stream> on = FindStream(stream);
  if (recorded == nullptr || on == nullptr || recorded->device() != on->device()) return CUDA_ERROR_INVALID_HANDLE;
  recorded->Record(*on);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  STANDIN_ENTER("flags", flags);
  return Create(stream, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  STANDIN_ENTER("flags", flags, "priority", priority);
  return Create(stream, flags, priority);
}

CUresult cuStreamDestroy(CUstream stream) {
  STANDIN_ENTER("stream", Id(stream));
  return RemoveStream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamQuery(CUstream stream) {
  STANDIN_ENTER("stream", Id(stream));
  RETURN_STICKY_ERROR();
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return found->IsIdle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream stream) {
  STANDIN_ENTER("stream", Id(stream));
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  found->Wait();
  return StickyError();
}

CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  STANDIN_ENTER("stream", Id(stream));
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *priority = found->priority();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  STANDIN_ENTER("stream", Id(stream));
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *flags = found->flags();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  STANDIN_ENTER("stream", Id(stream));
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *id = found->id();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  STANDIN_ENTER("stream", Id(stream));
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *context = DeviceAt(found->device())->Context();
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  STANDIN_ENTER("stream", Id(stream));
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  STANDIN_ENTER("stream", Id(stream), "event", event);
  const std::shared_ptr<Event> awaited = FindEvent(event);
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (awaited == nullptr || found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  awaited->MakeWait(*found);
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  STANDIN_ENTER("stream", Id(stream));
  RETURN_STICKY_ERROR();
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  found->Push([function, argument] { RunHostFunction([&] { function(argument); }); });
  return CUDA_SUCCESS;
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void* argument, unsigned) {
  STANDIN_ENTER("stream", Id(stream));
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  found->Push([=] { RunHostFunction([&] { function(stream, StickyError(), argument); }); });
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  STANDIN_ENTER("flags", flags);
  if (CurrentDevice() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  *event = AddEvent(std::make_shared<Event>(CurrentDevice(), flags));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  STANDIN_ENTER("event", event);
  return RemoveEvent(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  STANDIN_ENTER("stream", Id(stream), "event", event);
  return Record(event, stream);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) {
  STANDIN_ENTER("stream", Id(stream), "event", event);
  return Record(event, stream);
}

CUresult cuEventQuery(CUevent event) {
  STANDIN_ENTER("event", event);
  RETURN_STICKY_ERROR();
  const std::shared_ptr<Event> found = FindEvent(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return found->IsReached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
  STANDIN_ENTER("event", event);
  const std::shared_ptr<Event> found = FindEvent(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  found->Wait();
  return StickyError();
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  STANDIN_ENTER("start", start, "end", end);
  const std::shared_ptr<Event> from = FindEvent(start);
  const std::shared_ptr<Event> to = FindEvent(end);
  if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((from->flags() | to->flags()) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
  if (!from->IsReached() || !to->IsReached()) return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(to->time() - from->time()).count();
  return CUDA_SUCCESS;
}

}  // extern "C"
