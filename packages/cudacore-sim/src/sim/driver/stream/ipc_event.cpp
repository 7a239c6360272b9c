/* SPDX-License-Identifier: Apache-2.0 */
/* Events that processes share: how often each was recorded, and which record is done. */
#include "sim/control/report.h"
#include "sim/driver/memory/ipc.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sim {
namespace {

/* Whether a process has ended, even if its parent has not waited for it yet. */
bool has_ended(int process) {
#ifdef SYS_pidfd_open
  long descriptor = syscall(SYS_pidfd_open, process, 0);
  if (descriptor >= 0) {
    pollfd ended{static_cast<int>(descriptor), POLLIN, 0};
    bool is_over = poll(&ended, 1, 0) == 1;
    close(ended.fd);
    return is_over;
  }
#endif
  return kill(process, 0) != 0 && errno == ESRCH;
}

} // namespace

std::shared_ptr<SharedEvent> SharedEvent::make(const Device &device) {
  auto event = std::make_shared<SharedEvent>();
  event->mine = Export::make(state().arena, Shared::event, &device);
  if (event->mine == nullptr)
    return nullptr;
  event->record = &event->mine->record();
  return event;
}

std::shared_ptr<SharedEvent> SharedEvent::open(const CUipcEventHandle &handle, Device *&device) {
  Record copy;
  auto event = std::make_shared<SharedEvent>();
  event->theirs = import_reference(&handle, nullptr, Shared::event, copy);
  if (event->theirs == nullptr || device_of(copy, device) != CUDA_SUCCESS || device == nullptr ||
      !event->theirs->file->map(event->theirs->offset, sizeof(Record)))
    return nullptr;
  event->record = reinterpret_cast<Record *>(event->theirs->file->at(event->theirs->offset));
  return event;
}

uint64_t SharedEvent::submit() {
  __atomic_store_n(&record->recorder, getpid(), __ATOMIC_SEQ_CST);
  recorded_here = __atomic_add_fetch(&record->submitted, uint64_t{1}, __ATOMIC_SEQ_CST);
  return recorded_here;
}

void SharedEvent::complete(uint64_t number) {
  uint64_t before = __atomic_load_n(&record->completed, __ATOMIC_SEQ_CST);
  while (before < number &&
         !__atomic_compare_exchange_n(&record->completed, &before, number, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
}

uint64_t SharedEvent::submitted() const { return __atomic_load_n(&record->submitted, __ATOMIC_SEQ_CST); }

bool SharedEvent::is_complete(uint64_t number) const {
  if (__atomic_load_n(&record->completed, __ATOMIC_SEQ_CST) >= number)
    return true;
  int process = __atomic_load_n(&record->recorder, __ATOMIC_SEQ_CST);
  if (process == getpid() || !has_ended(process) || __atomic_load_n(&record->completed, __ATOMIC_SEQ_CST) >= number)
    return __atomic_load_n(&record->completed, __ATOMIC_SEQ_CST) >= number;
  report("process " + std::to_string(process) + " ended before the work was done that it recorded an event after");
  __atomic_store_n(&record->completed, number, __ATOMIC_SEQ_CST);
  return true;
}

namespace api {

CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event) {
  std::shared_ptr<Event> found;
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  SIM_REQUIRE(pHandle != nullptr && event != nullptr);
  SIM_RETURN_FAILURE(find_object(state().events, Kind::event, event, found));
  if (found->shared == nullptr || found->shared->mine == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  Reference reference = found->shared->mine->reference();
  std::memcpy(pHandle, &reference, sizeof reference);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle) {
  ContextPtr context;
  Device *device = nullptr;
  SIM_RETURN_FAILURE(need_context(context));
  SIM_REQUIRE(phEvent != nullptr);
  Reference reference;
  std::memcpy(&reference, &handle, sizeof reference);
  if (reference.process == getpid())
    return CUDA_ERROR_INVALID_CONTEXT;
  std::shared_ptr<SharedEvent> shared = SharedEvent::open(handle, device);
  if (shared == nullptr)
    return CUDA_ERROR_MAP_FAILED;
  auto event = std::make_shared<Event>();
  event->context = context;
  event->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  event->shared = std::move(shared);
  event->handle = state().events.add(event);
  *phEvent = handle_of<CUevent>(event->handle);
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
