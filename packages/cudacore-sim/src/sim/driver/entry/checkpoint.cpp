/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints. A simulated device belongs to one process, so that a checkpoint has nothing to copy or to release. */
#include "sim/control/report.h"
#include "sim/driver/base/process_page.h"
#include "sim/driver/base/state.h"

#include <chrono>
#include <cstring>
#include <signal.h>
#include <thread>

namespace sim {
namespace {

/* Changes the state of a process if it is the one that the operation begins in. */
CUresult change(int process, CUprocessState from, uint32_t to) {
  ProcessPage *page = nullptr;
  std::unique_ptr<SharedFile> file = find_page(process, page);
  if (file == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  uint32_t expected = from;
  return page->state.compare_exchange_strong(expected, to) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

bool is_device(const CUuuid &uuid) {
  for (size_t i = 0; i < state().devices.size(); i++) {
    CUuuid own;
    if (api::cuDeviceGetUuid_v2(&own, static_cast<int>(i)) == CUDA_SUCCESS &&
        std::memcmp(own.bytes, uuid.bytes, sizeof own.bytes) == 0)
      return true;
  }
  return false;
}

} // namespace

namespace api {

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state) {
  ProcessPage *page = nullptr;
  std::unique_ptr<SharedFile> file = find_page(pid, page);
  if (state == nullptr || file == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  uint32_t now = page->state.load();
  *state = now == locking ? CU_PROCESS_STATE_RUNNING : static_cast<CUprocessState>(now);
  return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid) {
  ProcessPage *page = nullptr;
  if (tid == nullptr || find_page(pid, page) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  return refuse(CUDA_ERROR_NOT_SUPPORTED, "a simulated process has no thread that restores it: "
                                          "cuCheckpointProcessGetRestoreThreadId answers CUDA_ERROR_NOT_SUPPORTED");
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args) {
  if (CUresult result = change(pid, CU_PROCESS_STATE_RUNNING, locking))
    return result;
  ProcessPage *page = nullptr;
  std::unique_ptr<SharedFile> file = find_page(pid, page);
  Call::current().lock.unlock(); /* the process can be this one, whose work needs the lock */
  const unsigned timeout = args != nullptr ? args->timeoutMs : 0;
  const uint64_t began = monotonic_ns();
  for (;;) {
    if (file == nullptr || (kill(pid, 0) != 0 && errno == ESRCH))
      return CUDA_ERROR_INVALID_VALUE; /* it has ended meanwhile */
    if (page->calls.load() == 0 && page->units.load() == 0)
      break;
    if (timeout != 0 && monotonic_ns() - began > timeout * uint64_t{1'000'000}) {
      page->state.store(CU_PROCESS_STATE_RUNNING);
      return CUDA_ERROR_NOT_READY;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  page->state.store(CU_PROCESS_STATE_LOCKED);
  return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args) {
  if (args != nullptr && args->customStorageInfo_out != nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  return change(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED);
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args) {
  if (args != nullptr && args->customStorageInfo_out != nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  const unsigned count = args != nullptr ? args->gpuPairsCount : 0;
  if (count > 0 && args->gpuPairs == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++) {
    const CUcheckpointGpuPair &pair = args->gpuPairs[i];
    if (!is_device(pair.oldUuid) || !is_device(pair.newUuid))
      return CUDA_ERROR_INVALID_VALUE;
    if (std::memcmp(&pair.oldUuid, &pair.newUuid, sizeof pair.oldUuid) != 0)
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "a simulated process is restored to the devices that it had, to no "
                                              "others: cuCheckpointProcessRestore answers CUDA_ERROR_NOT_SUPPORTED");
  }
  return change(pid, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED);
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *) {
  return change(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING);
}

} // namespace api
} // namespace sim
