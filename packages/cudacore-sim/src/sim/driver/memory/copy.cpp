/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills as units of work. */
#include "sim/driver/graph/capture.h"
#include "sim/driver/base/host_memory.h"
#include "sim/driver/base/room.h"

#include "sim/control/report.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

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

constexpr uint64_t page = 4096;

/* The driver stages this much of pageable memory, and waits for a copy of more. */
constexpr uint64_t most_staged = 65536;

/* A fill with zeros of at least this much gives whole pages back. */
constexpr uint64_t least_given_back = 16 << 20;

struct Checked {
  Side side;
  uint64_t bytes;
  bool known;          /* to CUDA: not pageable memory of the host */
  bool staged = false; /* it is in memory of the driver's own */
};

CUresult check(const Context &context, const Side &side, const Shape &shape, bool write, Checked &out) {
  State &s = state();
  out = {side, extent(side, shape), s.memory.find(side.address) != nullptr, false};
  if (out.bytes == UINT64_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  if (out.known)
    return s.memory.accessible(side.context != nullptr ? *side.context : context, side.address, out.bytes, write,
                               Memory::Check::copy)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  if (side.place == Place::device || s.arena.contains(side.address))
    return CUDA_ERROR_INVALID_VALUE;
  /* Of much of it only the ends are looked at now: the rest is when it is used, without the lock. */
  bool is_usable_host = out.bytes <= most_staged
                            ? is_usable(side.address, out.bytes, write)
                            : is_mapped(side.address, out.bytes) && is_usable(side.address, 1, write) &&
                                  is_usable(side.address + out.bytes - 1, 1, write);
  return is_usable_host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Memory of a pool of the host, not of a node of it, is nothing that functions for device memory take. */
AllocationPtr in_host_pool(const Side &side) {
  AllocationPtr found = side.place == Place::device ? state().memory.find(side.address) : nullptr;
  bool is_pooled = found != nullptr && found->pool != nullptr && !found->pool->is_managed();
  return is_pooled && found->pool->properties.location.type == CU_MEM_LOCATION_TYPE_HOST ? found : nullptr;
}

/* Host memory is looked at and used in pieces of this size. */
constexpr uint64_t piece = 64 << 20;

/* Of device memory that is written to: how much of the host's it will take. */
constexpr uint64_t worth_a_look = 1 << 20;

uint64_t untouched(uint64_t address, uint64_t bytes) {
  AllocationPtr allocation = state().memory.find(address);
  bool counts = allocation != nullptr && (!allocation->host_accessible() || allocation->is_managed());
  if (!counts || bytes > allocation->end() - address)
    return 0; /* or it cannot be used at all, which is told apart elsewhere */
  return untouched_bytes(allocation->host + (address - allocation->base), bytes);
}

/* Where a side is when the work runs. */
class View {
public:
  /* False: it is not there any more. Takes the state's lock. */
  bool open(Context &context, const Checked &what, bool writes, bool touches = true) {
    write = writes;
    if (!what.known) {
      spans.push_back({what.side.address, what.side.address + what.bytes, handle_of<std::byte *>(what.side.address),
                       nullptr, !what.staged});
      return true;
    }
    State &s = state();
    std::lock_guard<std::mutex> guard(s.mutex);
    uint64_t address = what.side.address, end = address + what.bytes;
    if (write && touches && what.bytes >= worth_a_look && !has_room(what.bytes, promised_bytes()) &&
        !has_room(untouched(address, what.bytes), promised_bytes())) {
      report_fault(std::string("a copy or fill was not done: ") + no_room(), CUDA_ERROR_OUT_OF_MEMORY);
      context.fail(CUDA_ERROR_OUT_OF_MEMORY);
      return false;
    }
    const Context &with_access = what.side.context != nullptr ? *what.side.context : context;
    if (!s.memory.accessible(with_access, address, what.bytes, write, Memory::Check::copy_at_run)) {
      report_fault(std::string(write ? "a copy or fill writes to " : "a copy reads from ") + hex(address) + ", " +
                       s.memory.explain(address),
                   CUDA_ERROR_ILLEGAL_ADDRESS);
      context.fail(CUDA_ERROR_ILLEGAL_ADDRESS);
      return false;
    }
    while (address < end) {
      AllocationPtr allocation = s.memory.find(address);
      spans.push_back({address, allocation->end(), allocation->host + (address - allocation->base),
                       allocation->backing(), allocation->kind == Allocation::Kind::registered});
      address = allocation->end();
    }
    return true;
  }

  /* The longest piece from an address on, of at most `run` bytes. Null: it cannot be used. */
  std::byte *at(uint64_t address, uint64_t &run) {
    auto span = std::find_if(spans.begin(), spans.end(), [&](const Span &s) { return address < s.end; });
    run = std::min(run, span->end - address);
    if (span->is_applications) {
      run = std::min(run, piece);
      if (address < usable_from || address + run > usable_to) {
        if (!is_usable(address, run, write))
          return nullptr;
        usable_from = address / page * page;
        usable_to = (address + run + page - 1) / page * page;
      }
    }
    return span->host + (address - span->begin);
  }

  bool is_blamed = false; /* for what nobody has written: once is enough for all rows */

  /* Whether it is on the device alone. */
  static bool is_hidden(uint64_t address, const std::byte *host) {
    return handle_of<const std::byte *>(address) != host;
  }

private:
  struct Span {
    uint64_t begin, end;
    std::byte *host;
    std::shared_ptr<const void> backing;
    bool is_applications; /* which may unmap or protect it */
  };
  std::vector<Span> spans;
  bool write = false;
  uint64_t usable_from = 0, usable_to = 0; /* what was looked at last */
};

/* For those who look at the order of work. Takes the state's lock. */
void note_use(const Checked &what, const Shape &shape, bool write) {
  if (!ordering() || what.staged)
    return;
  std::lock_guard<std::mutex> guard(state().mutex);
  const OrderedPtr &unit = Executor::running()->ordered;
  Manner manner = write ? Manner::write : Manner::read;
  bool in_a_row = (shape.height == 1 || what.side.pitch == shape.width) &&
                  (shape.depth == 1 || what.side.slice == shape.width * shape.height);
  if (in_a_row)
    return touch(unit, what.side.address, shape.width * shape.height * shape.depth, manner);
  for (uint64_t z = 0; z < shape.depth; z++)
    for (uint64_t y = 0; y < shape.height; y++)
      touch(unit, what.side.address + z * what.side.slice + y * what.side.pitch, shape.width, manner);
}

/* Ends with the first row that fails. */
template <class Row> bool for_each_row(const Shape &shape, Row row) {
  for (uint64_t z = 0; z < shape.depth; z++)
    for (uint64_t y = 0; y < shape.height; y++)
      if (!row(y, z))
        return false;
  return true;
}

uint64_t row_address(const Side &side, uint64_t y, uint64_t z) {
  return side.address + z * side.slice + y * side.pitch;
}

/* What is copied is as much written as it was; what comes from elsewhere is. */
void mark_copied(const std::byte *target, const std::byte *source, uint64_t bytes) {
  const Arena &arena = state().arena;
  std::byte *marks = arena.written(target);
  if (marks == nullptr)
    return;
  if (const std::byte *from = source != nullptr ? arena.written(source) : nullptr)
    std::memmove(marks, from, bytes);
  else
    std::memset(marks, 1, bytes);
}

/* What leaves the device should be something. Takes the state's lock where it is not. */
void check_written(View &from, uint64_t address, const std::byte *source, uint64_t bytes) {
  State &s = state();
  const std::byte *marks = from.is_blamed ? nullptr : s.arena.written(source);
  if (marks == nullptr || std::any_of(marks, marks + bytes, [](std::byte mark) { return mark != std::byte{0}; }))
    return;
  std::lock_guard<std::mutex> guard(s.mutex);
  AllocationPtr allocation = s.memory.find(address);
  if (allocation == nullptr || allocation->written() == nullptr)
    return;
  from.is_blamed = true;
  report("a copy from the device has nothing to read: nobody wrote the " + std::to_string(bytes) + " bytes at " +
         hex(address) + ", " + s.memory.explain(address));
}

bool copy_row(View &to, uint64_t to_address, View &from, uint64_t from_address, uint64_t bytes) {
  while (bytes > 0) {
    uint64_t run = bytes;
    std::byte *target = to.at(to_address, run);
    const std::byte *source = from.at(from_address, run);
    if (target == nullptr || source == nullptr)
      return false;
    if (state().arena.written(target) == nullptr)
      check_written(from, from_address, source, run);
    std::memmove(target, source, run);
    mark_copied(target, source, run);
    to_address += run;
    from_address += run;
    bytes -= run;
  }
  return true;
}

/* Whole pages of a file read as zeros again once they are given back, and need no memory. */
void clear(std::byte *target, uint64_t bytes) {
  uint64_t begin = value_of(target), from = (begin + page - 1) / page * page, to = (begin + bytes) / page * page;
  if (madvise(handle_of<void *>(from), to - from, MADV_REMOVE) != 0)
    from = to = begin + bytes;
  std::memset(target, 0, from - begin);
  std::memset(handle_of<void *>(to), 0, begin + bytes - to);
}

bool fill_row(View &to, uint64_t address, uint64_t bytes, uint32_t value, unsigned unit) {
  while (bytes > 0) {
    uint64_t run = bytes;
    std::byte *target = to.at(address, run);
    if (target == nullptr)
      return false;
    if (value == 0 && run >= least_given_back && View::is_hidden(address, target)) {
      clear(target, run);
    } else if (unit == 1) {
      std::memset(target, static_cast<int>(value & 0xFF), run);
    } else {
      for (uint64_t i = 0; i < run; i += unit)
        std::memcpy(target + i, &value, unit);
    }
    mark_copied(target, nullptr, run);
    address += run;
    bytes -= run;
  }
  return true;
}

/* Copies what CUDA knows, mappings side by side included. */
void read_known(uint64_t address, std::byte *to, uint64_t bytes) {
  while (bytes > 0) {
    AllocationPtr allocation = state().memory.find(address);
    uint64_t run = std::min(bytes, allocation->end() - address);
    std::memcpy(to, allocation->host + (address - allocation->base), run);
    address += run;
    to += run;
    bytes -= run;
  }
}

/* Pageable memory may change once the call has returned, so that what is copied is read before. Null: it cannot be. */
std::shared_ptr<std::vector<std::byte>> read_now(Checked &from, const Shape &shape) {
  auto bytes = std::make_shared<std::vector<std::byte>>(shape.width * shape.height * shape.depth);
  std::byte *next = bytes->data();
  AllocationPtr allocation = from.known ? state().memory.find(from.side.address) : nullptr;
  bool may_be_gone = !from.known || allocation->kind == Allocation::Kind::registered;
  bool is_read = for_each_row(shape, [&](uint64_t y, uint64_t z) {
    uint64_t row = row_address(from.side, y, z);
    if (may_be_gone && from.bytes > most_staged && !is_usable(row, shape.width, false))
      return false;
    if (from.known) {
      read_known(row, next, shape.width);
      next += shape.width;
      return true;
    }
    std::memcpy(next, handle_of<const void *>(row), shape.width);
    next += shape.width;
    return true;
  });
  if (!is_read)
    return nullptr;
  from.side = {Place::host, value_of(bytes->data()), shape.width, shape.width * shape.height};
  from.bytes = bytes->size();
  from.known = false;
  from.staged = true;
  return bytes;
}

/* Work has met memory that its owner has unmapped or protected. Takes the state's lock. */
void fail_unusable(Context &context) {
  std::lock_guard<std::mutex> guard(state().mutex);
  report_fault("a copy or fill uses host memory that was unmapped or protected", CUDA_ERROR_ILLEGAL_ADDRESS);
  context.fail(CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* The bytes that a copy moves; UINT64_MAX where that overflows. */
uint64_t amount(const Shape &shape) {
  uint64_t bytes = 0;
  return __builtin_mul_overflow(shape.width, shape.height, &bytes) || __builtin_mul_overflow(bytes, shape.depth, &bytes)
             ? UINT64_MAX
             : bytes;
}

bool on_host(const Checked &side) {
  AllocationPtr allocation = side.known ? state().memory.find(side.side.address) : nullptr;
  return allocation == nullptr || allocation->host_accessible();
}

CUresult capture_copy(const StreamPtr &stream, const Side &to, const Side &from, const Shape &shape);

} // namespace

void describe_shape(Traced &out, const Shape &shape) {
  out.details = "\"bytes\": " + std::to_string(shape.width * shape.height * shape.depth);
}

CUresult copy(const StreamPtr &stream, const Side &to, const Side &from, const Shape &shape, Return when, Read read) {
  if (shape.width == 0 || shape.height == 0 || shape.depth == 0)
    return CUDA_SUCCESS;
  if (in_host_pool(to) != nullptr || in_host_pool(from) != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  ContextPtr context = stream->context.lock();
  bool is_captured = false;
  if (CUresult result = check_work(stream, is_captured))
    return result;
  if (is_captured)
    return when == Return::at_once ? capture_copy(stream, to, from, shape) : check_uncaptured_work(stream);
  Checked target, source;
  if (CUresult result = check(*context, to, shape, true, target))
    return result;
  if (CUresult result = check(*context, from, shape, false, source))
    return result;
  bool wait = !target.known || (!source.known && amount(shape) > most_staged) ||
              (when == Return::when_synchronous && (on_host(target) || on_host(source)));
  std::shared_ptr<std::vector<std::byte>> kept;
  bool read_before = !source.known || read == Read::during_call;
  if (read_before && !wait && (kept = read_now(source, shape)) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  auto outcome = std::make_shared<CUresult>(CUDA_SUCCESS);
  UnitPtr unit = new_unit("copy", context, [context, target, source, shape, kept, outcome] {
    View into, out_of;
    note_use(source, shape, false);
    note_use(target, shape, true);
    if (!into.open(*context, target, true) || !out_of.open(*context, source, false))
      return;
    bool is_copied = for_each_row(shape, [&](uint64_t y, uint64_t z) {
      return copy_row(into, row_address(target.side, y, z), out_of, row_address(source.side, y, z), shape.width);
    });
    if (!is_copied && target.known && (source.known || source.staged))
      fail_unusable(*context);
    else if (!is_copied)
      *outcome = CUDA_ERROR_INVALID_VALUE; /* the call waits for it */
  });
  if (unit->traced != nullptr)
    describe_shape(*unit->traced, shape);
  enqueue(stream, unit);
  if (!wait)
    return CUDA_SUCCESS;
  state().executor.wait(Call::current().lock, unit);
  CUresult result = usable(context);
  return result != CUDA_SUCCESS ? result : *outcome;
}

CUresult fill(const StreamPtr &stream, const Side &to, const Shape &shape, uint32_t value, unsigned bytes,
              Return when) {
  if (shape.width == 0 || shape.height == 0)
    return CUDA_SUCCESS;
  if (to.address % bytes != 0 || (shape.height > 1 && to.pitch % bytes != 0))
    return CUDA_ERROR_INVALID_VALUE;
  ContextPtr context = stream->context.lock();
  bool is_captured = false;
  if (CUresult result = check_work(stream, is_captured))
    return result;
  if (is_captured) {
    CUDA_MEMSET_NODE_PARAMS_v2 fields{
        to.address, to.pitch, value, bytes, shape.width / bytes, shape.height, handle_of<CUcontext>(context->handle)};
    capture_node(stream, CU_GRAPH_NODE_TYPE_MEMSET,
                 std::make_shared<const Params>(MemsetParams{fields, context, to, shape}));
    return CUDA_SUCCESS;
  }
  Checked target;
  /* A fill is a kernel's: copies reach another device's memory, too. */
  if (AllocationPtr filled = state().memory.find(to.address);
      filled != nullptr && !may_access(*context, *filled, true)) {
    explain("a fill writes to " + hex(to.address) + ", " + state().memory.explain(to.address) + ": device " +
            std::to_string(context->device->ordinal) +
            " has no access to it (cuCtxEnablePeerAccess, cuMemPoolSetAccess)");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (CUresult result = check(*context, to, shape, true, target))
    return result;
  UnitPtr unit = new_unit("fill", context, fill_work(context, to, shape, value, bytes));
  if (unit->traced != nullptr)
    describe_shape(*unit->traced, shape);
  enqueue(stream, unit);
  if (when == Return::at_once || !on_host(target))
    return CUDA_SUCCESS;
  state().executor.wait(Call::current().lock, unit);
  return usable(context);
}

namespace {

/* A side as it is when the work is made; of host memory nothing is known before it is used. */
Checked unchecked(const Side &side, const Shape &shape) {
  bool known = state().memory.find(side.address) != nullptr || state().arena.contains(side.address);
  return {side, extent(side, shape), known, false};
}

/* Memory may be that of an allocation node, which is not there yet. */
CUresult check_node(const Context &context, const Side &side, const Shape &shape, bool write) {
  State &s = state();
  uint64_t bytes = extent(side, shape);
  if (side.address == 0 || bytes == UINT64_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  if (s.memory.find(side.address) != nullptr)
    return s.memory.accessible(context, side.address, bytes, write, Memory::Check::node) ? CUDA_SUCCESS
                                                                                         : CUDA_ERROR_INVALID_VALUE;
  return side.place == Place::device || s.arena.contains(side.address) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUmemorytype type_of(const Side &side) {
  return side.place == Place::host     ? CU_MEMORYTYPE_HOST
         : side.place == Place::device ? CU_MEMORYTYPE_DEVICE
                                       : CU_MEMORYTYPE_UNIFIED;
}

CUresult capture_copy(const StreamPtr &stream, const Side &to, const Side &from, const Shape &shape) {
  ContextPtr context = stream->context.lock();
  if (CUresult result = check_copy_node(*context, to, from, shape))
    return result;
  CUDA_MEMCPY3D fields{};
  fields.srcMemoryType = type_of(from);
  fields.dstMemoryType = type_of(to);
  if (from.place == Place::host)
    fields.srcHost = handle_of<const void *>(from.address);
  else
    fields.srcDevice = from.address;
  if (to.place == Place::host)
    fields.dstHost = handle_of<void *>(to.address);
  else
    fields.dstDevice = to.address;
  fields.srcPitch = from.pitch;
  fields.dstPitch = to.pitch;
  fields.srcHeight = shape.depth > 1 && from.pitch != 0 ? from.slice / from.pitch : 0;
  fields.dstHeight = shape.depth > 1 && to.pitch != 0 ? to.slice / to.pitch : 0;
  fields.WidthInBytes = shape.width;
  fields.Height = shape.height;
  fields.Depth = shape.depth;
  capture_node(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
               std::make_shared<const Params>(MemcpyParams{fields, context, to, from, shape}));
  return CUDA_SUCCESS;
}

} // namespace

CUresult check_copy_node(const Context &context, const Side &to, const Side &from, const Shape &shape) {
  if (CUresult result = check_node(context, to, shape, true))
    return result;
  return check_node(context, from, shape, false);
}

std::function<void()> copy_work(const ContextPtr &context, const Side &to, const Side &from, const Shape &shape) {
  return [context, target = unchecked(to, shape), source = unchecked(from, shape), shape] {
    View into, out_of;
    note_use(source, shape, false);
    note_use(target, shape, true);
    if (!into.open(*context, target, true) || !out_of.open(*context, source, false))
      return;
    bool is_copied = for_each_row(shape, [&](uint64_t y, uint64_t z) {
      return copy_row(into, row_address(target.side, y, z), out_of, row_address(source.side, y, z), shape.width);
    });
    if (!is_copied)
      fail_unusable(*context);
  };
}

CUresult check_fill_node(const Context &context, const Side &to, const Shape &shape, unsigned bytes) {
  if (to.address % bytes != 0 || (shape.height > 1 && to.pitch % bytes != 0))
    return CUDA_ERROR_INVALID_VALUE;
  return check_node(context, to, shape, true);
}

std::function<void()> fill_work(const ContextPtr &context, const Side &to, const Shape &shape, uint32_t value,
                                unsigned bytes) {
  return [context, target = unchecked(to, shape), shape, value, bytes] {
    View into;
    note_use(target, shape, true);
    if (!into.open(*context, target, true, value != 0 || shape.width < least_given_back))
      return;
    bool is_filled = for_each_row(shape, [&](uint64_t y, uint64_t z) {
      return fill_row(into, row_address(target.side, y, z), shape.width, value, bytes);
    });
    if (!is_filled)
      fail_unusable(*context);
  };
}

} // namespace sim
