/* SPDX-License-Identifier: Apache-2.0 */
/* The semantics of copies and fills: which memory they may use, and how bytes are moved. */
#include "sim/driver/memory/copy.h"

#include "sim/driver/base/host_memory.h"
#include "sim/driver/base/host_budget.h"

#include "sim/control/report.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace sim {
namespace {

/* The number of bytes from the first byte of a side to its last byte; UINT64_MAX if that overflows. */
uint64_t extent(const Side &side, const Shape &shape) {
  uint64_t planes = 0, rows = 0, all = 0;
  if (__builtin_mul_overflow(shape.depth - 1, side.slice, &planes) ||
      __builtin_mul_overflow(shape.height - 1, side.pitch, &rows) || __builtin_add_overflow(planes, rows, &all) ||
      __builtin_add_overflow(all, shape.width, &all))
    return UINT64_MAX;
  return all;
}

/* Whether a row shares bytes with a row of a side, of which it can reach into two planes, and into two rows of each. */
bool meets(uint64_t row, const Side &side, const Shape &shape) {
  uint64_t last = row + shape.width - 1;
  auto last_before = [](uint64_t bytes, uint64_t step, uint64_t count) {
    return step != 0 ? std::min(bytes / step, count - 1) : count - 1;
  };
  if (last < side.address)
    return false;
  uint64_t plane = last_before(last - side.address, side.slice, shape.depth);
  for (uint64_t k = plane > 0 ? plane - 1 : 0; k <= plane; k++) {
    uint64_t begin = side.address + k * side.slice, end = last_before(last - begin, side.pitch, shape.height);
    for (uint64_t j = end > 0 ? end - 1 : 0; j <= end; j++) {
      uint64_t there = begin + j * side.pitch;
      if (there <= last && row < there + shape.width)
        return true;
    }
  }
  return false;
}

bool overlaps(const Side &to, const Side &from, const Shape &shape) {
  bool is_same = to.address == from.address && (shape.height == 1 || to.pitch == from.pitch) &&
                 (shape.depth == 1 || to.slice == from.slice);
  uint64_t to_size = extent(to, shape), from_size = extent(from, shape);
  if (is_same || to_size == UINT64_MAX || from_size == UINT64_MAX || to.address >= from.address + from_size ||
      from.address >= to.address + to_size)
    return false;
  for (uint64_t k = 0; k < shape.depth; k++)
    for (uint64_t j = 0; j < shape.height; j++)
      if (meets(to.address + k * to.slice + j * to.pitch, from, shape))
        return true;
  return false;
}

/* A fill with zeros of at least this size returns whole pages to the system. */
constexpr uint64_t min_given_back = 16 << 20;

/* Host memory is checked in pieces of this size, each just before it is used. */
constexpr uint64_t piece = 64 << 20;

/* Before a write of at least this size, the host must have enough memory left. */
constexpr uint64_t check_threshold = 1 << 20;

uint64_t untouched(uint64_t address, uint64_t bytes) {
  AllocationPtr allocation = state().memory.find(address);
  bool counts = allocation != nullptr && (!allocation->host_accessible() || allocation->is_managed());
  if (!counts || bytes > allocation->end() - address)
    return 0; /* if the memory is unusable, another check detects that */
  return untouched_bytes(allocation->host + (address - allocation->base), bytes);
}

/* A side of a copy while the work runs. */
class View {
public:
  /* Finds the memory. False: the context has failed. Takes the state's lock. */
  bool open(Context &context, const CheckedSide &what, bool writes, bool touches = true) {
    write = writes;
    if (!what.known) {
      spans.push_back({what.side.address, what.side.address + what.bytes, handle_of<std::byte *>(what.side.address),
                       nullptr, !what.staged});
      return true;
    }
    State &s = state();
    std::lock_guard<std::mutex> guard(s.mutex);
    uint64_t address = what.side.address, end = address + what.bytes;
    if (write && touches && what.bytes >= check_threshold && !host_can_back(what.bytes, promised_bytes()) &&
        !host_can_back(untouched(address, what.bytes), promised_bytes())) {
      report_fault(std::string("a copy or fill was not done: ") + host_exhausted_text(), CUDA_ERROR_OUT_OF_MEMORY);
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

  /* Returns the host's address of the longest piece at an address, of at most `run` bytes. Null: it cannot be used. */
  std::byte *at(uint64_t address, uint64_t &run) {
    auto span = std::find_if(spans.begin(), spans.end(), [&](const Span &s) { return address < s.end; });
    run = std::min(run, span->end - address);
    if (span->is_applications) {
      run = std::min(run, piece);
      if (address < usable_from || address + run > usable_to) {
        if (!is_usable(address, run, write))
          return nullptr;
        usable_from = page_below(address);
        usable_to = page_above(address + run);
      }
    }
    return span->host + (address - span->begin);
  }

  bool is_blamed = false; /* an uninitialised read was reported, so that later rows are not reported */

  /* Whether the memory is at another address on the host, so that host code cannot use its device address. */
  static bool is_hidden(uint64_t address, const std::byte *host) {
    return handle_of<const std::byte *>(address) != host;
  }

private:
  struct Span {
    uint64_t begin, end;
    std::byte *host;
    std::shared_ptr<const void> backing;
    bool is_applications; /* host memory, which the application may unmap or protect */
  };
  std::vector<Span> spans;
  bool write = false;
  uint64_t usable_from = 0, usable_to = 0; /* the range that was checked last */
};

/* Records the side's bytes for the check of the order of work. Takes the state's lock. */
void note_use(const CheckedSide &what, const Shape &shape, bool write) {
  if (!ordering() || what.staged)
    return;
  std::lock_guard<std::mutex> guard(state().mutex);
  const OrderedPtr &unit = Executor::running()->ordered;
  AccessKind kind = write ? AccessKind::write : AccessKind::read;
  bool in_a_row = (shape.height == 1 || what.side.pitch == shape.width) &&
                  (shape.depth == 1 || what.side.slice == shape.width * shape.height);
  if (in_a_row)
    return record_access(unit, what.side.address, shape.width * shape.height * shape.depth, kind);
  for (uint64_t z = 0; z < shape.depth; z++)
    for (uint64_t y = 0; y < shape.height; y++)
      record_access(unit, what.side.address + z * what.side.slice + y * what.side.pitch, shape.width, kind);
}

/* Calls row(y, z) until it returns false. */
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

/* Copies the marks of written bytes; bytes without marks count as written. */
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

/* Reports a copy of bytes that were never written. Takes the state's lock to do so. */
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

/* Clears memory. Whole pages are returned to the system: they then read as zeros, and need no memory. */
void clear(std::byte *target, uint64_t bytes) {
  uint64_t begin = value_of(target), from = page_above(begin), to = page_below(begin + bytes);
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
    if (value == 0 && run >= min_given_back && View::is_hidden(address, target)) {
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

/* Copies memory that CUDA manages, which may be in adjacent mappings. */
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

} // namespace

CUresult check_side(const Context &context, const Side &side, const Shape &shape, bool write, CheckedSide &out) {
  State &s = state();
  out = {side, extent(side, shape), s.memory.find(side.address) != nullptr, false};
  if (out.bytes == UINT64_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  if (out.known)
    return s.memory.accessible(side.context != nullptr ? *side.context : context, side.address, out.bytes, write,
                               Memory::Check::copy)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  if (side.kind == MemoryKind::device || s.arena.contains(side.address))
    return CUDA_ERROR_INVALID_VALUE;
  /* For a large range, only the ends are checked now. The rest is checked when it is used, without the lock. */
  bool is_usable_host = out.bytes <= max_staged
                            ? is_usable(side.address, out.bytes, write)
                            : is_mapped(side.address, out.bytes) && is_usable(side.address, 1, write) &&
                                  is_usable(side.address + out.bytes - 1, 1, write);
  return is_usable_host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool is_in_host_pool(const Side &side) {
  AllocationPtr found = side.kind == MemoryKind::device ? state().memory.find(side.address) : nullptr;
  bool is_pooled = found != nullptr && found->pool != nullptr && !found->pool->is_managed();
  return is_pooled && found->pool->properties.location.type == CU_MEM_LOCATION_TYPE_HOST;
}

std::shared_ptr<std::vector<std::byte>> stage(CheckedSide &from, const Shape &shape) {
  auto bytes = std::make_shared<std::vector<std::byte>>(shape.width * shape.height * shape.depth);
  std::byte *next = bytes->data();
  AllocationPtr allocation = from.known ? state().memory.find(from.side.address) : nullptr;
  bool may_be_gone = !from.known || allocation->kind == Allocation::Kind::registered;
  bool is_read = for_each_row(shape, [&](uint64_t y, uint64_t z) {
    uint64_t row = row_address(from.side, y, z);
    if (may_be_gone && from.bytes > max_staged && !is_usable(row, shape.width, false))
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
  from.side = {MemoryKind::host, value_of(bytes->data()), shape.width, shape.width * shape.height};
  from.bytes = bytes->size();
  from.known = false;
  from.staged = true;
  return bytes;
}

void fail_unusable(Context &context) {
  std::lock_guard<std::mutex> guard(state().mutex);
  report_fault("a copy or fill uses host memory that was unmapped or protected", CUDA_ERROR_ILLEGAL_ADDRESS);
  context.fail(CUDA_ERROR_ILLEGAL_ADDRESS);
}

uint64_t size_of(const Shape &shape) {
  uint64_t bytes = 0;
  return __builtin_mul_overflow(shape.width, shape.height, &bytes) || __builtin_mul_overflow(bytes, shape.depth, &bytes)
             ? UINT64_MAX
             : bytes;
}

bool is_on_host(const CheckedSide &side) {
  AllocationPtr allocation = side.known ? state().memory.find(side.side.address) : nullptr;
  return allocation == nullptr || allocation->host_accessible();
}

bool copy_now(Context &context, const CheckedSide &to, const CheckedSide &from, const Shape &shape) {
  View into, out_of;
  note_use(from, shape, false);
  note_use(to, shape, true);
  if (!into.open(context, to, true) || !out_of.open(context, from, false))
    return true; /* the context has failed */
  return for_each_row(shape, [&](uint64_t y, uint64_t z) {
    return copy_row(into, row_address(to.side, y, z), out_of, row_address(from.side, y, z), shape.width);
  });
}

void describe_shape(Traced &out, const Shape &shape) {
  out.details = "\"bytes\": " + std::to_string(shape.width * shape.height * shape.depth);
}

namespace {

/* Returns a side of a node's copy or fill, for use when it runs. Host memory is not checked before it is used. */
CheckedSide unchecked(const Side &side, const Shape &shape) {
  bool known = state().memory.find(side.address) != nullptr || state().arena.contains(side.address);
  return {side, extent(side, shape), known, false};
}

/* Checks a side of a node. Its memory can be that of an allocation node, and not be allocated yet. */
CUresult check_node(const Context &context, const Side &side, const Shape &shape, bool write) {
  State &s = state();
  uint64_t bytes = extent(side, shape);
  if (side.address == 0 || bytes == UINT64_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  if (s.memory.find(side.address) != nullptr)
    return s.memory.accessible(context, side.address, bytes, write, Memory::Check::node) ? CUDA_SUCCESS
                                                                                         : CUDA_ERROR_INVALID_VALUE;
  return side.kind == MemoryKind::device || s.arena.contains(side.address) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

} // namespace

void report_overlap(const Side &to, const Side &from, const Shape &shape) {
  if (overlaps(to, from, shape))
    report("a copy from " + hex(from.address) + " to " + hex(to.address) + ", of " + std::to_string(shape.width) +
           " bytes in each of " + std::to_string(shape.height * shape.depth) +
           " rows, has a source and a destination that overlap: a GPU copies other bytes");
}

CUresult check_copy_node(const Context &context, const Side &to, const Side &from, const Shape &shape) {
  report_overlap(to, from, shape);
  SIM_RETURN_FAILURE(check_node(context, to, shape, true));
  return check_node(context, from, shape, false);
}

std::function<void()> copy_work(const ContextPtr &context, const Side &to, const Side &from, const Shape &shape) {
  return [context, target = unchecked(to, shape), source = unchecked(from, shape), shape] {
    if (!copy_now(*context, target, source, shape))
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
    if (!into.open(*context, target, true, value != 0 || shape.width < min_given_back))
      return;
    bool is_filled = for_each_row(shape, [&](uint64_t y, uint64_t z) {
      return fill_row(into, row_address(target.side, y, z), shape.width, value, bytes);
    });
    if (!is_filled)
      fail_unusable(*context);
  };
}

} // namespace sim
