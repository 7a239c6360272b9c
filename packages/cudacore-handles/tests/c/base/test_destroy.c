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

enum { MANY = 2000 };

/* Drops memory during a capture, in which the driver refuses to free it. */
static void refuse_many(void) {
  static cch_deviceptr *ptrs[MANY];
  for (int i = 0; i < MANY; i++)
    ptrs[i] = buffer(stream);
  begin(stream);
  for (int i = 0; i < MANY; i++)
    cch_unref(ptrs[i]);
  CHECK_EQ(cch_reclaim_pending(), MANY);
}

/* Every later call would try again to destroy boxes that the driver refused to destroy, and become slower. */
static void refused_boxes_cost_little(void) {
  refuse_many();
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
  refuse_many();
  cch_event *event = new_event();
  sim.reset();
  driver.cuThreadExchangeStreamCaptureMode(&(CUstreamCaptureMode){CU_STREAM_CAPTURE_MODE_RELAXED});
  for (int i = 0; i < 10; i++)
    OK(cch_event_synchronize(event));
  driver.cuThreadExchangeStreamCaptureMode(&(CUstreamCaptureMode){CU_STREAM_CAPTURE_MODE_GLOBAL});
  CHECK(sim.calls("cuStreamIsCapturing") + sim.calls("cuMemFreeAsync") < MANY / 2);
  CHECK_EQ(cch_reclaim_pending(), MANY);
  end(stream);
  OK(cch_event_synchronize(event));
  CHECK_EQ(cch_reclaim_pending(), 0); /* they are all destroyed by the first wait after the capture */
  cch_unref(event);
}

enum { THREADS = 8, ROUNDS = CHECK_SANITIZED ? 500 : 5000 };

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
  RUN(refused_call_is_repeated);
  check_around(open, close);
  RUN(capture_ends_in_the_middle_of_a_free);
  RUN(refused_boxes_cost_little);
  RUN(waiting_retries_few_boxes);
  RUN(threads_retry_what_was_refused);
  return 0;
}
