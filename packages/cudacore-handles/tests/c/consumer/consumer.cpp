// SPDX-License-Identifier: Apache-2.0
// A C++ program that uses only the installed headers. It has boxes in smart pointers, and throws exceptions for errors.
#include <cudacore/cudacore.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

template <auto unref> struct Unref {
  template <class Box> void operator()(Box *box) const { unref(box); }
};
using Context = std::unique_ptr<cch_context, Unref<cch_context_unref>>;
using Stream = std::unique_ptr<cch_stream, Unref<cch_stream_unref>>;
using Event = std::unique_ptr<cch_event, Unref<cch_event_unref>>;

static void check(int status) {
  if (status == 0)
    return;
  const cch_error *error = cch_error_last();
  throw std::runtime_error(std::string(error->operation) + ": " + cch_error_name(status) + ": " + error->message);
}

// Calls `make(&box, ...)`, and returns an owner of the box.
template <class Owner, class Make, class... Arguments> static Owner made(Make make, Arguments... arguments) {
  typename Owner::pointer box = nullptr;
  check(make(&box, arguments...));
  return Owner(box);
}

static void measure() {
  Context context = made<Context>(cch_context_primary, 0);
  Stream stream = made<Stream>(cch_stream_create, context.get(), CCH_STREAM_NON_BLOCKING, 0);
  Event start = made<Event>(cch_event_create, context.get(), 0u);
  Event end = made<Event>(cch_event_create, context.get(), 0u);
  context.reset(); // the stream and the events keep the context alive
  check(cch_event_record(start.get(), stream.get()));
  check(cch_event_record(end.get(), stream.get()));
  check(cch_event_synchronize(end.get()));
  float milliseconds = -1.0f;
  check(cch_event_elapsed(&milliseconds, start.get(), end.get()));
  if (milliseconds < 0.0f)
    throw std::runtime_error("time runs backwards");
}

int main() {
  try {
    measure();
    cch_context *none = nullptr;
    if (cch_context_primary(&none, 12345) != 101 || none != nullptr) // CUDA_ERROR_INVALID_DEVICE
      throw std::runtime_error("device 12345 is there");
    for (int kind = 0; kind < CCH_KIND_COUNT; kind++)
      if (cch_live_count(kind) != 0)
        throw std::runtime_error("boxes of kind " + std::to_string(kind) + " are alive");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::puts("right");
}
