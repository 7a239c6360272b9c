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

/*
 * Memory that is exported twice would get two handles. Another process would map it once for each handle, and ending
 * one mapping would end both.
 */
static void memory_has_one_name(void) {
  shared s;
  cch_ipc_handle again;
  cch_deviceptr *part, *first, *second;
  open_shared(&s);
  OK(cch_deviceptr_part(&part, s.blocks[0], 8, 8));
  OK(cch_deviceptr_export(&again, part));
  CHECK(memcmp(&again, &s.handles[0], sizeof again) == 0);
  OK(cch_deviceptr_import_part(&first, s.imported, &s.handles[0], 0, SIZE, s.streams[0]));
  OK(cch_deviceptr_import_part(&second, s.imported, &again, 8, 8, s.streams[0]));
  CHECK_EQ(cch_deviceptr_raw(second), cch_deviceptr_raw(first) + 8);
  CHECK_EQ(sim.calls("cuMemPoolImportPointer"), 1);
  cch_deviceptr_unref(first);
  cch_deviceptr_unref(second);
  cch_deviceptr_unref(part);
  close_shared(&s);
}

static size_t position_of(const char *name, const void *stream, size_t from) {
  cudasim_call call;
  for (size_t i = from; sim.log(i, &call, 1) == 1; i++)
    if (strcmp(call.function, name) == 0 && (stream == NULL || call.stream == stream))
      return i;
  check_fail(__FILE__, __LINE__, "%s was not called", name);
}

/* Memory would be unmapped while a stream that used an earlier import of it is still working. */
static void end_comes_behind_all_streams(void) {
  shared s;
  cch_deviceptr *first, *second;
  open_shared(&s);
  OK(open_import(&first, &s, 0, 0));
  OK(open_import(&second, &s, 0, 1));
  sim.reset();
  cch_deviceptr_unref(first);
  CHECK_EQ(sim.calls("cuEventRecord"), 0); /* the streams do not wait for each other */
  cch_deviceptr_unref(second);
  size_t first_record = position_of("cuEventRecord", cch_stream_raw(s.streams[0]), 0);
  size_t second_record = position_of("cuEventRecord", cch_stream_raw(s.streams[1]), 0);
  size_t end = position_of("cuMemFreeAsync", NULL, 0);
  CHECK(first_record < end && second_record < end);
  CHECK_EQ(sim.calls("cuStreamWaitEvent"), 2);
  CHECK_EQ(sim.calls("cuStreamSynchronize"), 0);
  CHECK_EQ(sim.live(CUDASIM_STREAM), 2 + (int)cch_helper_stream_count());

  OK(open_import(&first, &s, 0, 0));
  OK(open_import(&second, &s, 0, 0));
  OK(cch_deviceptr_set_stream(second, s.streams[1]));
  sim.reset();
  cch_deviceptr_unref(second);
  cch_deviceptr_unref(first);
  CHECK_EQ(sim.calls("cuStreamWaitEvent"), 2);

  OK(open_import(&first, &s, 0, 1));
  OK(open_import(&second, &s, 0, 1));
  sim.reset();
  cch_deviceptr_unref(second);
  cch_deviceptr_unref(first);
  CHECK_EQ(sim.calls("cuStreamWaitEvent"), 0); /* with only one stream, there is nothing to wait for */
  CHECK_EQ(sim.calls("cuMemFreeAsync"), 1);
  close_shared(&s);
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

/* If an import ends while its stream is captured, the capture would be invalidated, or the memory never be unmapped. */
static void end_waits_for_a_capture(void) {
  shared s;
  cch_deviceptr *first, *second, *again = NULL;
  cch_graph *graph;
  open_shared(&s);
  OK(open_import(&first, &s, 0, 0));
  OK(open_import(&second, &s, 0, 1));
  OK(cch_capture_begin(&graph, s.streams[0], CCH_CAPTURE_GLOBAL));
  cch_deviceptr_unref(first);
  cch_deviceptr_unref(second);
  CHECK_EQ(cch_reclaim_pending(), 1);
  CHECK_EQ(sim.live(CUDASIM_DEVICE_MEMORY), BLOCKS + 1);
  FAILS(CUDA_ERROR_NOT_PERMITTED, open_import(&again, &s, 0, 1));
  CHECK(again == NULL);
  OK(cch_capture_end(graph, s.streams[0]));
  cch_graph_unref(graph);
  OK(open_import(&again, &s, 0, 1)); /* the old mapping must end first */
  CHECK_EQ(sim.live(CUDASIM_DEVICE_MEMORY), BLOCKS + 1);
  cch_deviceptr_unref(again);
  close_shared(&s);
}

/* A long-lived mapping would keep every stream on which it was ever used. */
static void streams_are_let_go(void) {
  shared s;
  cch_deviceptr *holder, *import;
  open_shared(&s);
  OK(open_import(&holder, &s, 0, 0));
  for (int i = 0; i < 100; i++) {
    cch_stream *stream;
    OK(cch_stream_create(&stream, s.context, CCH_STREAM_NON_BLOCKING, 0));
    OK(cch_deviceptr_import_part(&import, s.imported, &s.handles[0], 0, SIZE, stream));
    cch_stream_unref(stream);
    cch_deviceptr_unref(import);
  }
  CHECK(sim.live(CUDASIM_STREAM) < 20);
  cch_deviceptr_unref(holder);
  CHECK_EQ(sim.live(CUDASIM_STREAM), 2 + (int)cch_helper_stream_count());
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

int main(void) {
  check_open();
  RUN(memory_has_one_name);
  RUN(end_comes_behind_all_streams);
  RUN(end_without_streams_waits);
  RUN(end_waits_for_a_capture);
  RUN(streams_are_let_go);
  RUN(threads_import_what_others_drop);
  RUN(import_ends_beside_another);
  RUN(threads_import_the_pool);
  return 0;
}
