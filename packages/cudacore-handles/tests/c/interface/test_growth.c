/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that was compiled with the headers of version 0.1, or with those of a future version (FUTURE). Its
 * structures have other sizes than the library's. The structures lie at the end of a page, so that a read beyond them
 * faults.
 */
#define _GNU_SOURCE
#include "interface/growth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                  \
      _Exit(1);                                                                                                        \
    }                                                                                                                  \
  } while (0)

static const char ptx[] = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry empty()\n{\n  ret;\n}\n";

/* Allocates memory for a structure, followed by a page that cannot be read or written. */
static void *at_the_end(size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
  return pages + page - size;
}

int main(void) {
  cch_context *context;
  cch_stream *stream;
  cch_pool *pool = NULL;
  cch_library *library;
  cch_kernel *kernel;
  if (getenv("CUDACORE_DRIVER") == NULL)
    return 77;
  CHECK(cch_context_primary(&context, 0) == 0);
  CHECK(cch_stream_create(&stream, context, 0, 0) == 0);
  CHECK(cch_library_load(&library, ptx, strlen(ptx)) == 0);
  CHECK(cch_kernel_get(&kernel, library, "empty") == 0);

  cch_pool_config *pool_config = at_the_end(sizeof *pool_config);
  pool_config->size = sizeof *pool_config;
  pool_config->location_type = 1;
  pool_config->location_id = 1;
  CHECK(cch_pool_create(&pool, pool_config) == 0);
  CHECK(cch_pool_device(pool) == 1);
  cch_pool_unref(pool);
  pool_config->size--;
#ifndef FUTURE /* no version has a smaller structure than 0.1 */
  CHECK(cch_pool_create(&pool, pool_config) == CCH_EINVAL);
#endif

  cch_launch_config *config = at_the_end(sizeof *config);
  *config = (cch_launch_config){.size = sizeof *config, .grid = {1, 1, 1}, .block = {1, 1, 1}};
  CHECK(cch_launch(stream, config, kernel, NULL, 0) == 0);

#ifdef FUTURE
  /* Fields that this library does not have are refused, not ignored, if they are not zero. */
  pool_config->size = sizeof *pool_config;
  pool_config->usage = 1;
  CHECK(cch_pool_create(&pool, pool_config) == CCH_EINVAL);
  config->carveout = 1;
  CHECK(cch_launch(stream, config, kernel, NULL, 0) == CCH_EINVAL);
  cch_error_record *record = at_the_end(sizeof *record);
  record->size = sizeof *record;
  record->node = record->graph = record;
  cch_error_get(record);
  CHECK(record->size == sizeof *record && record->code == CCH_EINVAL && record->node == NULL && record->graph == NULL);
  CHECK(strcmp(record->operation, "cch_launch") == 0);
#else
  config->size -= 4;
  CHECK(cch_launch(stream, config, kernel, NULL, 0) == CCH_EINVAL);
#endif
  cch_error *error = at_the_end(sizeof *error);
  cch_error_last(error);
  CHECK(error->code == CCH_EINVAL && strstr(error->message, "cch_launch_config") != NULL);

  cch_kernel_unref(kernel);
  cch_library_unref(library);
  cch_stream_unref(stream);
  cch_context_unref(context);
  for (int kind = 0; kind < 16; kind++)
    CHECK(cch_live_count(kind) == 0);
  return 0;
}
