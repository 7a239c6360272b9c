/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of kernels. */
#include "base/reclaim.h"
#include "code/kernel.h"
#include "launch/launch_config.h"
#include "stream/capture.h"

#include <stdlib.h>

static int launch(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel, void **params,
                  void **extra) {
  cch__native_launch native;
  CCH__RETURN_FAILURE(cch__native_launch_fill(&native, config, stream->raw, "cch_launch"));
  /* The driver accepts a CUkernel as a CUfunction, and loads it in the current context at its first use. */
  return CCH__CALL(cuLaunchKernelEx, (&native.config, (CUfunction)kernel->raw, params, extra));
}

/*
 * Launches with the address of each argument in the block. The driver then copies each parameter with the size that it
 * has in the code, even if the caller stated other sizes. This is not inlined, so that ordinary launches do not have
 * the array on their stack.
 */
__attribute__((noinline)) static int launch_stated(cch_stream *stream, const cch_launch_config *config,
                                                   cch_kernel *kernel, const void *args, const cch__params *params) {
  enum { FEW = 32 };
  void *few[FEW], **pointers = few;
  if (params->count > FEW && (pointers = malloc(params->count * sizeof *pointers)) == NULL)
    return cch__fail_nomem("cch_launch");
  for (size_t i = 0; i < params->count; i++)
    pointers[i] = (char *)(uintptr_t)args + params->param[i].offset;
  int status = launch(stream, config, kernel, pointers, NULL);
  if (pointers != few)
    free(pointers);
  return status;
}

/* Launches with arguments packed in one block; the stream's context must be current. */
static inline __attribute__((always_inline)) int launch_block(cch_stream *stream, const cch_launch_config *config,
                                                              cch_kernel *kernel, const void *args, size_t args_size) {
  const cch__params *params;
  CCH__RETURN_FAILURE(cch__kernel_params(&params, kernel));
  if (args_size != params->block_size)
    return cch__fail(CCH_EMISMATCH, "cch_launch", "the kernel takes %zu bytes of arguments, not %zu",
                     params->block_size, args_size);
  if (args_size == 0)
    return launch(stream, config, kernel, NULL, NULL);
  if (params->stated)
    return launch_stated(stream, config, kernel, args, params);
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)args, CU_LAUNCH_PARAM_BUFFER_SIZE, &args_size,
                   CU_LAUNCH_PARAM_END};
  return launch(stream, config, kernel, NULL, extra);
}

cch_status cch_launch(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel, const void *args,
                      size_t args_size) {
  CCH__REQUIRE_USABLE(stream, config, kernel);
  CCH__REQUIRE_ARRAY(args, args_size);
  cch__poll();
  return CCH__IN_CONTEXT(stream->context, launch_block(stream, config, kernel, args, args_size));
}

/* Launches with arguments packed in one block. If the stream is captured, calls `keep` first. */
static int launch_keeping(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel, const void *args,
                          size_t args_size, cch_keep_fn keep, void *data) {
  bool captured;
  CCH__RETURN_FAILURE(cch__capture_query(&captured, stream));
  if (captured)
    CCH__RETURN_FAILURE(keep(data));
  return launch_block(stream, config, kernel, args, args_size);
}

cch_status cch_launch_keeping(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel, const void *args,
                              size_t args_size, cch_keep_fn keep, void *data) {
  CCH__REQUIRE_USABLE(stream, config, kernel, keep);
  CCH__REQUIRE_ARRAY(args, args_size);
  cch__poll();
  return CCH__IN_CONTEXT(stream->context, launch_keeping(stream, config, kernel, args, args_size, keep, data));
}
