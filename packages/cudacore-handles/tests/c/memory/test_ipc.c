/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing of memory and events between processes. Here, one process is both exporter and importer. */
#include "check.h"
#include "exporter.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { SIZE = 64, BLOCKS = 3 };

/*
 * The exporter's pool, its exported blocks with their handles, and the pool of the importer, an import of the
 * exporter's pool.
 */
typedef struct shared {
  cch_context *context;
  cch_stream *streams[2];
  cch_pool *pool, *imported;
  int descriptor;
  cch_deviceptr *blocks[BLOCKS];
  cch_ipc_handle handles[BLOCKS];
} shared;

static void open_shared(shared *s) {
  cch_pool_config config = {.size = sizeof config,
                            .location_type = CCH_LOCATION_DEVICE,
                            .handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
  OK(cch_context_primary(&s->context, 0));
  for (int i = 0; i < 2; i++)
    OK(cch_stream_create(&s->streams[i], s->context, CCH_STREAM_NON_BLOCKING, 0));
  OK(cch_pool_create(&s->pool, &config));
  OK(cch_pool_export(&s->descriptor, s->pool));
  OK(cch_pool_import(&s->imported, s->descriptor, CCH_LOCATION_DEVICE, 0));
  for (int i = 0; i < BLOCKS; i++) {
    OK(cch_deviceptr_alloc_async(&s->blocks[i], s->pool, SIZE, s->streams[0]));
    OK(cch_deviceptr_export(&s->handles[i], s->blocks[i]));
  }
}

static void close_shared(shared *s) {
  check_settle(); /* an import ends when the work of its streams is done, and must end before the exported object */
  cch_pool_unref(s->imported);
  for (int i = 0; i < BLOCKS; i++)
    cch_deviceptr_unref(s->blocks[i]);
  cch_pool_unref(s->pool);
  for (int i = 0; i < 2; i++)
    cch_stream_unref(s->streams[i]);
  cch_context_unref(s->context);
  close(s->descriptor);
  cch_reclaim_drain();
}

static int open_import(cch_deviceptr **out, shared *s, int which, int stream) {
  return cch_deviceptr_import_part(out, s->imported, &s->handles[which], 0, SIZE, s->streams[stream]);
}

/* If the library cannot make a stream wait for all uses of the memory, it would unmap the memory while it is used. */
static void end_without_streams_waits(void) {
  static const char *const steps[] = {"cuStreamCreateWithPriority", "cuEventCreate", "cuEventRecord",
                                      "cuStreamWaitEvent"};
  shared s;
  cch_deviceptr *first, *second;
  open_shared(&s);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    OK(open_import(&first, &s, 0, 0));
    OK(open_import(&second, &s, 0, 1));
    sim.reset();
    sim.fail(steps[i], 0, CUDA_ERROR_OUT_OF_MEMORY);
    cch_deviceptr_unref(first);
    cch_deviceptr_unref(second);
    /* Without a new stream (i is 0), one of the two streams waits for the other. Otherwise, the host waits. */
    CHECK_EQ(sim.calls("cuStreamSynchronize"), i == 0 ? 0 : 2);
    sim.reset();
    CHECK_EQ(sim.live(CUDASIM_DEVICE_MEMORY), BLOCKS);
  }
  close_shared(&s);
}

enum { THREADS = 8, ROUNDS = CHECK_SANITIZED ? 300 : 2000 };

static void open_use_drop(int index, void *argument) {
  shared *s = argument;
  for (int i = 0; i < ROUNDS; i++) {
    cch_deviceptr *mine;
    int which = (index + i) % BLOCKS;
    /* If two streams filled the same memory, ThreadSanitizer would report a race. */
    int stream = (CHECK_SANITIZED ? which : index + i) % 2;
    OK(open_import(&mine, s, which, stream));
    OK(cch_deviceptr_fill(mine, 1, 1, s->streams[stream]));
    switch (i % 5) {
    case 0:
      cch_unref_deferred(mine);
      break;
    case 1:
      cch_callback_enter();
      cch_deviceptr_unref(mine);
      cch_callback_leave();
      break;
    default:
      cch_deviceptr_unref(mine);
    }
  }
}

