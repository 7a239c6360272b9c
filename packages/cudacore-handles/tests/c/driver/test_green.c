/* SPDX-License-Identifier: Apache-2.0 */
/* Green contexts, and the resources that they are made of. */
#include "check.h"

static cch_resource all_of(int device) {
  cch_resource all;
  OK(cch_resource_of_device(&all, device, CCH_RESOURCE_SM));
  return all;
}

static uint32_t count_of(const cch_resource *resource) {
  uint32_t count, least, together, flags;
  OK(cch_resource_sm(&count, &least, &together, &flags, resource));
  return count;
}

static cch_context *make_green(int device, uint32_t count) {
  cch_resource all = all_of(device), part;
  size_t parts = 1;
  cch_context *green;
  OK(cch_resource_split_evenly(&part, &parts, NULL, &all, 0, count));
  OK(cch_context_create(&green, device, &part, 1));
  return green;
}

/* The reported counts, flags and limits of a resource would differ from the driver's. */
static void resources_say_what_they_are(void) {
  cch_resource all = all_of(1), queues;
  uint32_t count, least, together, flags, limit;
  int scope;
  CHECK_EQ(cch_resource_kind(&all), CCH_RESOURCE_SM);
  OK(cch_resource_sm(&count, &least, &together, &flags, &all));
  CHECK_EQ(count, 132);
  CHECK_EQ(least, 8);
  CHECK_EQ(together, 8);
  CHECK_EQ(flags, 0);
  OK(cch_resource_of_device(&queues, 1, CCH_RESOURCE_WORKQUEUE));
  OK(cch_resource_workqueue(&limit, &scope, &queues));
  CHECK_EQ(limit, 8);
  CHECK_EQ(scope, CCH_WORKQUEUE_DEVICE);
  OK(cch_resource_set_workqueue(&queues, 3, CCH_WORKQUEUE_BALANCED));
  OK(cch_resource_workqueue(&limit, &scope, &queues));
  CHECK_EQ(limit, 3);
  CHECK_EQ(scope, CCH_WORKQUEUE_BALANCED);
}

/* One kind of resource would be read as another kind, or a kind unknown to the driver would be accepted. */
static void kinds_are_told_apart(void) {
  cch_resource all = all_of(0), queues, none = {{7}};
  uint32_t number = 77;
  int scope = 77;
  OK(cch_resource_of_device(&queues, 0, CCH_RESOURCE_WORKQUEUE));
  FAILS(CCH_EINVAL, cch_resource_workqueue(&number, &scope, &all));
  FAILS(CCH_EINVAL, cch_resource_set_workqueue(&all, 1, 0));
  FAILS(CCH_EINVAL, cch_resource_sm(&number, &number, &number, &number, &queues));
  CHECK_EQ(number, 77);
  CHECK_EQ(scope, 77);
  FAILS(CUDA_ERROR_INVALID_RESOURCE_TYPE, cch_resource_of_device(&none, 0, 4711));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_resource_of_device(&none, 2, CCH_RESOURCE_SM));
  CHECK_EQ(none.opaque[0], 7);
  size_t count = 1;
  FAILS(CCH_EINVAL, cch_resource_split_evenly(&none, &count, NULL, &queues, 0, 8));
  cch_sm_group group = {.count = 8};
  FAILS(CCH_EINVAL, cch_resource_split(&none, NULL, &queues, &group, 1));
  CHECK_EQ(none.opaque[0], 7);
}

/* Groups of multiprocessors would have another size than requested, or the remaining ones would be lost. */
static void multiprocessors_are_split(void) {
  cch_resource all = all_of(0), parts[3], rest;
  size_t count = 3;
  OK(cch_resource_split_evenly(parts, &count, &rest, &all, 0, 40));
  CHECK_EQ(count, 3);
  for (size_t i = 0; i < count; i++)
    CHECK_EQ(count_of(&parts[i]), 40);
  CHECK_EQ(count_of(&rest), 12);
  OK(cch_resource_split_evenly(parts, &count, NULL, &all, 0, 64));
  CHECK_EQ(count, 2); /* only two groups of 64 fit */

  cch_sm_group groups[] = {{.count = 16}, {.count = 10, .together = 2}, {.backfill = 1, .together = 2}};
  OK(cch_resource_split(parts, &rest, &all, groups, 3));
  CHECK_EQ(count_of(&parts[0]), 16);
  CHECK_EQ(count_of(&parts[1]), 10);
  CHECK_EQ(count_of(&parts[2]), 106);
  CHECK_EQ(groups[2].count, 106);
  CHECK_EQ(cch_resource_kind(&rest), CCH_RESOURCE_NONE);
  groups[2].count = 0;
  OK(cch_resource_split(NULL, NULL, &all, groups, 3)); /* fills in the counts, and makes no resources */
  CHECK_EQ(groups[2].count, 106);
}

