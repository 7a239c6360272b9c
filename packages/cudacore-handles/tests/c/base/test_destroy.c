/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes that are destroyed in difficult situations: deep chains, host functions, captures, other threads. */
#include "device.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static cch_stream *second;

static void open(void) {
  device_open();
  OK(cch_stream_create(&second, context, CCH_STREAM_NON_BLOCKING, 0));
}

static void close(void) {
  cch_stream_unref(second);
  device_close();
}

static cch_deviceptr *buffer(cch_stream *on) {
  cch_deviceptr *ptr;
  OK(cch_deviceptr_alloc_async(&ptr, pool, 64, on));
  return ptr;
}

static void begin(cch_stream *captured) {
  CHECK_EQ(driver.cuStreamBeginCapture(cch_stream_raw(captured), CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
}

/* Ends a capture, which must still be valid. */
static void end(cch_stream *captured) {
  CUgraph graph;
  CHECK_EQ(driver.cuStreamEndCapture(cch_stream_raw(captured), &graph), 0);
  CHECK_EQ(driver.cuGraphDestroy(graph), 0);
}

/*
 * Finds a driver function's call number `nth` in the log, where 0 is the first. The result is valid until call_of() is
 * called again.
 */
static const cudasim_call *call_of(const char *name, int nth) {
  static cudasim_call call;
  for (size_t i = 0; sim.log(i, &call, 1) == 1; i++)
    if (strcmp(call.function, name) == 0 && nth-- == 0)
      return &call;
  check_fail(__FILE__, __LINE__, "%s was not called so often", name);
}

enum { DEEP = CHECK_SANITIZED ? 100000 : 1000000 };

static void unref(void *box) { cch_unref(box); }

/* Creates and drops a chain of bundles. Each bundle holds the next one, as a box or as a foreign object. */
static void drop_chain(bool is_foreign) {
  cch_bundle *chain = NULL;
  for (int i = 0; i < DEEP; i++) {
    cch_bundle *link;
    OK(cch_bundle_create(&link, 1));
    if (chain != NULL && is_foreign) {
      OK(cch_bundle_add_object(link, chain, unref));
    } else if (chain != NULL) {
      OK(cch_bundle_add(link, chain));
      cch_bundle_unref(chain);
    }
    chain = link;
  }
  cch_bundle_unref(chain);
}

/* Destroying a long chain of boxes that hold one another would overflow the stack. */
static void chains_are_deep(void) { drop_chain(false); }

/* Destroying a long chain of foreign objects, each of which holds the next box, would overflow the stack. */
static void chains_through_owners_are_deep(void) { drop_chain(true); }

static int released;
static void release(void *owner) {
  CUcontext current;
  released += *(int *)owner;
  CHECK_EQ(driver.cuCtxGetCurrent(&current), 0); /* release functions may call the driver */
}

static void free_foreign(void *owner, CUdeviceptr ptr, size_t size, cch_stream *on) {
  (void)ptr, (void)size, (void)on;
  release(owner);
}

/* Dropping boxes in a host function, without cch_callback_enter(), would leak the boxes, or call the driver. */
static void host_functions_only_queue(void) {
  cch_pool_config config = {.size = sizeof config, .location_type = CCH_LOCATION_DEVICE};
  int one = 1;
  CUevent raw;
  cch_event *wrapped;
  cch_stream *dead_stream;
  cch_pool *dead_pool;
  cch_deviceptr *device, *pinned, *foreign;
  cch_library *library;
  cch_kernel *kernel;
  cch_bundle *bundle;
  open();
  cch_event *dead = new_event();
  OK(cch_context_set_current(context));
  CHECK_EQ(driver.cuEventCreate(&raw, 0), 0);
  OK(cch_context_set_current(NULL));
  released = 0;
  OK(cch_event_wrap(&wrapped, raw, &one, release));
  CUcontext kept; /* keeps the context alive for the foreign event, which this test destroys at the end */
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&kept, 0), 0);
  OK(cch_stream_create(&dead_stream, context, 0, 0));
  OK(cch_pool_create(&dead_pool, &config));
  cch_deviceptr *from_pool = buffer(dead_stream);
  OK(cch_deviceptr_alloc(&device, context, 64));
  OK(cch_deviceptr_alloc_host(&pinned, context, 64, 0));
  OK(cch_deviceptr_set_stream(pinned, dead_stream));
  OK(cch_deviceptr_wrap(&foreign, 0x1000, 1, NULL, &one, free_foreign));
  OK(cch_library_load(&library, check_ptx, strlen(check_ptx)));
  OK(cch_kernel_get(&kernel, library, "add"));
  OK(cch_bundle_create(&bundle, 1));
  OK(cch_bundle_add_object(bundle, &one, release));
  sim.reset();
  sim.forbid(1);
  cch_unref(dead);
  cch_unref(wrapped);
  cch_unref(dead_stream);
  cch_unref(dead_pool);
  cch_unref(from_pool);
  cch_unref(device);
  cch_unref(pinned);
  cch_unref(foreign);
  cch_unref(library);
  cch_unref(kernel);
  cch_unref(bundle);
  close(); /* this also drops the last reference to the context */
  CHECK_EQ(released, 0);
  CHECK_EQ(sim.live(CUDASIM_CONTEXT), 1);
  CHECK_EQ(sim.calls("cuEventDestroy") + sim.calls("cuMemFreeAsync") + sim.calls("cuLibraryUnload"), 0);
  CHECK_EQ(cch_reclaim_drain(), 0); /* destroys nothing while CUDA calls are forbidden */
  sim.forbid(0);
  CHECK(cch_reclaim_pending() > 0);
  CHECK(cch_reclaim_drain() > 0);
  CHECK_EQ(released, 3);
  CHECK_EQ(cch_reclaim_pending(), 0);
  CHECK_EQ(driver.cuEventDestroy(raw), 0);
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(0), 0);
}

