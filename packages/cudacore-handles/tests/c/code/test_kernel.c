/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: lookup, parameters, launches. */
#include "check.h"

static cch_context *context;
static cch_stream *stream;
static cch_library *library;
static const cch_launch_config one = {.size = sizeof one, .grid = {1, 1, 1}, .block = {1, 1, 1}};

static void open(void) {
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_library_load(&library, check_ptx, strlen(check_ptx)));
}

static void close(void) {
  cch_library_unref(library);
  cch_stream_unref(stream);
  cch_context_unref(context);
}

static cch_kernel *get(const char *name) {
  cch_kernel *kernel;
  OK(cch_kernel_get(&kernel, library, name));
  return kernel;
}

/* The offsets of parameters would differ from the driver's, or the driver would be queried again and again. */
static void parameters_are_asked_for_once(void) {
  static const cch_param expected[] = {{0, 8}, {8, 4}, {12, 4}, {16, 8}, {24, 12}};
  const cch_param *params, *again;
  size_t count;
  cch_kernel *kernel = get("mixed"), *empty = get("empty");
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cch_kernel_params(&params, &count, kernel, NULL)); /* no context is current */
  sim.reset();
  OK(cch_kernel_params(&params, &count, kernel, context));
  CHECK_EQ(count, CHECK_MIXED_COUNT);
  CHECK(memcmp(params, expected, sizeof expected) == 0);
  size_t calls = sim.calls("cuKernelGetParamInfo");
  OK(cch_context_set_current(context));
  OK(cch_kernel_params(&again, &count, kernel, NULL));
  CHECK(again == params && sim.calls("cuKernelGetParamInfo") == calls);
  OK(cch_kernel_params(&params, &count, empty, NULL));
  CHECK_EQ(count, 0);
  OK(cch_context_set_current(NULL));
  cch_kernel_unref(kernel);
  cch_kernel_unref(empty);
}

/* Arguments with too few or too many bytes would reach the driver, which accepts too few silently. */
static void wrong_size_is_refused(void) {
  char block[CHECK_MIXED_SIZE + 1] = {0};
  cch_kernel *kernel = get("mixed"), *empty = get("empty");
  for (size_t size = 0; size <= sizeof block; size++)
    if (size != CHECK_MIXED_SIZE)
      FAILS(CCH_EMISMATCH, cch_launch(stream, &one, kernel, block, size));
  CHECK_HAS(check_error()->message, "36");
  CHECK_HAS(check_error()->message, "37");
  FAILS(CCH_EMISMATCH, cch_launch(stream, &one, empty, block, 1));
  CHECK_EQ(sim.calls("cuLaunchKernelEx"), 0);
  cch_kernel_unref(kernel);
  cch_kernel_unref(empty);
}

/*
 * A geometry that the device does not support would be accepted, or a config with the size of another header version
 * would be read beyond its end.
 */
static void bad_configs_fail(void) {
  cch_kernel *kernel = get("empty");
  cch_launch_config config = one;
  config.block[0] = 2048;
  FAILS(CUDA_ERROR_INVALID_VALUE, cch_launch(stream, &config, kernel, NULL, 0));
  config = one;
  config.grid[1] = 0;
  FAILS(CUDA_ERROR_INVALID_VALUE, cch_launch(stream, &config, kernel, NULL, 0));
  config = one;
  config.cluster[0] = 2, config.cluster[1] = 1, config.cluster[2] = 1;
  FAILS(CUDA_ERROR_INVALID_CLUSTER_SIZE, cch_launch(stream, &config, kernel, NULL, 0));
  config = one;
  config.size = offsetof(cch_launch_config, priority) - 4; /* smaller than the structure of version 0.1 */
  FAILS(CCH_EINVAL, cch_launch(stream, &config, kernel, NULL, 0));
  struct { /* the structure of a newer header, which has more fields */
    cch_launch_config now;
    int later;
  } larger = {one, 0};
  larger.now.size = sizeof larger;
  OK(cch_launch(stream, &larger.now, kernel, NULL, 0));
  larger.later = 1;
  FAILS(CCH_EINVAL, cch_launch(stream, &larger.now, kernel, NULL, 0));
  config = one;
  config.flags = 1u << 31; /* a flag of a newer header */
  FAILS(CCH_EINVAL, cch_launch(stream, &config, kernel, NULL, 0));
  CHECK_HAS(check_error()->message, "0x80000000");
  config = one;
  config.cluster[1] = 2; /* invalid, because the extent along x is 0 */
  CHECK(cch_launch(stream, &config, kernel, NULL, 0) != 0);
  OK(cch_launch(stream, &one, kernel, NULL, 0)); /* all objects are still usable */
  cch_kernel_unref(kernel);
}

int main(void) {
  check_open();
  check_around(open, close);
  RUN(parameters_are_asked_for_once);
  RUN(wrong_size_is_refused);
  RUN(bad_configs_fail);
  return 0;
}
