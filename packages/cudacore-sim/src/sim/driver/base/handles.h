/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_HANDLES_H
#define CUDACORE_SIM_DRIVER_BASE_HANDLES_H

#include "sim/control/config.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace sim {

enum class Kind : uint8_t {
  context = 1,
  stream,
  event,
  pool,
  library,
  kernel,
  module,
  function,
  physical,
  graph,
  graph_node,
  graph_exec,
  condition,
  user_object,
  green_context,
  link,
  graphics,
  array,
  mipmapped_array,
  texture,
  surface,
  count
};

const char *name_of(Kind kind);

/*
 * The number of a new object: 1 for the first one. Arranges the call that was requested with cudasim_on_create, if any.
 */
uint64_t number_object();

/* Whether objects of the kind are numbered. Nodes, kernels and others are not: they end with their graph or library. */
constexpr bool is_numbered(Kind kind) {
  return kind != Kind::graph_node && kind != Kind::kernel && kind != Kind::function && kind != Kind::condition &&
         kind != Kind::green_context;
}

/*
 * A table of handles of one kind. The value of a handle contains the kind, and is an address at which nothing is
 * mapped. Without CUDACORE_SIM_REUSE no value is used twice, so that destroyed handles stay known.
 */
template <class T> class Handles {
public:
  explicit Handles(Kind kind)
      : numbered(is_numbered(kind)), base(uint64_t{0x5C} << 40 | static_cast<uint64_t>(kind) << 34) {}

  uint64_t add(std::shared_ptr<T> object) {
    size_t index = slots.size();
    if (config().reuse_handles && !vacant.empty()) {
      index = vacant.back();
      vacant.pop_back();
      slots[index] = std::move(object);
      numbers[index] = next_number();
    } else {
      slots.push_back(std::move(object));
      numbers.push_back(next_number());
    }
    live++;
    return base + index * 16 + 16;
  }

  /* Makes a removed handle refer to a new object. For primary contexts: all of a device have the same handle. */
  void restore(uint64_t handle, std::shared_ptr<T> object) {
    slots[index_of(handle)] = std::move(object);
    numbers[index_of(handle)] = next_number();
    live++;
  }

  uint64_t number_of(uint64_t handle) const { return numbers[index_of(handle)]; }

  /* Null: the value is not a live handle. */
  std::shared_ptr<T> find(uint64_t handle) const {
    size_t index = index_of(handle);
    return index < slots.size() ? slots[index] : nullptr;
  }
  T *peek(uint64_t handle) const {
    size_t index = index_of(handle);
    return index < slots.size() ? slots[index].get() : nullptr;
  }

  /* Whether the value was a handle whose object was destroyed. */
  bool was_destroyed(uint64_t handle) const {
    size_t index = index_of(handle);
    return index < slots.size() && slots[index] == nullptr;
  }

  void remove(uint64_t handle, bool for_good = true) {
    size_t index = index_of(handle);
    slots[index] = nullptr;
    live--;
    if (for_good && config().reuse_handles)
      vacant.push_back(index);
  }

  size_t size() const { return live; }

  std::vector<std::shared_ptr<T>> all() const {
    std::vector<std::shared_ptr<T>> found;
    for (const auto &slot : slots)
      if (slot)
        found.push_back(slot);
    return found;
  }

  bool bears(uint64_t handle) const { return handle >> 34 == base >> 34; }

private:
  uint64_t next_number() const { return numbered ? number_object() : 0; }

  size_t index_of(uint64_t handle) const {
    if (!bears(handle) || handle == base || handle % 16 != 0)
      return SIZE_MAX;
    return (handle - base) / 16 - 1;
  }

  const bool numbered;
  const uint64_t base;
  std::deque<std::shared_ptr<T>> slots;
  std::deque<uint64_t> numbers; /* the numbers of the objects in `slots` */
  std::vector<size_t> vacant;
  size_t live = 0;
};

} // namespace sim

#endif