/* If the driver refuses to destroy a resource at first, the resource would leak, or the refusal would be reported. */
static void refused_call_is_repeated(void) {
  static const char *const names[] = {
      "cuMemFreeAsync",  "cuMemFree",       "cuMemFreeHost",  "cuMemPoolDestroy",
      "cuLibraryUnload", "cuStreamDestroy", "cuEventDestroy", "cuDevicePrimaryCtxRelease"};
  cch_pool_config config = {.size = sizeof config, .location_type = CCH_LOCATION_DEVICE};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    cch_library *library;
    cch_pool *own;
    cch_deviceptr *device, *pinned;
    open();
    OK(cch_library_load(&library, check_ptx, strlen(check_ptx)));
    OK(cch_pool_create(&own, &config));
    OK(cch_deviceptr_alloc(&device, context, 64));
    OK(cch_deviceptr_alloc_host(&pinned, context, 64, 0));
    cch_deviceptr *from_pool = buffer(stream);
    cch_event *dead = new_event();
    sim.fail(names[i], 1, CUDA_ERROR_NOT_PERMITTED);
    cch_unref(library);
    cch_unref(own);
    cch_unref(device);
    cch_unref(pinned);
    cch_unref(from_pool);
    cch_unref(dead);
    close();
    CHECK_EQ(cch_reclaim_pending(), 1);
    cch_reclaim_drain();
    CHECK_CLEAN();
  }
}

/* Dropping a box during a capture, on the same thread or another one, would invalidate the capture. */
static void drops_break_no_capture(void) {
  cch_pool_config config = {.size = sizeof config, .location_type = CCH_LOCATION_DEVICE};
  cch_library *library;
  cch_pool *own;
  cch_deviceptr *device, *pinned;
  cch_stream *dead_stream;
  OK(cch_library_load(&library, check_ptx, strlen(check_ptx)));
  OK(cch_pool_create(&own, &config));
  OK(cch_deviceptr_alloc(&device, context, 64));
  OK(cch_deviceptr_alloc_host(&pinned, context, 64, 0));
  OK(cch_deviceptr_set_stream(pinned, second));
  OK(cch_stream_create(&dead_stream, context, 0, 0));
  cch_deviceptr *from_pool = buffer(second);
  cch_event *dead = new_event();
  begin(stream);
  cch_unref(library);
  cch_unref(own);
  cch_unref(device);
  cch_unref(pinned);
  cch_unref(dead_stream);
  cch_unref(from_pool);
  cch_unref(dead);
  CHECK_EQ(cch_reclaim_pending(), 0); /* none of these calls conflicts with the capture */
  end(stream);
}

static void unref_in_thread(int index, void *box) {
  (void)index;
  cch_unref(box);
}

static void drops_break_no_capture_of_another_thread(void) {
  cch_deviceptr *device;
  OK(cch_deviceptr_alloc(&device, context, 64));
  begin(stream);
  check_threads(1, unref_in_thread, buffer(stream)); /* memory that the capture allocated is freed in the capture */
  check_threads(1, unref_in_thread, device);
  end(stream);
}

