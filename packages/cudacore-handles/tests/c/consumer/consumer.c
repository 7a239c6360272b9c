/* SPDX-License-Identifier: Apache-2.0 */
/* A C program that uses only the installed headers: fills device memory and reads it back. */
#include <cudacore/cudacore.h>

#include <stdio.h>

enum { COUNT = 1000 };

static int fail(const char *what, int status) {
  const cch_error *error = cch_error_last();
  fprintf(stderr, "%s: %s (%s: %s)\n", what, cch_error_name(status), error->operation, error->message);
  return 1;
}

int main(void) {
  cch_context *context = NULL;
  cch_stream *stream = NULL;
  cch_pool *pool = NULL;
  cch_deviceptr *device = NULL, *host = NULL;
  const uint32_t *numbers;
  int status, failed = 1;
  size_t i;

  if ((status = cch_context_primary(&context, 0)) != 0 ||
      (status = cch_stream_create(&stream, context, CCH_STREAM_NON_BLOCKING, 0)) != 0 ||
      (status = cch_pool_current(&pool, 0)) != 0) {
    fail("cannot set up", status);
    goto done;
  }
  /* The allocation keeps its pool, its stream and their context, so the program can release them. */
  status = cch_deviceptr_alloc_async(&device, pool, COUNT * sizeof *numbers, stream);
  if (status == 0)
    status = cch_deviceptr_alloc_host(&host, context, COUNT * sizeof *numbers, 0);
  if (status == 0)
    status = cch_deviceptr_fill(device, 42, 4, stream);
  if (status == 0)
    status = cch_deviceptr_copy(host, device, COUNT * sizeof *numbers, stream);
  if (status == 0)
    status = cch_stream_synchronize(stream);
  if (status != 0) {
    fail("cannot copy", status);
    goto done;
  }
  numbers = (const uint32_t *)(uintptr_t)cch_deviceptr_raw(host);
  failed = 0;
  for (i = 0; i < COUNT; i++)
    failed |= numbers[i] != 42;
  printf("%s\n", failed ? "wrong" : "right");

done:
  cch_context_unref(context);
  cch_pool_unref(pool);
  cch_stream_unref(stream);
  cch_deviceptr_unref(device);
  cch_deviceptr_unref(host);
  for (i = 0; i < CCH_KIND_COUNT; i++)
    if (cch_live_count((int)i) != 0) {
      fprintf(stderr, "%zu boxes of kind %zu are alive\n", cch_live_count((int)i), i);
      failed = 1;
    }
  return failed;
}
