#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tf_collectives/environment.h"
#include "tf_collectives/export.h"
#include "tf_collectives/fusion.h"
#include "tf_collectives/operation.h"
#include "tf_collectives/status.h"
#include "tf_collectives/topology.h"

namespace tf_collectives {

/// The one runtime object of a process. All members may be called from any thread.
class TFC_EXPORT Runtime {
 public:
  static Runtime& Get();

  /// Meets the other processes of the job. Does nothing if already initialized.
  Status Initialize(const Environment& environment);
  /// Where libnccl.so.2 is if neither TensorFlow nor the system has one. Call before Initialize.
  void SetNcclLibrary(const std::string& path);
  /// Leaves the job: pending operations fail, peers are told, threads end. Does nothing if not initialized.
  void Shutdown();

  bool initialized() const;
  /// Fails with kFailedPrecondition before Initialize and after Shutdown.
  Status GetTopology(Topology* topology) const;

  /// Hands an operation over and returns at once; the result arrives through `operation->done`.
  void Submit(const OperationPointer& operation);
  /// The step of `operation` was cancelled: ends it, and what belongs with it, on all ranks.
  void Cancel(const OperationPointer& operation);
  /// Something failed on this rank before an operation could be submitted: the peers' operations end with the same
  /// error.
  void ReportFailure(int64_t step_id, const Status& status);
  /// Fails everything that waits in this process (Ctrl-C).
  void Interrupt();

  void SetFusionThreshold(int64_t bytes);
  int64_t FusionThreshold() const;
  FusionStatistics Statistics() const;
  void ResetStatistics();
  /// Bytes of freed outputs that the op library may keep for reuse.
  int64_t OutputCacheBytes() const;

  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

 private:
  Runtime();
  ~Runtime();

  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tf_collectives
