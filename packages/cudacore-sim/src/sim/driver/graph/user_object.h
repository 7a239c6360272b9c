/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_GRAPH_USER_OBJECT_H
#define CUDACORE_SIM_DRIVER_GRAPH_USER_OBJECT_H

#include "sim/driver/base/api.h"

#include <map>
#include <memory>
#include <mutex>

namespace sim {

/* An object of the application with a destructor, which runs when the last reference is released. */
struct UserObject {
  uint64_t handle = 0;
  void *data = nullptr;
  CUhostFn destroy = nullptr;
  uint64_t references = 0;
};

using UserObjectPtr = std::shared_ptr<UserObject>;

/*
 * Finds the object of a call that retains or releases `count` references. CUDA_ERROR_INVALID_VALUE: there is no such
 * object, or the count is 0 or above INT_MAX.
 */
CUresult find_user_object(CUuserObject handle, unsigned count, UserObjectPtr &out);
void retain(UserObject &object, uint64_t count);
void release(const UserObjectPtr &object, uint64_t count, bool later = false);
void wait_for_destructors(std::unique_lock<std::mutex> &lock);

/*
 * The references of a graph, or an executable graph, to user objects. A copy retains the objects, and the destructor
 * releases them. The state's lock must be held.
 */
class References {
public:
  References() = default;
  References(const References &other);
  References &operator=(const References &other) = delete;
  ~References();

  void mark_launched() { launched = true; } /* references of launched graphs are released on another thread */
  void add(const UserObjectPtr &object, uint64_t count); /* takes over `count` references of the caller */
  void add(const References &other);
  bool remove(const UserObjectPtr &object, uint64_t count); /* releases `count` references; false: there are fewer */
  void clear();                                             /* releases all references */

private:
  std::map<UserObjectPtr, uint64_t> counts;
  bool launched = false;
};

} // namespace sim

#endif