/*
 * If threads import memory that others drop, the memory would be mapped twice at the same time, be unmapped while it is
 * used, or never be unmapped.
 */
static void threads_import_what_others_drop(void) {
  shared s;
  open_shared(&s);
  check_threads(THREADS, open_use_drop, &s);
  cch_reclaim_drain();
  CHECK_EQ(sim.live(CUDASIM_DEVICE_MEMORY), BLOCKS);
  CHECK(sim.calls("cuMemPoolImportPointer") >= BLOCKS);
  CHECK_EQ(sim.calls("cuMemPoolImportPointer"), sim.calls("cuMemFreeAsync"));
  close_shared(&s);
}

static void import_pool_and_drop(int index, void *argument) {
  shared *s = argument;
  (void)index;
  for (int i = 0; i < ROUNDS; i++) {
    cch_pool *pool;
    cch_deviceptr *memory;
    OK(cch_pool_import(&pool, s->descriptor, CCH_LOCATION_DEVICE, 0));
    OK(cch_deviceptr_import_part(&memory, pool, &s->handles[0], 0, SIZE, s->streams[0]));
    cch_pool_unref(pool);
    OK(cch_deviceptr_fill(memory, 1, 1, s->streams[0]));
    cch_deviceptr_unref(memory);
    /*
     * A pool exists until its last free is done, and the address space has room for only a few hundred pools; with
     * ThreadSanitizer, it has room for fewer.
     */
    if (i % (CHECK_SANITIZED ? 2 : 8) == 0)
      OK(cch_stream_synchronize(s->streams[0]));
  }
}

static void *drop_pool(void *pool) {
  cch_pool_unref(pool);
  return NULL;
}

/*
 * An import of a pool would never end if another thread imports the same pool and memory while the first import is
 * being ended.
 */
static void import_ends_beside_another(void) {
  shared s;
  cch_pool *again;
  cch_deviceptr *memory;
  pthread_t thread;
  open_shared(&s);
  sim.hold("cuMemPoolDestroy");
  CHECK_EQ(pthread_create(&thread, NULL, drop_pool, s.imported), 0);
  s.imported = NULL;
  while (sim.held("cuMemPoolDestroy") == 0)
    sched_yield();
  OK(cch_pool_import(&again, s.descriptor, CCH_LOCATION_DEVICE, 0));
  OK(cch_deviceptr_import_part(&memory, again, &s.handles[0], 0, SIZE, s.streams[0]));
  sim.let_go("cuMemPoolDestroy");
  CHECK_EQ(pthread_join(thread, NULL), 0);
  cch_deviceptr_unref(memory);
  CHECK_EQ(sim.live(CUDASIM_POOL), 2);
  cch_pool_unref(again);
  CHECK_EQ(sim.live(CUDASIM_POOL), 1);
  close_shared(&s);
}

/* If threads import a pool while other threads drop their imports of it, one import would never end. */
static void threads_import_the_pool(void) {
  shared s;
  open_shared(&s);
  cch_pool_unref(s.imported);
  s.imported = NULL;
  check_threads(THREADS, import_pool_and_drop, &s);
  CHECK_EQ(sim.live(CUDASIM_POOL), 1);
  close_shared(&s);
}

/* A default stream that was resolved without a context is dropped once, also if no other context can be used. */
static void default_stream_without_context(void) {
  shared s;
  cch_deviceptr *memory = NULL;
  open_shared(&s);
  OK(cch_context_set_current(NULL));
  cch_stream *stream = cch_stream_legacy();
  sim.reset();
  sim.fail("cuCtxGetCurrent", 2, CUDA_ERROR_UNKNOWN);
  CHECK_EQ(cch_deviceptr_import_part(&memory, s.imported, &s.handles[0], 0, SIZE, stream), CUDA_ERROR_UNKNOWN);
  sim.reset();
  OK(cch_deviceptr_import_part(&memory, s.imported, &s.handles[0], 0, SIZE, stream));
  cch_deviceptr_unref(memory);
  cch_stream_unref(stream);
  close_shared(&s);
}

int main(void) {
  check_open();
  RUN(end_without_streams_waits);
  RUN(threads_import_what_others_drop);
  RUN(import_ends_beside_another);
  RUN(threads_import_the_pool);
  RUN(default_stream_without_context);
  return 0;
}
