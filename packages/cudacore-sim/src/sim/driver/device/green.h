/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_DEVICE_GREEN_H
#define CUDACORE_SIM_DRIVER_DEVICE_GREEN_H

/*
 * Green contexts. A green context has some multiprocessors of a device, and its own streams. Everything else that is
 * created in it belongs to the primary context.
 */

#include "sim/driver/base/state.h"

#include <bitset>

namespace sim {

constexpr size_t max_multiprocessors = 512;
using Multiprocessors = std::bitset<max_multiprocessors>;

/* The multiprocessors of a CUdevResource. The driver stores them in the opaque bytes of that structure. */
struct SmSet {
  const Device *device = nullptr;
  Multiprocessors members;
  unsigned alignment = 0, least = 0; /* the number of co-scheduled multiprocessors, and the minimum size of a group */
  unsigned flags = 0;                /* CUdevSmResourceGroup_flags */
  uint32_t split = 0;                /* the number of the split that made this set; 0: none, it was queried */
  bool may_be_split = true;
};

struct WorkQueues {
  unsigned limit = 0; /* wqConcurrencyLimit; 0: not given */
  CUdevWorkqueueConfigScope scope = CU_WORKQUEUE_SCOPE_DEVICE_CTX;
};

/* The resources of a descriptor, and of the green context that is created from the descriptor. */
struct DeviceShare {
  SmSet sms;
  WorkQueues queues;
};

SmSet all_multiprocessors(const Device &device);
WorkQueues all_queues();
/* Whether the driver is for CUDA 13.1 or later, which added work queues and some members of CUdevSmResource. */
bool is_13_1();
CUresult describe(const DeviceShare &share, CUdevResourceType type, CUdevResource *out);
CUresult find_share(CUdevResourceDesc handle, const Device &device, DeviceShare &out); /* null: the whole device */

/* The multiprocessors that work of a stream runs on. */
unsigned multiprocessors_of(const Stream &stream);

/* Destroys a green context. Its streams remain until they are destroyed, but are detached from the context. */
void destroy_green(const ContextPtr &green, std::unique_lock<std::mutex> &lock);

} // namespace sim

#endif
