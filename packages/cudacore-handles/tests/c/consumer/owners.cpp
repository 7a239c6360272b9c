// SPDX-License-Identifier: Apache-2.0
// A C++ program without exceptions, which has its boxes in the owners of cudacore.hpp.
#include <cudacore/cudacore.hpp>

#include <cstdio>
#include <type_traits>
#include <utility>

static_assert(!std::is_copy_constructible<cudacore::stream>::value, "a copy would give one reference back twice");
static_assert(std::is_nothrow_move_constructible<cudacore::stream>::value, "vectors of owners would not be moved");
static_assert(sizeof(cudacore::stream) == sizeof(cch_stream *), "an owner is a pointer");

static int measure() {
  cudacore::context context;
  cudacore::stream stream;
  int status = cch_context_primary(context.out(), 0);
  if (status == CCH_OK)
    status = cch_stream_create(stream.out(), context.get(), CCH_STREAM_NON_BLOCKING, 0);
  if (status == CCH_OK)
    status = cch_stream_create(stream.out(), context.get(), CCH_STREAM_NON_BLOCKING, 0); // releases the first one
  if (status != CCH_OK)
    return status;
  cudacore::context shared = cudacore::context::share(cch_stream_context(stream.get()));
  context.reset();
  cudacore::stream moved = std::move(stream), other = moved.share();
  cudacore::stream &same = moved; // compilers warn about moved = std::move(moved)
  moved = std::move(same);
  if (stream || other.get() != moved.get() || cch_live_count(CCH_KIND_STREAM) != 1)
    return -1000;
  cch_stream_unref(other.release());
  cudacore::event event;
  status = cch_event_create(event.out(), shared.get(), 0u);
  if (status == CCH_OK)
    status = cch_event_record(event.get(), moved.get());
  return status == CCH_OK ? cch_event_synchronize(event.get()) : status;
}

int main() {
  int status = measure();
  if (status != CCH_OK) {
    std::fprintf(stderr, "%d: %s\n", status, cch_error_last()->message);
    return 1;
  }
  for (int kind = 0; kind < CCH_KIND_COUNT; kind++)
    if (cch_live_count(kind) != 0) {
      std::fprintf(stderr, "boxes of kind %d are alive\n", kind);
      return 1;
    }
  std::puts("right");
}