/* A split that the driver refuses would write to the caller's output resources. */
static void refused_splits_change_nothing(void) {
  cch_resource all = all_of(0), part, again = {{7}}, rest = {{7}};
  size_t count = 1;
  OK(cch_resource_split_evenly(&part, &count, NULL, &all, 0, 8));
  FAILS(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, cch_resource_split_evenly(&again, &count, &rest, &part, 0, 8));
  FAILS(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, cch_resource_split_evenly(&again, &count, &rest, &all, 0, 133));
  CHECK_EQ(count, 1);
  cch_sm_group groups[] = {{.count = 0}, {.count = 16}};
  FAILS(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, cch_resource_split(&again, &rest, &all, groups, 2));
  CHECK_EQ(groups[0].count, 0);
  FAILS(CCH_EINVAL, cch_resource_split(&again, &rest, &all, groups, 0));
  count = 0;
  FAILS(CCH_EINVAL, cch_resource_split_evenly(&again, &count, &rest, &all, 0, 8));
  CHECK_EQ(again.opaque[0], 7);
  CHECK_EQ(rest.opaque[0], 7);
}

/* A green context would not be destroyed with its box, be destroyed twice, or be treated as a primary one. */
static void green_contexts_end_with_their_boxes(void) {
  int is_green = 77;
  cch_context *green = make_green(1, 16), *found;
  CHECK_EQ(cch_context_device(green), 1);
  CHECK_EQ(cch_context_is_primary(green), 0);
  OK(cch_context_is_green(&is_green, green));
  CHECK_EQ(is_green, 1);
  CHECK_EQ(sim.depth(), 0); /* the context is not made current */
  cch_resource part;
  OK(cch_resource_of_context(&part, green, CCH_RESOURCE_SM));
  CHECK_EQ(count_of(&part), 16);
  OK(cch_context_wrap(&found, cch_context_raw(green), NULL, NULL));
  CHECK(found == green); /* the registry has found the existing box */
  cch_context_unref(found);
  OK(cch_context_set_current(green));
  OK(cch_context_current(&found));
  CHECK(found == green);
  cch_context_unref(found);
  OK(cch_context_set_current(NULL));
  cch_context_unref(green);
  CHECK_EQ(sim.calls("cuGreenCtxDestroy"), 1);
  CHECK_EQ(sim.calls("cuDevicePrimaryCtxRelease"), 0);
}

/* A green context of other code would be treated as an ordinary one, or be destroyed. */
static void borrowed_contexts_are_asked(void) {
  int is_green = 77;
  cch_context *primary, *borrowed;
  cch_resource resource;
  CUcontext raw;
  OK(cch_driver_init());
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&raw, 0), 0);
  OK(cch_context_wrap(&borrowed, raw, NULL, NULL));
  OK(cch_context_is_green(&is_green, borrowed));
  CHECK_EQ(is_green, 0);
  OK(cch_resource_of_context(&resource, borrowed, CCH_RESOURCE_SM));
  CHECK_EQ(count_of(&resource), 132);
  cch_context_unref(borrowed);
  OK(cch_context_primary(&primary, 0));
  is_green = 77;
  OK(cch_context_is_green(&is_green, primary));
  CHECK_EQ(is_green, 0);
  cch_context_unref(primary);
  CHECK_EQ(sim.depth(), 0);
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(0), 0);
}

/* A stream or an event of a green context would be created in the current context, or outlive the green context. */
static void streams_and_events_are_in_it(void) {
  cch_context *green = make_green(0, 16), *other = make_green(0, 16), *primary;
  cch_stream *stream, *ordinary, *wrapped, *none = NULL;
  cch_event *event;
  OK(cch_context_primary(&primary, 0));
  OK(cch_stream_create(&stream, green, CCH_STREAM_NON_BLOCKING, 0));
  CHECK(cch_stream_context(stream) == green);
  FAILS(CUDA_ERROR_INVALID_VALUE, cch_stream_create(&none, green, 0, 0));
  CHECK(none == NULL);
  OK(cch_stream_wrap(&wrapped, cch_stream_raw(stream), NULL, NULL));
  CHECK(wrapped == stream);
  cch_stream_unref(wrapped);
  OK(cch_event_create(&event, green, CCH_EVENT_DISABLE_TIMING));
  CHECK(cch_event_context(event) == green);
  OK(cch_event_record(event, stream));
  OK(cch_stream_create(&ordinary, primary, 0, 0));
  OK(cch_event_record(event, ordinary)); /* green contexts share events with the primary context */
  OK(cch_stream_wait_event(stream, event));
  OK(cch_stream_wait_stream(stream, ordinary));
  OK(cch_stream_wait_stream(ordinary, stream));
  OK(cch_context_synchronize(green));
  CHECK_EQ(sim.depth(), 0);
  cch_context_unref(green);
  cch_context_unref(other);
  CHECK_EQ(sim.calls("cuGreenCtxDestroy"), 1);
  cch_stream_unref(ordinary);
  cch_context_unref(primary);
  cch_stream_unref(stream);
  CHECK_EQ(sim.calls("cuGreenCtxDestroy"), 1);
  cch_event_unref(event); /* the last object in `green` */
  CHECK_EQ(sim.calls("cuGreenCtxDestroy"), 2);
}

