/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_DEVICE_GREEN_H
#define CUDACORE_SIM_DRIVER_DEVICE_GREEN_H

/*
 * Green contexts. One has a part of a device's multiprocessors, and streams of its own; everything else that is made in
 * it is the primary context's.
 */

#include "sim/driver/base/state.h"

#include <bitset>

namespace sim {

constexpr size_t most_multiprocessors = 512;
using Multiprocessors = std::bitset<most_multiprocessors>;

/* What the driver keeps in a CUdevResource beside what the program may read: which multiprocessors are meant. */
struct SmSet {
  const Device *device = nullptr;
  Multiprocessors members;
  unsigned alignment = 0, least = 0; /* co-scheduled together, and the smallest part */
  unsigned flags = 0;                /* CUdevSmResourceGroup_flags */
  uint32_t split = 0;                /* the call that made it; 0: it was asked for, and not split off */
  bool may_be_split = true;
};

struct WorkQueues {
  unsigned limit = 0; /* 0: it was not said */
  CUdevWorkqueueConfigScope scope = CU_WORKQUEUE_SCOPE_DEVICE_CTX;
};

/* What a descriptor has together, and the green context that is made of it. */
struct DeviceShare {
  SmSet sms;
  WorkQueues queues;
};

SmSet all_multiprocessors(const Device &device);
WorkQueues all_queues();
/* Whether the driver is of CUDA 13.1 or later: it has work queues, and tells and takes all of CUdevSmResource. */
bool is_13_1();
CUresult describe(const DeviceShare &share, CUdevResourceType type, CUdevResource *out);
CUresult find_share(CUdevResourceDesc handle, const Device &device, DeviceShare &out); /* null: all of the device */

/* The multiprocessors that work of a stream runs on. */
unsigned multiprocessors_of(const Stream &stream);

/* Ends a green context, whose streams are detached. */
void destroy_green(const ContextPtr &green, std::unique_lock<std::mutex> &lock);

} // namespace sim

#endif
