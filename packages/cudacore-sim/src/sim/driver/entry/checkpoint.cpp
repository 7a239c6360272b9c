/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints. A simulated device belongs to one process, so that a checkpoint has nothing to copy or to release. */
#include "sim/control/report.h"
#include "sim/driver/base/process_page.h"
#include "sim/driver/base/state.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <signal.h>
#include <thread>

namespace sim {
namespace {

bool is_there(int process) { return process > 0 && (kill(process, 0) == 0 || errno != ESRCH); }

/*
 * Opens the page that a process shares, or returns a failure. On success, releases the state's lock: the caller waits
 * for work of `process`, and if that is this process, the work needs the lock.
 */
CUresult open_page(int process, std::unique_ptr<SharedFile> &file, ProcessPage *&page) {
  file = find_page(process, page);
  if (file == nullptr)
    return is_there(process) ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_OPERATING_SYSTEM;
  Call::current().lock.unlock();
  return CUDA_SUCCESS;
}

/* The state of a process. If a thread is locking the process, waits until that has succeeded or failed. */
uint32_t settled_state(int process, const ProcessPage &page) {
  uint32_t now = page.state.load();
  for (; now == locking && is_there(process); now = page.state.load())
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  return now;
}

/* Changes the state of a process. Fails if the state is not `from`. */
CUresult change(int process, CUprocessState from, CUprocessState to) {
  ProcessPage *page = nullptr;
  std::unique_ptr<SharedFile> file;
  SIM_RETURN_FAILURE(open_page(process, file, page));
  uint32_t expected = from;
  settled_state(process, *page);
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
  std::unique_ptr<SharedFile> file;
  SIM_REQUIRE(state != nullptr);
  SIM_RETURN_FAILURE(open_page(pid, file, page));
  *state = static_cast<CUprocessState>(settled_state(pid, *page));
  return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid) {
  ProcessPage *page = nullptr;
  std::unique_ptr<SharedFile> file;
  SIM_REQUIRE(tid != nullptr);
  SIM_RETURN_FAILURE(open_page(pid, file, page));
  return refuse(CUDA_ERROR_NOT_SUPPORTED, "a simulated process has no thread that restores it: "
                                          "cuCheckpointProcessGetRestoreThreadId answers CUDA_ERROR_NOT_SUPPORTED");
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args) {
  ProcessPage *page = nullptr;
  std::unique_ptr<SharedFile> file;
  SIM_RETURN_FAILURE(open_page(pid, file, page));
  const unsigned timeout = args != nullptr ? args->timeoutMs : 0;
  const uint64_t began = monotonic_ns();
  for (uint32_t expected = CU_PROCESS_STATE_RUNNING; !page->state.compare_exchange_strong(expected, locking);
       expected = CU_PROCESS_STATE_RUNNING)
    if (settled_state(pid, *page) != CU_PROCESS_STATE_RUNNING)
      return CUDA_ERROR_ILLEGAL_STATE;
  for (;;) {
    if (!is_there(pid))
      return CUDA_ERROR_OPERATING_SYSTEM; /* the process has ended meanwhile */
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
  if (count > 0 && args->gpuPairs == nullptr) {
    report("cuCheckpointProcessRestore was given a number of pairs without the pairs: here the driver crashes");
    return CUDA_ERROR_INVALID_VALUE;
  }
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
