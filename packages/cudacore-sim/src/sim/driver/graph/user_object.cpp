/* SPDX-License-Identifier: Apache-2.0 */
/* User objects, and the thread that runs their destructors. */
#include "sim/driver/graph/user_object.h"

#include "sim/control/report.h"
#include "sim/driver/base/state.h"

#include <climits>
#include <condition_variable>
#include <deque>
#include <pthread.h>
#include <signal.h>
#include <thread>
#include <utility>

namespace sim {
namespace {

/* The thread that runs destructors, and its queue. Guarded by the state's lock. */
struct Destructors {
  std::deque<std::pair<CUhostFn, void *>> queue;
  std::condition_variable there, done;
  bool started = false, busy = false;
  bool ended = false; /* the thread has ended, so queued objects are leaked */
};

Destructors &destructors() {
  static Destructors *const instance = new Destructors; /* the thread outlives exit() */
  return *instance;
}

void run_destructors() {
  pthread_setname_np(pthread_self(), "cudacore-sim");
  Destructors &d = destructors();
  std::unique_lock<std::mutex> lock(state().mutex);
  for (;;) {
    d.there.wait(lock, [&] { return !d.queue.empty(); });
    auto [destroy, data] = d.queue.front();
    d.queue.pop_front();
    d.busy = true;
    lock.unlock();
    try {
      CallbackScope scope("the destructor of a user object");
      destroy(data);
    } catch (...) {
      /* Python ends threads that enter the interpreter during finalisation. */
      lock.lock();
      d.ended = true;
      d.busy = false;
      d.done.notify_all();
      throw;
    }
    lock.lock();
    d.busy = false;
    d.done.notify_all();
  }
}

void destroy_later(CUhostFn destroy, void *data) {
  Destructors &d = destructors();
  d.queue.emplace_back(destroy, data);
  if (!d.started) {
    /* The new thread blocks all signals, so that the application's threads handle them. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    try {
      std::thread(run_destructors).detach();
      d.started = true;
    } catch (const std::exception &) {
      report("no thread can be started: destructors of user objects do not run");
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }
  d.there.notify_one();
}

} // namespace

CUresult find_user_object(CUuserObject handle, unsigned count, UserObjectPtr &out) {
  bool is_found = find_object(state().user_objects, Kind::user_object, handle, out) == CUDA_SUCCESS;
  return is_found && count != 0 && count <= INT_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void retain(UserObject &object, uint64_t count) { object.references += count; }

namespace {

/* Releases `count` references to an object. Returns whether they were the last ones. */
bool drop(const UserObjectPtr &object, uint64_t count) {
  if (count > object->references) {
    report("a user object is released more often than it was retained: " + hex(object->handle));
    count = object->references;
  }
  object->references -= count;
  if (object->references > 0 || object->handle == 0)
    return false;
  state().user_objects.remove(object->handle);
  object->handle = 0;
  return true;
}

} // namespace

/*
 * If a call of an entry point releases the last reference, the calling thread runs the destructor at the end of the
 * call. CUDA calls are allowed in such a destructor, even if the call was made in another destructor, as on a GPU.
 */
void release(const UserObjectPtr &object, uint64_t count, bool later) {
  if (!drop(object, count))
    return;
  if (!later && Call::active())
    Call::current().run_at_end([object] {
      CallbackScope scope("the destructor of a user object", true);
      object->destroy(object->data);
    });
  else
    destroy_later(object->destroy, object->data);
}

void wait_for_destructors(std::unique_lock<std::mutex> &lock) {
  Destructors &d = destructors();
  d.done.wait(lock, [&] { return d.ended || !d.started || (d.queue.empty() && !d.busy); });
}

References::References(const References &other) { add(other); }

References::~References() { clear(); }

void References::clear() {
  for (const auto &[object, count] : std::exchange(counts, {}))
    release(object, count, launched);
}

void References::add(const UserObjectPtr &object, uint64_t count) { counts[object] += count; }

void References::add(const References &other) {
  for (const auto &[object, count] : other.counts) {
    retain(*object, count);
    counts[object] += count;
  }
}

bool References::remove(const UserObjectPtr &object, uint64_t count) {
  auto found = counts.find(object);
  if (found == counts.end() || found->second < count)
    return false;
  found->second -= count;
  if (found->second == 0)
    counts.erase(found);
  release(object, count);
  return true;
}

namespace api {

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount,
                            unsigned int flags) {
  if (object_out == nullptr || destroy == nullptr || initialRefcount == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<UserObject>();
  object->data = ptr;
  object->destroy = destroy;
  object->references = initialRefcount;
  object->handle = state().user_objects.add(object);
  *object_out = handle_of<CUuserObject>(object->handle);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
  UserObjectPtr found;
  SIM_RETURN_FAILURE(find_user_object(object, count, found));
  retain(*found, count);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
  UserObjectPtr found;
  SIM_RETURN_FAILURE(find_user_object(object, count, found));
  release(found, count);
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
