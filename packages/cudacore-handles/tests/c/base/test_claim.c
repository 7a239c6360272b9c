/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes that are found by a value instead of a handle, such as imports, which can be slow; and boxes whose resources
 * end before the boxes. The test is linked with the library's object files.
 */
#include "base/kinds.h"
#include "base/reclaim.h"
#include "base/registry.h"

#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

/* An import of another process's memory. All requests for the same memory share one mapping. */
typedef struct import {
  cch_deviceptr ptr;
  char value[CCH__VALUE_SIZE];
} import;

enum { VALUES = 3 };
static atomic_int mapped[VALUES], mappings;

/* Imitates the driver's mapping of memory. A driver returns CUDA_ERROR_ALREADY_MAPPED for a second mapping. */
static void map(int which) {
  CHECK_EQ(atomic_fetch_add(&mapped[which], 1), 0);
  atomic_fetch_add(&mappings, 1);
}

static void unmap(void *owner, CUdeviceptr ptr, size_t size, cch_stream *stream) {
  (void)owner, (void)size, (void)stream;
  for (int i = 0; i < 50; i++) /* slow, so that other threads can interfere */
    sched_yield();
  CHECK_EQ(atomic_fetch_sub(&mapped[ptr - 1], 1), 1);
}

static int open_import(import **out, int which, bool fail) {
  import *made = cch__box_new(CCH_KIND_DEVICEPTR, sizeof *made, __func__);
  CHECK(made != NULL);
  memset(made->value, 'a', sizeof made->value);
  made->value[sizeof made->value - 1] = (char)which; /* differs from other values only in the last byte */
  made->ptr.origin = CCH__FOREIGN;
  void *known = NULL;
  int status = cch__registry_claim(&known, made, made->value, sizeof made->value, __func__);
  if (status != 0 || known != NULL) {
    cch__box_free(made);
    *out = known;
    return status;
  }
  if (fail) {
    cch__registry_remove(made);
    cch__box_free(made);
    *out = NULL;
    return 0;
  }
  map(which);
  made->ptr.ptr = (CUdeviceptr)which + 1;
  made->ptr.free = unmap;
  cch__registry_made(made);
  *out = made;
  return 0;
}

enum { THREADS = 8, ROUNDS = CHECK_SANITIZED ? 300 : 3000 };

/* In a host function, a thread would wait forever for a queued import, which cannot be destroyed there. */
static void queued_import_cannot_be_opened_in_a_host_function(void) {
  import *dead, *again = NULL;
  OK(cch_driver_init());
  OK(open_import(&dead, 0, false));
  sim.forbid(1);
  cch_unref(dead);
  CHECK_EQ(cch_reclaim_pending(), 1);
  FAILS(CUDA_ERROR_NOT_PERMITTED, open_import(&again, 0, false));
  sim.forbid(0);
  OK(open_import(&again, 0, false)); /* the queued import is destroyed first */
  CHECK_EQ(cch_reclaim_pending(), 0);
  cch_unref(again);
  OK(open_import(&dead, 0, false));
  cch_callback_enter();
  cch_unref(dead);
  FAILS(CUDA_ERROR_NOT_PERMITTED, open_import(&again, 0, false));
  cch_callback_leave();
  cch_reclaim_drain();
}

static void open_again(void *owner) {
  import *again;
  (void)owner;
  OK(open_import(&again, 2, false));
  cch_unref(again);
}

/* A release function that opens an import which its own thread is destroying would wait forever. */
static void release_function_opens_what_dies_with_it(void) {
  import *dying;
  cch_bundle *bundle;
  OK(cch_driver_init());
  OK(open_import(&dying, 2, false));
  OK(cch_bundle_create(&bundle, 2));
  OK(cch_bundle_add(bundle, dying));
  OK(cch_bundle_add_object(bundle, &dying, open_again));
  cch_unref(dying);
  cch_bundle_unref(bundle);
}

/* Opens an import and drops it. This is the release function of foreign objects in bundles. */
static void open_and_let_go(void *value) {
  import *again;
  OK(open_import(&again, *(const int *)value, false));
  cch_unref(again);
}

static void let_go_anywhere(int index, void *argument) {
  static int values[VALUES] = {0, 1, 2};
  (void)argument;
  for (int i = 0; i < ROUNDS; i++) {
    int which = (index + i) % VALUES;
    import *mine;
    cch_bundle *bundle;
    OK(open_import(&mine, which, false));
    OK(cch_bundle_create(&bundle, 0));
    OK(cch_bundle_add(bundle, mine));
    OK(cch_bundle_add_object(bundle, &values[(which + i) % VALUES], open_and_let_go));
    cch_unref(mine);
    switch (i % 4) {
    case 0:
      cch_unref(bundle);
      break;
    case 1:
      cch_unref_deferred(bundle);
      break;
    case 2:
      cch_callback_enter();
      cch_unref(bundle);
      cch_callback_leave();
      break;
    default:
      sim.forbid(1);
      cch_unref(bundle);
      sim.forbid(0);
    }
  }
}

/* Threads that open, drop and queue imports, even in release functions, would wait for each other forever. */
static void threads_let_go_anywhere(void) {
  OK(cch_driver_init());
  check_threads(THREADS, let_go_anywhere, NULL);
  while (cch_reclaim_drain() > 0)
    ;
  CHECK_EQ(cch_reclaim_pending(), 0);
}