/* Memory that is dropped while its stream is captured would be freed by the captured graph, or never. */
static void free_waits_for_the_end_of_a_capture(void) {
  cch_deviceptr *pinned;
  cch_deviceptr *outside = buffer(stream);
  OK(cch_deviceptr_alloc_host(&pinned, context, 64, 0));
  OK(cch_deviceptr_set_stream(pinned, stream));
  begin(stream);
  cch_unref(outside);
  cch_unref(pinned);
  CHECK_EQ(cch_reclaim_pending(), 2);
  CHECK_EQ(cch_reclaim_drain(), 0);
  end(stream);
  CHECK_EQ(cch_reclaim_pending(), 2);
  OK(cch_stream_synchronize(second)); /* a call that waits is a safe point */
  CHECK_EQ(cch_reclaim_pending(), 0);
  CHECK_EQ(sim.live(CUDASIM_DEVICE_MEMORY), 0);
}

static void *unref_it(void *box) {
  cch_unref(box);
  return NULL;
}

/*
 * If a capture ends after the driver has refused a free, but before the library queries the reason, the memory would
 * leak.
 */
static void capture_ends_in_the_middle_of_a_free(void) {
  pthread_t thread;
  cch_deviceptr *ptr = buffer(stream);
  begin(stream);
  sim.hold("cuStreamIsCapturing");
  CHECK_EQ(pthread_create(&thread, NULL, unref_it, ptr), 0);
  while (sim.held("cuStreamIsCapturing") == 0)
    sched_yield();
  end(stream);
  sim.let_go("cuStreamIsCapturing");
  CHECK_EQ(pthread_join(thread, NULL), 0);
  cch_reclaim_drain();
  CHECK_EQ(sim.live(CUDASIM_DEVICE_MEMORY), 0);
}

static void no_news(const cch_error *error) { check_fail(__FILE__, __LINE__, "%s is reported", error->operation); }

/*
 * Memory that a capture allocated would not be freed in that capture, would be freed in the next capture, or would be
 * freed although it does not exist, because its graph never ran.
 */
static void memory_of_a_capture_is_freed_in_it(void) {
  CUgraph graph;
  CUgraphExec exec;
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
  for (int runs = 0; runs < 2; runs++) {
    sim.reset();
    begin(stream);
    cch_deviceptr *inside = buffer(stream), *left = buffer(stream);
    cch_unref(inside);
    CHECK_EQ(cch_reclaim_pending(), 0);
    CHECK_EQ(sim.calls("cuMemFreeAsync"), 1);
    CHECK_EQ(driver.cuStreamEndCapture(cch_stream_raw(stream), &graph), 0);
    OK(cch_context_set_current(context));
    CHECK_EQ(driver.cuGraphInstantiateWithParams(&exec, graph, &params), 0);
    OK(cch_context_set_current(NULL));
    if (runs)
      CHECK_EQ(driver.cuGraphLaunch(exec, cch_stream_raw(stream)), 0);
    begin(stream);
    cch_error_set_report(no_news);
    cch_unref(left); /* if the graph never ran, the memory does not exist, and is not freed */
    CHECK_EQ(cch_reclaim_pending(), runs);
    CHECK_EQ(sim.calls("cuMemFreeAsync"), 1);
    end(stream);
    CHECK_EQ(cch_reclaim_drain(), runs);
    CHECK_EQ(sim.calls("cuMemFreeAsync"), 1 + runs);
    cch_error_set_report(NULL);
    CHECK_EQ(driver.cuGraphExecDestroy(exec), 0);
    CHECK_EQ(driver.cuGraphDestroy(graph), 0);
  }
}

/*
 * A free on the legacy stream would invalidate the capture of another stream, because the legacy stream waits for other
 * streams.
 */
static void legacy_stream_waits_for_captures(void) {
  cch_stream *legacy = cch_stream_legacy();
  cch_deviceptr *pinned;
  OK(cch_context_set_current(context));
  cch_deviceptr *ptr = buffer(legacy), *other = buffer(legacy);
  OK(cch_context_set_current(NULL));
  OK(cch_deviceptr_alloc_host(&pinned, context, 64, 0));
  OK(cch_deviceptr_set_stream(pinned, legacy));
  begin(second); /* `second` is non-blocking, so its capture affects no other stream */
  cch_unref(other);
  CHECK_EQ(cch_reclaim_pending(), 0);
  end(second);
  begin(stream);
  cch_unref(ptr);
  cch_unref(pinned);
  CHECK_EQ(cch_reclaim_pending(), 2);
  end(stream);
  CHECK_EQ(cch_reclaim_drain(), 2);
  cch_unref(legacy);
}

