// SPDX-License-Identifier: Apache-2.0
#ifndef CUDACORE_CUDACORE_HPP
#define CUDACORE_CUDACORE_HPP

/**
 * @file cudacore.hpp
 * Owners of references, for C++11 and later. They throw no exceptions, and are as large as a pointer. The functions are
 * those of C:
 *
 *     cudacore::context context;
 *     cudacore::stream stream;
 *     int status = cch_context_primary(context.out(), 0);
 *     if (status == CCH_OK)
 *       status = cch_stream_create(stream.out(), context.get(), CCH_STREAM_NON_BLOCKING, 0);
 */

#include <cudacore/cudacore.h>

namespace cudacore {

/** Owns a reference to a box, and gives it back at its end. It can be moved, and share() takes one more reference. */
template <class Box> class owner {
public:
  owner() noexcept = default;
  /** Takes over a reference. */
  explicit owner(Box *reference) noexcept : box_(reference) {}
  owner(owner &&other) noexcept : box_(other.release()) {}
  owner &operator=(owner &&other) noexcept {
    reset(other.release()); /* nothing is lost if both are the same, because release() came first */
    return *this;
  }
  owner(const owner &) = delete;
  owner &operator=(const owner &) = delete;
  ~owner() { cch_unref(box_); }

  /** Returns an owner of one more reference to a box, which can be borrowed, such as the context of a stream. */
  static owner share(Box *box) noexcept { return owner(static_cast<Box *>(cch_ref(box))); }
  owner share() const noexcept { return share(box_); }

  Box *get() const noexcept { return box_; }
  explicit operator bool() const noexcept { return box_ != nullptr; }

  /** Gives the reference back, and returns the place for the reference that a function creates. */
  Box **out() noexcept {
    reset();
    return &box_;
  }

  /** Gives the reference back, and takes over another one. */
  void reset(Box *reference = nullptr) noexcept {
    Box *old = box_;
    box_ = reference;
    cch_unref(old);
  }

  /** Returns the reference, which the caller owns from then on. */
  Box *release() noexcept {
    Box *box = box_;
    box_ = nullptr;
    return box;
  }

private:
  Box *box_ = nullptr;
};

using context = owner<cch_context>;
using stream = owner<cch_stream>;
using event = owner<cch_event>;
using pool = owner<cch_pool>;
using deviceptr = owner<cch_deviceptr>;
using library = owner<cch_library>;
using kernel = owner<cch_kernel>;
using bundle = owner<cch_bundle>;
using graph = owner<cch_graph>;
using graph_node = owner<cch_graph_node>;
using graph_exec = owner<cch_graph_exec>;

} // namespace cudacore

#endif
