/* SPDX-License-Identifier: Apache-2.0 */
/* The driver reuses the address that was freed last. A registry must not return the box that had it before. */
#include "device.h"

#include <pthread.h>
#include <time.h>

/* A foreign event at the address of a destroyed event of this library would be destroyed, too. */
static void foreign_event_at_our_address(void) {
  cch_event *event;
  CUevent raw;
  OK(cch_event_create(&event, context, 0));
  CUevent ours = cch_event_raw(event);
  cch_event_unref(event);
  CHECK_EQ(driver.cuEventCreate(&raw, 0), 0);
  CHECK_PTR(raw, ours);
  OK(cch_event_wrap(&event, raw, NULL, NULL));
  CHECK_EQ(cch_event_flags(event), CCH_EVENT_UNKNOWN);
  cch_event_unref(event);
  CHECK_EQ(sim.live(CUDASIM_EVENT), 1);
  CHECK_EQ(driver.cuEventDestroy(raw), 0);
}

/* Makes the box of a borrowed stream, which its owner has destroyed. */
static cch_stream *stale_stream(CUstream *raw) {
  cch_stream *stale;
  CHECK_EQ(driver.cuStreamCreateWithPriority(raw, 0, 0), 0);
  OK(cch_stream_wrap(&stale, *raw, NULL, NULL));
  CHECK_EQ(driver.cuStreamDestroy(*raw), 0);
  return stale;
}

/* A stale borrowed box would be found instead of the box of a newer stream of this library at the same address. */
static void stale_borrowed_box_is_overridden(void) {
  CUstream raw;
  cch_stream *stale = stale_stream(&raw), *stream, *found;
  OK(cch_stream_create(&stream, context, 0, 0));
  CHECK_PTR(cch_stream_raw(stream), raw);
  for (int i = 0; i < 2; i++) {
    OK(cch_stream_wrap(&found, raw, NULL, NULL));
    CHECK(found == stream);
    cch_stream_unref(found);
    if (i == 0)
      cch_stream_unref(stale); /* must not remove the registry's entry of the new stream */
  }
  cch_stream_unref(stream);
}

/*
 * A stale borrowed box would be returned for another library's stream at the same address, with the old device, or
 * after a stream of this library had the address meanwhile.
 */
static void stale_borrowed_box_is_not_found(void) {
  for (int meanwhile = 0; meanwhile < 2; meanwhile++) {
    CUstream raw, again;
    cch_context *other;
    cch_stream *stale = stale_stream(&raw), *found;
    CHECK(cch_stream_context(stale) == context);
    if (meanwhile) {
      OK(cch_stream_create(&found, context, 0, 0));
      CHECK_PTR(cch_stream_raw(found), raw);
      cch_stream_unref(found);
    }
    OK(cch_context_primary(&other, 1));
    OK(cch_context_set_current(other));
    CHECK_EQ(driver.cuStreamCreateWithPriority(&again, 0, 0), 0);
    CHECK_PTR(again, raw);
    OK(cch_stream_wrap(&found, again, NULL, NULL));
    CHECK(found != stale && cch_stream_context(found) == other);
    cch_stream_unref(found);
    cch_stream_unref(stale);
    CHECK_EQ(driver.cuStreamDestroy(again), 0);
    OK(cch_context_set_current(context));
    cch_context_unref(other);
  }
}

/* A pool at the address of a destroyed pool would report the device of the destroyed pool. */
static void pool_at_the_same_address(void) {
  cch_pool_config config = {.size = sizeof config, .location_type = 1, .location_id = 0};
  cch_pool *pool, *found;
  OK(cch_pool_create(&pool, &config));
  CUmemoryPool raw = cch_pool_raw(pool);
  cch_pool_unref(pool);
  config.location_id = 1;
  OK(cch_pool_create(&pool, &config));
  CHECK_PTR(cch_pool_raw(pool), raw);
  OK(cch_pool_wrap(&found, raw, 0, NULL, NULL));
  CHECK(found == pool);
  CHECK_EQ(cch_pool_device(found), 1);
  cch_pool_unref(found);
  cch_pool_unref(pool);
}

/*
 * The box of a borrowed kernel, which its owner has unloaded, would be returned for another library's kernel at the
 * same address.
 */
