/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills as units of work. */
#include "copy.h"
#include "image.h"

#include "../control/report.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

/* From the first byte to the last; UINT64_MAX where that overflows. */
uint64_t extent(const Side &side, const Shape &shape) {
  uint64_t planes = 0, rows = 0, all = 0;
  if (__builtin_mul_overflow(shape.depth - 1, side.slice, &planes) ||
      __builtin_mul_overflow(shape.height - 1, side.pitch, &rows) || __builtin_add_overflow(planes, rows, &all) ||
      __builtin_add_overflow(all, shape.width, &all))
    return UINT64_MAX;
  return all;
}

struct Checked {
  Side side;
  uint64_t bytes;
  bool known; /* to CUDA: not pageable memory of the host */
};

CUresult check(const Context &context, const Side &side, const Shape &shape, bool write, Checked &out) {
  State &s = state();
  out = {side, extent(side, shape), s.memory.find(side.address) != nullptr};
  if (out.bytes == UINT64_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  if (out.known)
    return s.memory.accessible(context, side.address, out.bytes, write, Memory::Check::copy) ? CUDA_SUCCESS
                                                                                             : CUDA_ERROR_INVALID_VALUE;
  if (side.place == Place::device || s.arena.contains(side.address) || !is_mapped(side.address, out.bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

/* Memory of a pool of the host, not of a node of it, is nothing that functions for device memory take. */
AllocationPtr in_host_pool(const Side &side) {
  AllocationPtr found = side.place == Place::device ? state().memory.find(side.address) : nullptr;
  bool is_pooled = found != nullptr && found->pool != nullptr && !found->pool->is_managed();
  return is_pooled && found->pool->properties.location.type == CU_MEM_LOCATION_TYPE_HOST ? found : nullptr;
}

/* Where a side is when the work runs. */
class View {
public:
  /* False: it is not there any more. Takes the state's lock. */
  bool open(Context &context, const Checked &what, bool write) {
    if (!what.known) {
      spans.push_back(
          {what.side.address, what.side.address + what.bytes, handle_of<std::byte *>(what.side.address), nullptr});
      return true;
    }
    State &s = state();
    std::lock_guard<std::mutex> guard(s.mutex);
    uint64_t address = what.side.address, end = address + what.bytes;
    if (!s.memory.accessible(context, address, what.bytes, write, Memory::Check::copy_at_run)) {
      report(std::string(write ? "a copy or fill writes to " : "a copy reads from ") + hex(address) + ", " +
             s.memory.explain(address));
      context.fail(CUDA_ERROR_ILLEGAL_ADDRESS);
      return false;
    }
    while (address < end) {
      AllocationPtr allocation = s.memory.find(address);
      spans.push_back(
          {address, allocation->end(), allocation->host + (address - allocation->base), allocation->backing()});
      address = allocation->end();
    }
    return true;
  }

  /* The longest piece from an address on. */
  std::byte *at(uint64_t address, uint64_t &run) const {
    auto span = std::find_if(spans.begin(), spans.end(), [&](const Span &s) { return address < s.end; });
    run = span->end - address;
    return span->host + (address - span->begin);
  }

private:
  struct Span {
    uint64_t begin, end;
    std::byte *host;
    std::shared_ptr<const void> backing;
  };
  std::vector<Span> spans;
};

template <class Row> void for_each_row(const Shape &shape, Row row) {
  for (uint64_t z = 0; z < shape.depth; z++)
    for (uint64_t y = 0; y < shape.height; y++)
      row(y, z);
}

uint64_t row_address(const Side &side, uint64_t y, uint64_t z) {
  return side.address + z * side.slice + y * side.pitch;
}

void copy_row(const View &to, uint64_t to_address, const View &from, uint64_t from_address, uint64_t bytes) {
  while (bytes > 0) {
    uint64_t to_run = 0, from_run = 0;
    std::byte *target = to.at(to_address, to_run);
    const std::byte *source = from.at(from_address, from_run);
    uint64_t run = std::min({to_run, from_run, bytes});
    std::memmove(target, source, run);
    to_address += run;
    from_address += run;
    bytes -= run;
  }
}

void fill_row(const View &to, uint64_t address, uint64_t bytes, uint32_t value, unsigned unit) {
  while (bytes > 0) {
    uint64_t run = 0;
    std::byte *target = to.at(address, run);
    run = std::min(run, bytes);
    if (unit == 1) {
      std::memset(target, static_cast<int>(value & 0xFF), run);
    } else {
      for (uint64_t i = 0; i < run; i += unit)
        std::memcpy(target + i, &value, unit);
    }
    address += run;
    bytes -= run;
  }
}

/* Pageable memory may change once the call has returned, so that what is copied is read before. */
std::shared_ptr<std::vector<std::byte>> read_now(Checked &from, const Shape &shape) {
  auto bytes = std::make_shared<std::vector<std::byte>>(shape.width * shape.height * shape.depth);
  std::byte *next = bytes->data();
  for_each_row(shape, [&](uint64_t y, uint64_t z) {
    std::memcpy(next, handle_of<const void *>(row_address(from.side, y, z)), shape.width);
    next += shape.width;
  });
  from.side = {Place::host, value_of(bytes->data()), shape.width, shape.width * shape.height};
  from.bytes = bytes->size();
  return bytes;
}

} // namespace

CUresult copy(const StreamPtr &stream, const Side &to, const Side &from, const Shape &shape, Return when) {
  if (shape.width == 0 || shape.height == 0 || shape.depth == 0)
    return CUDA_SUCCESS;
  if (in_host_pool(to) != nullptr || in_host_pool(from) != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  ContextPtr context = stream->context.lock();
  Checked target, source;
  if (CUresult result = check(*context, to, shape, true, target))
    return result;
  if (CUresult result = check(*context, from, shape, false, source))
    return result;
  auto on_host = [](const Checked &side) {
    AllocationPtr allocation = side.known ? state().memory.find(side.side.address) : nullptr;
    return allocation == nullptr || allocation->host_accessible();
  };
  bool wait = !target.known || (when == Return::when_synchronous && (on_host(target) || on_host(source)));
  std::shared_ptr<std::vector<std::byte>> kept;
  if (!source.known && !wait)
    kept = read_now(source, shape);
  UnitPtr unit = new_unit("copy", context, [context, target, source, shape, kept] {
    View into, out_of;
    if (into.open(*context, target, true) && out_of.open(*context, source, false))
      for_each_row(shape, [&](uint64_t y, uint64_t z) {
        copy_row(into, row_address(target.side, y, z), out_of, row_address(source.side, y, z), shape.width);
      });
  });
  enqueue(stream, unit);
  if (!wait)
    return CUDA_SUCCESS;
  state().executor.wait(Call::current().lock, unit);
  return usable(context);
}

CUresult fill(const StreamPtr &stream, const Side &to, const Shape &shape, uint32_t value, unsigned bytes) {
  if (shape.width == 0 || shape.height == 0)
    return CUDA_SUCCESS;
  if (to.address % bytes != 0 || (shape.height > 1 && to.pitch % bytes != 0))
    return CUDA_ERROR_INVALID_VALUE;
  ContextPtr context = stream->context.lock();
  Checked target;
  if (AllocationPtr pooled = in_host_pool(to); pooled != nullptr && !may_access(*context, *pooled, true))
    return CUDA_ERROR_INVALID_VALUE; /* a device that has access may fill it */
  if (CUresult result = check(*context, to, shape, true, target))
    return result;
  enqueue(stream, new_unit("fill", context, [context, target, shape, value, bytes] {
            View into;
            if (into.open(*context, target, true))
              for_each_row(shape, [&](uint64_t y, uint64_t z) {
                fill_row(into, row_address(target.side, y, z), shape.width, value, bytes);
              });
          }));
  return CUDA_SUCCESS;
}

} // namespace sim