/* Every later call would try again to destroy boxes that the driver refused to destroy, and become slower. */
static void refused_boxes_cost_little(void) {
  enum { MANY = 2000 };
  static cch_deviceptr *ptrs[MANY];
  for (int i = 0; i < MANY; i++)
    ptrs[i] = buffer(stream);
  begin(stream);
  for (int i = 0; i < MANY; i++)
    cch_unref(ptrs[i]);
  CHECK_EQ(cch_reclaim_pending(), MANY);
  sim.reset();
  for (int i = 0; i < MANY; i++)
    cch_unref(new_event());
  CHECK(sim.calls("cuMemFreeAsync") <= 2 * MANY);
  end(stream);
  for (int i = 0; i < 2 * MANY && cch_reclaim_pending() != 0; i++)
    cch_unref(new_event());
  CHECK_EQ(cch_reclaim_pending(), 0); /* the boxes are destroyed even without a call that waits */
}

/* While a stream is captured, each wait for another one would try again to destroy all boxes that wait. */
static void waiting_retries_few_boxes(void) {
  enum { MANY = 1000 };
  static cch_deviceptr *ptrs[MANY];
  for (int i = 0; i < MANY; i++)
    ptrs[i] = buffer(stream);
  begin(stream);
  for (int i = 0; i < MANY; i++)
    cch_unref(ptrs[i]);
  cch_event *event = new_event();
  sim.reset();
  driver.cuThreadExchangeStreamCaptureMode(&(CUstreamCaptureMode){CU_STREAM_CAPTURE_MODE_RELAXED});
  for (int i = 0; i < 10; i++)
    OK(cch_event_synchronize(event));
  driver.cuThreadExchangeStreamCaptureMode(&(CUstreamCaptureMode){CU_STREAM_CAPTURE_MODE_GLOBAL});
  CHECK(sim.calls("cuStreamIsCapturing") + sim.calls("cuMemFreeAsync") < 500);
  CHECK_EQ(cch_reclaim_pending(), MANY);
  end(stream);
  OK(cch_event_synchronize(event));
  CHECK_EQ(cch_reclaim_pending(), 0); /* they are all destroyed by the first wait after the capture */
  cch_unref(event);
}

/* Allocating and freeing memory would take more driver calls than necessary. */
static void usual_path_is_short(void) {
  OK(cch_context_set_current(context));
  sim.reset();
  cch_unref(buffer(stream));
  CHECK(sim.calls("cuStreamIsCapturing") <= 1 && sim.calls("cuStreamGetCaptureInfo") == 0);
  CHECK(sim.calls("cuThreadExchangeStreamCaptureMode") <= 2);
  OK(cch_context_set_current(NULL));
}

/* A launch, the record of an event, or a wait on a stream would not be a safe point. */
static void every_call_drains(void) {
  static const cch_launch_config config = {.size = sizeof config, .grid = {1, 1, 1}, .block = {1, 1, 1}};
  cch_library *library;
  cch_kernel *kernel;
  OK(cch_library_load(&library, check_ptx, strlen(check_ptx)));
  OK(cch_kernel_get(&kernel, library, "empty"));
  cch_event *live = new_event();
#define DRAINS(call)                                                                                                   \
  cch_unref_deferred(new_event());                                                                                     \
  OK(call);                                                                                                            \
  CHECK_EQ(cch_reclaim_pending(), 0);
  DRAINS(cch_launch(stream, &config, kernel, NULL, 0))
  DRAINS(cch_event_record(live, stream))
  DRAINS(cch_stream_wait_event(second, live))
  cch_unref(live);
  cch_unref(kernel);
  cch_unref(library);
}

