/* SPDX-License-Identifier: Apache-2.0 */
/* Hints about managed memory. Hints are stored for queries only, because host and device use the same memory. */
#include "sim/control/report.h"
#include "sim/driver/base/capture_rules.h"

#include <cstring>
#include <set>

namespace sim {

/* The hints for a range of managed memory. */
struct Hint {
  bool read_mostly = false;
  CUmemLocation preferred{}, prefetched{}; /* CU_MEM_LOCATION_TYPE_INVALID: no location */
  std::set<int> processors; /* the locations that access the range, according to hints; may contain CU_DEVICE_CPU */
};

struct Hints {
  std::map<uint64_t, Hint> from; /* the hints by their first offset; each applies up to the next key */

  /* Makes an offset a boundary between hints. */
  void split(uint64_t offset) {
    auto after = from.upper_bound(offset);
    if (after == from.begin())
      from.emplace(0, Hint{});
    else if (std::prev(after)->first != offset)
      from.emplace(offset, std::prev(after)->second);
  }
};

namespace {

constexpr uint64_t page = 4096; /* of the simulated system, whatever pages this one has */

struct Pages {
  AllocationPtr allocation;
  uint64_t begin, end; /* offsets of whole pages */
};

CUresult find_range(CUdeviceptr address, size_t bytes, Pages &out) {
  AllocationPtr allocation = state().memory.find(address);
  if (allocation == nullptr || allocation->freed || !allocation->is_managed() || bytes == 0 ||
      bytes > allocation->end() - address)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t begin = address - allocation->base;
  out = {allocation, begin / page * page, (begin + bytes + page - 1) / page * page};
  if (allocation->hints == nullptr) {
    allocation->hints = std::make_shared<Hints>();
    allocation->hints->from.emplace(0, Hint{});
  }
  return CUDA_SUCCESS;
}

template <class Change> void change(const Pages &pages, Change change) {
  Hints &hints = *pages.allocation->hints;
  hints.split(pages.begin);
  hints.split(pages.end);
  for (auto hint = hints.from.find(pages.begin); hint != hints.from.end() && hint->first < pages.end; ++hint)
    change(hint->second);
}

template <class Look> void for_each_hint(const Pages &pages, Look look) {
  const auto &from = pages.allocation->hints->from;
  for (auto hint = std::prev(from.upper_bound(pages.begin)); hint != from.end() && hint->first < pages.end; ++hint)
    look(hint->second);
}

CUresult check_location(const CUmemLocation &location) {
  Device *device = nullptr;
  switch (static_cast<int>(location.type)) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    return find_device(location.id, device);
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    return location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  case CU_MEM_LOCATION_TYPE_HOST:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUmemLocation location_of(CUdevice device) {
  CUmemLocation location{};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == CU_DEVICE_CPU ? 0 : device;
  return location;
}

/* A location in the form in which it is reported: the host has the number CU_DEVICE_CPU, the current NUMA node is 0. */
CUmemLocation normal(CUmemLocation location) {
  if (location.type == CU_MEM_LOCATION_TYPE_HOST)
    location.id = CU_DEVICE_CPU;
  if (location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
    location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}};
  return location;
}

int processor_of(const CUmemLocation &location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

/* The location that all pages share; an invalid location if they differ. */
CUmemLocation common_location(const Pages &pages, CUmemLocation Hint::*which) {
  CUmemLocation common{};
  bool first = true;
  for_each_hint(pages, [&](const Hint &hint) {
    const CUmemLocation &one = hint.*which;
    bool is_same = first || (one.type == common.type && one.id == common.id);
    common = is_same ? one : CUmemLocation{};
    if (!is_same)
      common.id = INT32_MIN; /* so that later locations are different from this one */
    first = false;
  });
  if (common.type == CU_MEM_LOCATION_TYPE_INVALID)
    common.id = CU_DEVICE_INVALID;
  return common;
}

int processor_or_none(const CUmemLocation &location) {
  return location.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : processor_of(location);
}

void put_processors(const Pages &pages, int *out, size_t count) {
  std::set<int> all;
  bool first = true;
  for_each_hint(pages, [&](const Hint &hint) {
    if (first)
      all = hint.processors;
    for (auto one = all.begin(); one != all.end();)
      one = hint.processors.count(*one) != 0 ? std::next(one) : all.erase(one);
    first = false;
  });
  /* The result has the devices in the order of their numbers, then the host. */
  size_t next = 0;
  for (int processor : all)
    if (processor != CU_DEVICE_CPU && next < count)
      out[next++] = processor;
  if (all.count(CU_DEVICE_CPU) != 0 && next < count)
    out[next++] = CU_DEVICE_CPU;
  while (next < count)
    out[next++] = CU_DEVICE_INVALID;
}

CUresult read_attribute(void *data, size_t size, CUmem_range_attribute attribute, const Pages &pages) {
  CUmemLocation preferred = common_location(pages, &Hint::preferred);
  CUmemLocation prefetched = common_location(pages, &Hint::prefetched);
  int value = 0;
  if (data == nullptr || size == 0 || size % sizeof value != 0)
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
  case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
    value = 1;
    for_each_hint(pages, [&](const Hint &hint) { value &= hint.read_mostly; });
    break;
  case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    value = processor_or_none(preferred);
    break;
  case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
    put_processors(pages, static_cast<int *>(data), size / sizeof value);
    return CUDA_SUCCESS;
  case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
    value = processor_or_none(prefetched);
    break;
  case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
    value = preferred.type;
    break;
  case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
    value = preferred.id;
    break;
  case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
    value = prefetched.type;
    break;
  case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
    value = prefetched.id;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (size != sizeof value)
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult find_ranges(const CUdeviceptr *addresses, const size_t *sizes, size_t count, std::vector<Pages> &out) {
  if (addresses == nullptr || sizes == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    out.emplace_back();
    SIM_RETURN_FAILURE(find_range(addresses[i], sizes[i], out.back()));
  }
  return CUDA_SUCCESS;
}

/* Finds the stream of a batch. Refuses the legacy default stream, as the driver does. */
CUresult find_batch_stream(CUstream handle, StreamPtr &out) {
  SIM_RETURN_FAILURE(find_stream(handle, out));
  return out->legacy ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult prefetch_batch(const CUdeviceptr *addresses, const size_t *sizes, size_t count, const CUmemLocation *locations,
                        const size_t *starts, size_t location_count, unsigned long long flags, CUstream handle) {
  StreamPtr stream;
  std::vector<Pages> ranges;
  SIM_RETURN_FAILURE(find_batch_stream(handle, stream));
  if (flags != 0 || locations == nullptr || starts == nullptr || location_count == 0 || location_count > count ||
      starts[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < location_count; i++) {
    if (starts[i] >= count || (i > 0 && starts[i] < starts[i - 1]))
      return CUDA_ERROR_INVALID_VALUE;
    if (check_location(locations[i]) != CUDA_SUCCESS)
      return CUDA_ERROR_INVALID_VALUE;
  }
  SIM_RETURN_FAILURE(find_ranges(addresses, sizes, count, ranges));
  for (size_t i = 0, which = 0; i < count; i++) {
    if (i > 0 && which + 1 < location_count && starts[which + 1] == i)
      which++;
    change(ranges[i], [&](Hint &hint) { hint.prefetched = normal(locations[which]); });
  }
  SIM_RETURN_FAILURE(check_uncaptured_work(stream));
  enqueue(stream, new_unit("prefetch", stream->context.lock()));
  return CUDA_SUCCESS;
}

} // namespace

namespace api {

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
  Pages pages;
  if (check_location(location) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(find_range(devPtr, count, pages));
  if (pages.allocation->pool != nullptr) {
    explain("advice is for the memory of cuMemAllocManaged, not for that of pools");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  int processor = processor_of(location);
  switch (advice) {
  case CU_MEM_ADVISE_SET_READ_MOSTLY:
  case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
    change(pages, [&](Hint &hint) { hint.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY; });
    return CUDA_SUCCESS;
  case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
    change(pages, [&](Hint &hint) { hint.preferred = normal(location); });
    return CUDA_SUCCESS;
  case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
    change(pages, [&](Hint &hint) { hint.preferred = {}; });
    return CUDA_SUCCESS;
  case CU_MEM_ADVISE_SET_ACCESSED_BY:
    change(pages, [&](Hint &hint) { hint.processors.insert(processor); });
    return CUDA_SUCCESS;
  case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
    change(pages, [&](Hint &hint) { hint.processors.erase(processor); });
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
  /* The other kinds of advice ignore the location that they are given. */
  bool needs_location = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice >= CU_MEM_ADVISE_SET_ACCESSED_BY;
  CUmemLocation location = location_of(needs_location ? device : CU_DEVICE_CPU);
  SIM_RETURN_FAILURE(check_location(location));
  return api::cuMemAdvise_v2(devPtr, count, advice, location);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                               CUstream hStream) {
  StreamPtr stream;
  Pages pages;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(check_location(location));
  SIM_RETURN_FAILURE(find_range(devPtr, count, pages));
  change(pages, [&](Hint &hint) { hint.prefetched = normal(location); });
  SIM_RETURN_FAILURE(check_uncaptured_work(stream));
  enqueue(stream, new_unit("prefetch", stream->context.lock()));
  return CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
  return api::cuMemPrefetchAsync_v2(devPtr, count, location_of(dstDevice), 0, hStream);
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
                                 size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                                 CUstream hStream) {
  return prefetch_batch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}

/* Discarded memory has undefined contents; here they are kept. */
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
                                           size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                                           CUstream hStream) {
  return prefetch_batch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags,
                                CUstream hStream) {
  StreamPtr stream;
  std::vector<Pages> ranges;
  SIM_RETURN_FAILURE(find_batch_stream(hStream, stream));
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(find_ranges(dptrs, sizes, count, ranges));
  SIM_RETURN_FAILURE(check_uncaptured_work(stream));
  enqueue(stream, new_unit("discard", stream->context.lock()));
  return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                size_t count) {
  Pages pages;
  SIM_RETURN_FAILURE(find_range(devPtr, count, pages));
  return read_attribute(data, dataSize, attribute, pages);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count) {
  Pages pages;
  if (data == nullptr || dataSizes == nullptr || attributes == nullptr || numAttributes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(find_range(devPtr, count, pages));
  for (size_t i = 0; i < numAttributes; i++)
    SIM_RETURN_FAILURE(read_attribute(data[i], dataSizes[i], attributes[i], pages));
  return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
  StreamPtr stream;
  AllocationPtr allocation = state().memory.find(dptr);
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  bool whole = allocation != nullptr && !allocation->freed && (length == 0 || length == allocation->size);
  if (!whole || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(check_uncaptured_work(stream));
  enqueue(stream, new_unit("attach", stream->context.lock()));
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