/* Drops imports in a forked child, whose parent held a lock during the fork. */
static void drop_while_locked(import *first, import *second) {
  alarm(10);
  cch_unref_deferred(first);
  cch_callback_enter();
  cch_unref(second);
  cch_callback_leave();
  cch_reclaim_drain();
  _exit(0);
}

/* A forked child that drops an import would wait for a lock whose holder exists only in the parent. */
static void forked_child_queues_nothing(void) {
  import *first, *second;
  int status;
  OK(cch_driver_init());
  OK(open_import(&first, 0, false));
  OK(open_import(&second, 1, false));
  cch__registry_lock(CCH_KIND_DEVICEPTR);
  pid_t child = fork();
  if (child == 0)
    drop_while_locked(first, second);
  cch__registry_unlock(CCH_KIND_DEVICEPTR);
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  cch_unref(first);
  cch_unref(second);
}

/* A resource that its owner has destroyed would be destroyed again by the box, or used. */
static void tombstones_are_touched_safely(void) {
  static const cch_launch_config config = {.size = sizeof config, .grid = {1, 1, 1}, .block = {1, 1, 1}};
  cch_context *context;
  cch_stream *stream, *found;
  cch_event *event;
  cch_deviceptr *ptr;
  cch_pool *pool;
  cch_library *library;
  cch_kernel *kernel, *none = NULL;
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_event_create(&event, context, 0));
  OK(cch_pool_current(&pool, 0));
  OK(cch_library_load(&library, check_ptx, strlen(check_ptx)));
  OK(cch_kernel_get(&kernel, library, "empty"));
  OK(cch_deviceptr_alloc(&ptr, context, 64));
  CUevent raw_event = cch_event_raw(event);
  CHECK_EQ(driver.cuEventDestroy(raw_event), 0);
  cch__invalidate(event);
  CHECK_EQ(cch_is_valid(event), 0);
  CHECK(cch_event_raw(event) == NULL);
  FAILS(CCH_EGONE, cch_event_record(event, stream));
  CHECK_HAS(check_error()->message, "event");
  FAILS(CCH_EGONE, cch_event_query(event));
  FAILS(CCH_EGONE, cch_event_synchronize(event));
  FAILS(CCH_EGONE, cch_event_elapsed(&(float){0}, event, event));
  FAILS(CCH_EGONE, cch_stream_wait_event(stream, event));
  cch_event *next;
  OK(cch_event_create(&next, context, 0));
  CHECK_PTR(cch_event_raw(next), raw_event); /* the driver uses the address again, and the tombstone is not found */
  cch_event *wrapped;
  OK(cch_event_wrap(&wrapped, raw_event, NULL, NULL));
  CHECK(wrapped == next);
  cch_event_unref(wrapped);
  cch_event_unref(event);
  OK(cch_event_query(next));
  cch_event_unref(next);

  CHECK_EQ(driver.cuMemFree(cch_deviceptr_raw(ptr)), 0);
  cch__invalidate(ptr);
  CHECK_EQ(cch_deviceptr_raw(ptr), 0);
  FAILS(CCH_EGONE, cch_deviceptr_fill(ptr, 0, 1, stream));
  FAILS(CCH_EGONE, cch_deviceptr_copy(ptr, ptr, 1, stream));
  FAILS(CCH_EGONE, cch_deviceptr_set_stream(ptr, stream));
  cch_deviceptr_unref(ptr);

  CHECK_EQ(driver.cuLibraryUnload(cch_library_raw(library)), 0);
  cch__invalidate(kernel);
  cch__invalidate(library);
  FAILS(CCH_EGONE, cch_kernel_get(&none, library, "empty"));
  cch_kernel_unref(kernel);
  cch_library_unref(library);

  cch_kernel *live_kernel;
  OK(cch_library_load(&library, check_ptx, strlen(check_ptx)));
  OK(cch_kernel_get(&live_kernel, library, "empty"));
  CUstream raw_stream = cch_stream_raw(stream);
  CHECK_EQ(driver.cuStreamDestroy(raw_stream), 0);
  cch__invalidate(stream);
  FAILS(CCH_EGONE, cch_stream_query(stream));
  FAILS(CCH_EGONE, cch_stream_synchronize(stream));
  FAILS(CCH_EGONE, cch_stream_flags(&(unsigned){0}, stream));
  FAILS(CCH_EGONE, cch_stream_wait_stream(stream, stream));
  FAILS(CCH_EGONE, cch_deviceptr_alloc_async(&ptr, pool, 1, stream));
  FAILS(CCH_EGONE, cch_occupancy_max_active_clusters(&(int){0}, stream, &config, live_kernel));
  FAILS(CCH_EGONE, cch_occupancy_max_potential_cluster_size(&(int){0}, stream, &config, live_kernel));
  cch_kernel_unref(live_kernel);
  cch_library_unref(library);
  OK(cch_stream_create(&found, context, 0, 0));
  cch_stream_unref(found);
  cch_stream_unref(stream);
  cch_pool_unref(pool);
  cch_context_unref(context);
}

int main(void) {
  check_open();
  RUN(queued_import_cannot_be_opened_in_a_host_function);
  RUN(release_function_opens_what_dies_with_it);
  RUN(threads_let_go_anywhere);
  RUN(forked_child_queues_nothing);
  RUN(tombstones_are_touched_safely);
  return 0;
}
