/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GROWTH_H
#define GROWTH_H

/*
 * Declarations of other versions of the headers, for test_growth.c, which runs with the current library. Structures of
 * version 0.1 are frozen here. Structures of a future version have one field more than the current ones. This header
 * declares only what test_growth.c uses.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct cch_context cch_context;
typedef struct cch_stream cch_stream;
typedef struct cch_pool cch_pool;
typedef struct cch_library cch_library;
typedef struct cch_kernel cch_kernel;

typedef struct cch_pool_config {
  size_t size;
  int32_t location_type;
  int32_t location_id;
  uint32_t handle_types;
  uint32_t reserved;
  uint64_t max_size;
#ifdef FUTURE
  int32_t alloc_type;
  uint32_t reserved_2;
  uint64_t usage;
#endif
} cch_pool_config;

typedef struct cch_launch_config {
  uint32_t size;
  uint32_t flags;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t cluster[3];
  uint32_t shared_bytes;
#ifdef FUTURE
  int32_t priority;
  uint32_t carveout;
#endif
} cch_launch_config;

typedef struct cch_error {
  int32_t domain;
  int32_t code;
  char operation[64];
  char message[440];
} cch_error;

#ifdef FUTURE
typedef struct cch_error_record {
  size_t size;
  int32_t domain;
  int32_t code;
  char operation[64];
  char message[440];
  void *node;
  void *graph;
} cch_error_record;
void cch_error_get(cch_error_record *out);
#endif

enum { CCH_EINVAL = -2 };

int cch_context_primary(cch_context **out, int device);
void cch_context_unref(cch_context *context);
int cch_stream_create(cch_stream **out, cch_context *context, unsigned flags, int priority);
void cch_stream_unref(cch_stream *stream);
int cch_pool_create(cch_pool **out, const cch_pool_config *config);
int cch_pool_device(const cch_pool *pool);
void cch_pool_unref(cch_pool *pool);
int cch_library_load(cch_library **out, const void *image, size_t size);
void cch_library_unref(cch_library *library);
int cch_kernel_get(cch_kernel **out, cch_library *library, const char *name);
void cch_kernel_unref(cch_kernel *kernel);
int cch_launch(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel, const void *args,
               size_t args_size);
void cch_error_last(cch_error *out);
void cch_error_clear(void);
size_t cch_live_count(int kind);

#endif
