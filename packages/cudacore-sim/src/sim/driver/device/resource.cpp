/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of devices: multiprocessors and their splits, and work queues. */
#include "sim/driver/device/green.h"

#include <cstdlib>
#include <deque>

namespace sim {
namespace {

constexpr uint32_t mark = 0x5EED5A1D;
constexpr uint64_t first_descriptor = uint64_t{0x5D} << 40;

/* The opaque bytes of a CUdevResource, which programs can copy. */
struct Hidden {
  uint32_t mark, split;
  int32_t device;
  uint32_t may_be_split, alignment, least;
  std::array<uint8_t, max_multiprocessors / 8> members;
};
static_assert(sizeof(Hidden) <= sizeof(CUdevResource::_internal_padding));

std::deque<DeviceShare> &descriptors() { /* never destroyed, as in the driver */
  static auto *const made = new std::deque<DeviceShare>;
  return *made;
}

/* Writes a resource. Results of a split report their alignment only from driver 13.1 on. */
void write(const SmSet &set, CUdevResource &out, bool says_alignment = is_13_1()) {
  Hidden hidden{mark, set.split, set.device->ordinal, set.may_be_split, set.alignment, set.least, {}};
  for (size_t i = 0; i < max_multiprocessors; i++)
    if (set.members[i])
      hidden.members[i / 8] |= static_cast<uint8_t>(1u << i % 8);
  out = {};
  out.type = CU_DEV_RESOURCE_TYPE_SM;
  std::memcpy(out._internal_padding, &hidden, sizeof hidden);
  out.sm.smCount = static_cast<unsigned>(set.members.count());
  if (!says_alignment)
    return;
  out.sm.minSmPartitionSize = set.least;
  out.sm.smCoscheduledAlignment = set.alignment;
  if (is_13_1())
    out.sm.flags = set.flags;
}

CUresult read(const CUdevResource *resource, SmSet &out) {
  SIM_REQUIRE(resource != nullptr);
  if (resource->type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  Hidden hidden;
  std::memcpy(&hidden, resource->_internal_padding, sizeof hidden);
  Device *device = nullptr;
  if (hidden.mark != mark || find_device(hidden.device, device) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  out = {device, {}, hidden.alignment, hidden.least, resource->sm.flags, hidden.split, hidden.may_be_split != 0};
  for (size_t i = 0; i < max_multiprocessors; i++)
    out.members[i] = (hidden.members[i / 8] >> i % 8 & 1) != 0;
  return resource->sm.smCount == out.members.count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Removes the first `count` multiprocessors from a set, and returns them. */
Multiprocessors take(Multiprocessors &from, unsigned count) {
  Multiprocessors taken;
  for (size_t i = 0; i < max_multiprocessors && count > 0; i++)
    if (from[i]) {
      taken.set(i);
      from.reset(i);
      count--;
    }
  return taken;
}

void write_rest(const SmSet &input, const Multiprocessors &left, uint32_t split, bool may_be_split,
                CUdevResource *out) {
  if (out == nullptr)
    return;
  SmSet rest{input.device, left, 2, 2, 0, split, may_be_split}; /* the smallest alignment */
  if (left.any())
    write(rest, *out);
  else
    *out = {};
}

uint32_t next_split() {
  static uint32_t last = 0; /* guarded by the state's lock */
  return ++last;
}

/*
 * The size of the groups of cuDevSmResourceSplitByCount. Groups for clusters need no other size, because the eight
 * multiprocessors that are co-scheduled run the largest cluster of an H200. Unknown flags are ignored.
 */
CUresult size_groups(const SmSet &input, unsigned flags, unsigned wanted, SmSet &group, unsigned &size) {
  bool is_fine = (flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0;
  bool for_clusters = (flags & CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE) != 0;
  if (for_clusters && (is_fine || config().compute_major < 9))
    return CUDA_ERROR_INVALID_VALUE;
  unsigned count = static_cast<unsigned>(input.members.count());
  if (!input.may_be_split || wanted > count)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  group = {input.device, {}, input.alignment, input.least, 0, 0, false};
  if (is_fine)
    group.alignment = group.least = 2;
  size = std::max((wanted + group.alignment - 1) / group.alignment * group.alignment, group.least);
  size = std::min(size, count); /* if rounding has made it larger than `count`, all multiprocessors are taken */
  return CUDA_SUCCESS;
}

/* Determines how many of the `left` remaining multiprocessors a group of cuDevSmResourceSplit gets. */
CUresult count_group(const SmSet &input, size_t left, const CU_DEV_SM_RESOURCE_GROUP_PARAMS &params, unsigned &out,
                     unsigned &together) {
  bool fills = (params.flags & CU_DEV_SM_RESOURCE_GROUP_BACKFILL) != 0;
  unsigned max_together = config().compute_major >= 9 ? 32 : 2;
  together = params.coscheduledSmCount != 0 ? params.coscheduledSmCount : all_multiprocessors(*input.device).alignment;
  unsigned preferred = params.preferredCoscheduledSmCount;
  if ((params.flags & ~static_cast<unsigned>(CU_DEV_SM_RESOURCE_GROUP_BACKFILL)) != 0 || together % 2 != 0 ||
      together > max_together || (preferred != 0 && preferred % together != 0))
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned reserved : params.reserved)
    if (reserved != 0)
      return CUDA_ERROR_INVALID_VALUE;
  out = params.smCount;
  if (out == 0) {
    unsigned unit = fills ? 2 : together;
    out = static_cast<unsigned>(left) / unit * unit;
    return CUDA_SUCCESS;
  }
  if (out % 2 != 0 || out > input.members.count())
    return CUDA_ERROR_INVALID_VALUE;
  bool fits = out <= left && (fills || out % together == 0);
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
}

} // namespace

bool is_13_1() { return config().driver_version >= 13010; }

WorkQueues all_queues() {
  const char *text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  int asked = text != nullptr ? std::atoi(text) : 0;
  return {asked >= 1 && asked <= 32 ? static_cast<unsigned>(asked) : 8, CU_WORKQUEUE_SCOPE_DEVICE_CTX};
}

SmSet all_multiprocessors(const Device &device) {
  SmSet all{&device, {}, 8, 8, 0, 0, true};
  if (config().compute_major < 9) {
    all.alignment = 2;
    all.least = config().compute_major == 8 ? 4 : 2;
  }
  int count = device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  for (int i = 0; i < count; i++)
    all.members.set(static_cast<size_t>(i));
  return all;
}

CUresult describe(const DeviceShare &share, CUdevResourceType type, CUdevResource *out) {
  SIM_REQUIRE(out != nullptr);
  if (type == CU_DEV_RESOURCE_TYPE_SM) {
    SmSet set = share.sms;
    set.split = 0;
    set.may_be_split = true;
    write(set, *out, true);
    return CUDA_SUCCESS;
  }
  bool is_queue = type == CU_DEV_RESOURCE_TYPE_WORKQUEUE; /* a work queue can be queried, but not used */
  if (!is_13_1() || (type != CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG && !is_queue))
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *out = {};
  out->type = type;
  if (!is_queue)
    out->wqConfig = {share.sms.device->ordinal, share.queues.limit, share.queues.scope};
  return CUDA_SUCCESS;
}

CUresult find_share(CUdevResourceDesc handle, const Device &device, DeviceShare &out) {
  if (handle == nullptr) {
    out = {all_multiprocessors(device), all_queues()};
    return CUDA_SUCCESS;
  }
  uint64_t index = value_of(handle) - first_descriptor;
  if (index % 16 != 0 || index / 16 - 1 >= descriptors().size())
    return CUDA_ERROR_INVALID_VALUE;
  out = descriptors()[index / 16 - 1];
  return CUDA_SUCCESS;
}

namespace api {

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type) {
  Device *found = nullptr;
  SIM_RETURN_FAILURE(find_device(device, found));
  return describe({all_multiprocessors(*found), all_queues()}, type, resource);
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input,
                                     CUdevResource *remainder, unsigned int flags, unsigned int minCount) {
  SmSet all, group;
  if (CUresult code = read(input, all))
    return code;
  if (nbGroups == nullptr || (result != nullptr && *nbGroups == 0))
    return CUDA_ERROR_INVALID_VALUE;
  unsigned size = 0;
  if (CUresult code = size_groups(all, flags, minCount, group, size))
    return code;
  unsigned groups = static_cast<unsigned>(all.members.count()) / size;
  if (result != nullptr) {
    groups = std::min(groups, *nbGroups);
    group.split = next_split();
    for (unsigned i = 0; i < groups; i++) {
      group.members = take(all.members, size);
      write(group, result[i]);
    }
    write_rest(all, all.members, group.split, false, remainder);
  }
  *nbGroups = groups;
  return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplit(CUdevResource *result, unsigned int nbGroups, const CUdevResource *input,
                              CUdevResource *remainder, unsigned int flags,
                              CU_DEV_SM_RESOURCE_GROUP_PARAMS *groupParams) {
  SmSet all;
  if (CUresult code = read(input, all))
    return code;
  if (nbGroups == 0 || groupParams == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!all.may_be_split)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  Multiprocessors left = all.members;
  std::vector<SmSet> groups;
  uint32_t split = next_split();
  for (unsigned i = 0; i < nbGroups; i++) {
    unsigned count = 0, together = 0;
    if (CUresult code = count_group(all, left.count(), groupParams[i], count, together))
      return code;
    if (count < together && result != nullptr)
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    groups.push_back({all.device, take(left, count), together, together, groupParams[i].flags, split, false});
  }
  for (unsigned i = 0; i < nbGroups; i++) {
    groupParams[i].smCount = static_cast<unsigned>(groups[i].members.count());
    if (result != nullptr)
      write(groups[i], result[i]);
  }
  if (result != nullptr)
    write_rest(all, left, split, true, remainder);
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources) {
  if (phDesc == nullptr || resources == nullptr || nbResources == 0)
    return CUDA_ERROR_INVALID_VALUE;
  DeviceShare share;
  share.queues = all_queues();
  unsigned configurations = 0, sets = 0;
  const Device *device = nullptr;
  for (unsigned i = 0; i < nbResources; i++) {
    const CUdevResource &resource = resources[i];
    Device *of = nullptr;
    if (resource.type == CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG && is_13_1()) {
      if (find_device(resource.wqConfig.device, of) != CUDA_SUCCESS ||
          resource.wqConfig.sharingScope < CU_WORKQUEUE_SCOPE_DEVICE_CTX ||
          resource.wqConfig.sharingScope > CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED)
        return CUDA_ERROR_INVALID_VALUE;
      if (configurations++ != 0 || (device != nullptr && device != of))
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
      share.queues = {resource.wqConfig.wqConcurrencyLimit, resource.wqConfig.sharingScope};
      device = of;
      continue;
    }
    if (resource.type == CU_DEV_RESOURCE_TYPE_WORKQUEUE && is_13_1())
      return CUDA_ERROR_NOT_SUPPORTED;
    SmSet set;
    SIM_RETURN_FAILURE(read(&resource, set));
    /*
     * Before 13.1, the result has as many multiprocessors as all sets together: if two sets have the same
     * multiprocessor, another one is added.
     */
    if (!is_13_1() && sets != 0 && device == set.device) {
      size_t count = share.sms.members.count() + set.members.count();
      set.members |= share.sms.members;
      Multiprocessors others = all_multiprocessors(*set.device).members & ~set.members;
      count -= std::min(count, set.members.count());
      set.members |= take(others, static_cast<unsigned>(count));
      share.sms = set;
      continue;
    }
    bool is_other = sets != 0 && (set.split != share.sms.split || set.split == 0 ||
                                  (share.sms.members & set.members).any() || set.alignment != share.sms.alignment);
    if (is_other || (device != nullptr && device != set.device))
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    set.members |= share.sms.members;
    share.sms = set;
    device = set.device;
    sets++;
  }
  if (sets == 0)
    share.sms = all_multiprocessors(*device);
  descriptors().push_back(share);
  *phDesc = handle_of<CUdevResourceDesc>(first_descriptor + descriptors().size() * 16);
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