static void borrowed_kernel_at_the_same_address(void) {
  static const char other[] =
      ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry first(.param .u8 a) { ret; }\n"
      ".visible .entry add(.param .u16 a, .param .u16 b) { ret; }\n";
  CUlibrary first, second;
  CUkernel raw, again;
  cch_library *borrowed;
  cch_kernel *stale, *kernel, *kept = NULL;
  const cch_param *params;
  size_t count;
  CHECK_EQ(driver.cuLibraryLoadData(&first, check_ptx, NULL, NULL, 0, NULL, NULL, 0), 0);
  CHECK_EQ(driver.cuLibraryGetKernel(&raw, first, "add"), 0);
  OK(cch_library_wrap(&borrowed, first, NULL, NULL));
  OK(cch_kernel_wrap(&stale, raw, borrowed, NULL, NULL));
  OK(cch_kernel_params(&params, &count, stale, NULL));
  CHECK_EQ(count, 4);
  CHECK_EQ(driver.cuLibraryUnload(first), 0);
  CHECK_EQ(driver.cuLibraryLoadData(&second, other, NULL, NULL, 0, NULL, NULL, 0), 0);
  CHECK_EQ(driver.cuLibraryGetKernel(&again, second, "add"), 0);
  CHECK_PTR(second, first);
  CHECK_PTR(again, raw);
  OK(cch_kernel_wrap(&kernel, raw, NULL, NULL, NULL));
  CHECK(kernel != stale && cch_kernel_library(kernel) == NULL);
  OK(cch_kernel_params(&params, &count, kernel, NULL));
  CHECK_EQ(count, 2);
  cch_kernel_unref(kernel);
  cch_library *ours;
  OK(cch_library_load(&ours, check_ptx, strlen(check_ptx)));
  FAILS(CCH_EMISMATCH, cch_kernel_wrap(&kept, raw, ours, NULL, NULL)); /* `ours` does not have this kernel */
  CHECK(kept == NULL);
  cch_library_unref(ours);
  cch_kernel_unref(stale);
  cch_library_unref(borrowed);
  CHECK_EQ(driver.cuLibraryUnload(second), 0);
}

static void await(const char *name) {
  while (sim.held(name) == 0)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *unref_event(void *event) {
  cch_event_unref(event);
  return NULL;
}

/*
 * While the driver destroys an event, its handle would still be registered, and a thread would get the box that is
 * being destroyed.
 */
static void handle_is_forgotten_before_it_is_destroyed(void) {
  cch_event *event, *found;
  pthread_t thread;
  OK(cch_event_create(&event, context, CCH_EVENT_DISABLE_TIMING));
  CUevent raw = cch_event_raw(event);
  sim.hold("cuEventDestroy");
  CHECK_EQ(pthread_create(&thread, NULL, unref_event, event), 0);
  await("cuEventDestroy");
  OK(cch_event_wrap(&found, raw, NULL, NULL)); /* if a lock were held meanwhile, this call would not return */
  CHECK(found != event);
  CHECK_EQ(cch_event_flags(found), CCH_EVENT_UNKNOWN);
  cch_event_unref(found);
  sim.let_go("cuEventDestroy");
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

static cch_event *made;
static void *make_event(void *argument) {
  (void)argument;
  OK(cch_event_create(&made, context, 0));
  return NULL;
}

/* A lock of the library would be held while the driver creates an object, so that all other threads wait. */
static void driver_is_entered_without_locks(void) {
  cch_event *event, *found;
  pthread_t thread;
  OK(cch_event_create(&event, context, 0));
  sim.hold("cuEventCreate");
  CHECK_EQ(pthread_create(&thread, NULL, make_event, NULL), 0);
  await("cuEventCreate");
  OK(cch_event_wrap(&found, cch_event_raw(event), NULL, NULL));
  cch_event_unref(found);
  cch_event_unref(event);
  sim.let_go("cuEventCreate");
  CHECK_EQ(pthread_join(thread, NULL), 0);
  cch_event_unref(made);
}

int main(void) {
  check_open();
  RUN(pool_at_the_same_address);
  check_around(context_open, context_close);
  RUN(foreign_event_at_our_address);
  RUN(stale_borrowed_box_is_overridden);
  RUN(stale_borrowed_box_is_not_found);
  RUN(borrowed_kernel_at_the_same_address);
  RUN(handle_is_forgotten_before_it_is_destroyed);
  RUN(driver_is_entered_without_locks);
  return 0;
}