/*
 * Work on a default stream would be done in another context than the current one, or an event of another context could
 * not be recorded on the stream.
 */
static void default_streams_are_the_current_contexts(void) {
  cch_context *green = make_green(0, 16), *primary;
  cch_event *events[2];
  cudasim_call calls[16];
  OK(cch_context_primary(&primary, 0));
  cch_context *contexts[] = {green, primary};
  for (int i = 0; i < 2; i++)
    OK(cch_event_create(&events[i], contexts[i], 0));
  for (int i = 0; i < 4; i++) {
    OK(cch_context_set_current(contexts[i / 2]));
    sim.reset();
    OK(cch_event_record(events[i % 2], cch_stream_legacy()));
    size_t count = sim.log(0, calls, 16);
    CHECK_STR(calls[count - 2].name, "cuEventRecord");
    CHECK_STR(calls[count - 1].name, "cuStreamIsCapturing");
    CHECK_PTR(calls[count - 2].context, cch_context_raw(contexts[i / 2]));
    CHECK_PTR(calls[count - 1].context, cch_context_raw(contexts[i / 2]));
  }
  OK(cch_context_set_current(NULL));
  /* Neither the thread nor the stream has a context, so the event's is used. */
  OK(cch_event_record(events[0], cch_stream_legacy()));
  for (int i = 0; i < 2; i++) {
    cch_event_unref(events[i]);
    cch_context_unref(contexts[i]);
  }
}

/* A green context would be created without resources or with those of another device, or remain after a failed call. */
static void refused_contexts_leave_nothing(void) {
  cch_resource here = all_of(0), there = all_of(1), both[] = {here, there};
  cch_context *context = NULL;
  FAILS(CCH_EINVAL, cch_context_create(&context, 0, &here, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cch_context_create(&context, 0, &there, 1));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_context_create(&context, 2, &here, 1));
  FAILS(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, cch_context_create(&context, 0, both, 2));
  sim.fail("cuCtxFromGreenCtx", 1, CUDA_ERROR_UNKNOWN);
  FAILS(CUDA_ERROR_UNKNOWN, cch_context_create(&context, 0, &here, 1));
  CHECK(context == NULL);
  CHECK_EQ(sim.calls("cuGreenCtxDestroy"), 1);
  CHECK_EQ(sim.live(CUDASIM_CONTEXT), 0);
}

static void make_and_drop(int index, void *shared) {
  cch_context *mine = make_green(index % 2, 8);
  cch_stream *stream;
  OK(cch_stream_create(&stream, mine, CCH_STREAM_NON_BLOCKING, 0));
  cch_context_unref(mine);
  cch_stream *other;
  OK(cch_stream_create(&other, shared, CCH_STREAM_NON_BLOCKING, 0));
  OK(cch_stream_wait_stream(stream, other));
  cch_stream_unref(other);
  cch_stream_unref(stream);
}

/* Threads that make, share and drop green contexts would destroy a context twice or never. */
static void threads_share_them(void) {
  cch_context *shared = make_green(0, 8);
  check_threads(8, make_and_drop, shared);
  cch_context_unref(shared);
  CHECK_EQ(sim.calls("cuGreenCtxDestroy"), 9);
}

int main(void) {
  check_open();
  RUN(resources_say_what_they_are);
  RUN(kinds_are_told_apart);
  RUN(multiprocessors_are_split);
  RUN(refused_splits_change_nothing);
  RUN(green_contexts_end_with_their_boxes);
  RUN(borrowed_contexts_are_asked);
  RUN(streams_and_events_are_in_it);
  RUN(default_streams_are_the_current_contexts);
  RUN(refused_contexts_leave_nothing);
  RUN(threads_share_them);
  return 0;
}