static cch_deviceptr *of_another_thread, *moved, *pinned_of_another_thread;
static void allocate_in_thread(int index, void *argument) {
  cch_stream *own = cch_stream_per_thread();
  (void)index, (void)argument;
  OK(cch_context_set_current(context));
  of_another_thread = buffer(own);
  OK(cch_deviceptr_set_stream(moved, own));
  OK(cch_deviceptr_set_stream(pinned_of_another_thread, own));
  cch_unref(buffer(own));
  /* On the thread that allocated, CU_STREAM_PER_THREAD is the stream of the allocation. */
  CHECK_PTR(call_of("cuMemFreeAsync", 0)->stream, CU_STREAM_PER_THREAD);
  OK(cch_context_set_current(NULL));
}

/*
 * Memory that is used on one thread's default stream would be freed on another thread's, which does not wait for the
 * use.
 */
static void per_thread_stream_is_the_allocating_threads(void) {
  cch_context *other;
  OK(cch_context_primary(&other, 1));
  moved = buffer(stream);
  OK(cch_deviceptr_alloc_host(&pinned_of_another_thread, context, 64, 0));
  sim.reset();
  check_threads(1, allocate_in_thread, NULL);
  OK(cch_context_set_current(other));
  sim.reset();
  cch_unref(of_another_thread);
  cch_unref(moved);
  for (int i = 0; i < 2; i++) {
    CHECK_PTR(call_of("cuMemFreeAsync", i)->stream, CU_STREAM_LEGACY);
    CHECK_PTR(call_of("cuMemFreeAsync", i)->context, cch_context_raw(context));
  }
  cch_unref(pinned_of_another_thread);
  CHECK_PTR(call_of("cuEventRecord", 0)->stream, CU_STREAM_LEGACY); /* the free waits for this event */
  CHECK_EQ(sim.calls("cuEventSynchronize"), 1);
  OK(cch_context_set_current(NULL));
  cch_context_unref(other);
}

enum { THREADS = 8, ROUNDS = CHECK_SANITIZED ? 500 : 5000 };

static void set_and_read_the_stream(int index, void *argument) {
  cch_deviceptr *ptr = argument;
  for (int i = 0; i < ROUNDS; i++) {
    cch_stream *mine, *found;
    if (index % 2) {
      OK(cch_stream_create(&mine, context, 0, 0));
      OK(cch_deviceptr_set_stream(ptr, mine));
      cch_stream_unref(mine);
    } else {
      found = cch_deviceptr_stream_ref(ptr);
      OK(cch_stream_query(found));
      cch_stream_unref(found);
    }
  }
}

/* If several threads set and read the stream of one allocation, a stream would be destroyed while a thread uses it. */
static void threads_set_the_stream(void) {
  cch_deviceptr *ptr = buffer(stream);
  check_threads(THREADS, set_and_read_the_stream, ptr);
  cch_unref(ptr);
}

static atomic_int turns;

static void drop_while_capturing(int index, void *argument) {
  (void)argument;
  for (int i = 0; i < ROUNDS / 10; i++) {
    cch_stream *own;
    OK(cch_stream_create(&own, context, CCH_STREAM_NON_BLOCKING, 0));
    cch_deviceptr *ptr = buffer(own);
    if (index % 2) {
      cch_unref(ptr);
    } else {
      CHECK_EQ(driver.cuStreamBeginCapture(cch_stream_raw(own), CU_STREAM_CAPTURE_MODE_RELAXED), 0);
      cch_unref(ptr);
      cch_unref(new_event());
      end(own);
    }
    cch_unref(own);
    atomic_fetch_add(&turns, 1);
  }
}

/* Threads that retry each other's refused boxes would lose a box, or free it twice. */
static void threads_retry_what_was_refused(void) {
  check_threads(THREADS, drop_while_capturing, NULL);
  cch_reclaim_drain();
}

int main(void) {
  check_open();
  RUN(chains_are_deep);
  RUN(chains_through_owners_are_deep);
  RUN(host_functions_only_queue);
  RUN(refused_call_is_repeated);
  check_around(open, close);
  RUN(drops_break_no_capture);
  RUN(drops_break_no_capture_of_another_thread);
  RUN(free_waits_for_the_end_of_a_capture);
  RUN(capture_ends_in_the_middle_of_a_free);
  RUN(memory_of_a_capture_is_freed_in_it);
  RUN(legacy_stream_waits_for_captures);
  RUN(refused_boxes_cost_little);
  RUN(waiting_retries_few_boxes);
  RUN(usual_path_is_short);
  RUN(every_call_drains);
  RUN(per_thread_stream_is_the_allocating_threads);
  RUN(threads_set_the_stream);
  RUN(threads_retry_what_was_refused);
  return 0;
}
