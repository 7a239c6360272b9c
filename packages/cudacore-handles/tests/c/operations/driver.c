/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on the driver, contexts, resources, streams and events. */
#include "operations/calls.h"

GIVES(driver_version, int, cch_driver_version(&out))
GIVES(device_count, int, cch_device_count(&out))
GIVES(device_attribute, int, cch_device_attribute(&out, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0))
MAKES(context_primary, cch_context, cch_context_primary(&out, 0))
MAKES(context_primary_of_another_device, cch_context, cch_context_primary(&out, 1))
MAKES(context_wrap, cch_context, cch_context_wrap(&out, w->foreign_context, NULL, NULL))
MAKES(context_wrap_own, cch_context, cch_context_wrap(&out, cch_context_raw(w->context), NULL, NULL))
MAKES(context_current, cch_context, cch_context_current(&out), OPERATION_NEEDS_CURRENT)
MAKES(context_create, cch_context, cch_context_create(&out, 0, &w->multiprocessors, 1))
static int context_is_green(world *w, void **made) {
  int is_green = 77;
  cch_context *context; /* a foreign context, so the library must query the driver */
  (void)made;
  int status = cch_context_wrap(&context, w->foreign_context, NULL, NULL);
  if (status != 0)
    return status;
  status = cch_context_is_green(&is_green, context);
  cch_context_unref(context);
  CHECK_EQ(is_green, status == 0 ? 0 : 77);
  return status;
}
OPERATION(context_is_green, NULL)
MAKES(stream_create_green, cch_stream, cch_stream_create(&out, w->green, CCH_STREAM_NON_BLOCKING, 0))
/* Defines an operation whose out-parameter is a resource. */
#define GIVES_RESOURCE(name_, call)                                                                                    \
  static int name_(world *w, void **made) {                                                                            \
    const cch_resource before = {.kind = 0x5a5a5a5a};                                                                  \
    cch_resource out = before;                                                                                         \
    (void)w, (void)made;                                                                                               \
    int status = call;                                                                                                 \
    CHECK((status != 0) == (memcmp(&out, &before, sizeof out) == 0));                                                  \
    return status;                                                                                                     \
  }                                                                                                                    \
  OPERATION(name_, NULL)
GIVES_RESOURCE(resource_of_device, cch_resource_of_device(&out, 1, CCH_RESOURCE_WORKQUEUE))
GIVES_RESOURCE(resource_of_context, cch_resource_of_context(&out, w->context, CCH_RESOURCE_SM))
GIVES_RESOURCE(resource_of_green_context, cch_resource_of_context(&out, w->green, CCH_RESOURCE_SM))
DOES(context_set_current, cch_context_set_current(w->context), OPERATION_SETS_CURRENT)
DOES(context_restore, cch_context_restore(w->context), OPERATION_SETS_CURRENT)
DOES(context_synchronize, cch_context_synchronize(w->context))
static int driver_call(world *w, void **made) {
  (void)made;
  int lowest = 0x5a5a, highest = 0x5a5a;
  void *const boxes[] = {w->kernel, NULL};
  const uintptr_t arguments[8] = {(uintptr_t)&lowest, (uintptr_t)&highest};
  int status = cch_driver_call("cuCtxGetStreamPriorityRange", arguments, boxes, w->context);
  CHECK(status == 0 ? lowest == 0 && highest < 0 : lowest == 0x5a5a && highest == 0x5a5a);
  return status;
}
OPERATION(driver_call, NULL)
GIVES(context_memory_info, size_t, cch_context_memory_info(&out, &(size_t){0}, w->context))
GIVES(current_device, int, cch_current_device(&out), OPERATION_NEEDS_CURRENT)
MAKES(stream_create, cch_stream, cch_stream_create(&out, w->context, CCH_STREAM_NON_BLOCKING, -1))
MAKES(stream_wrap, cch_stream, cch_stream_wrap(&out, w->foreign_stream, NULL, NULL))
MAKES(stream_wrap_own, cch_stream, cch_stream_wrap(&out, cch_stream_raw(w->stream), NULL, NULL))
GIVES(stream_flags, unsigned, cch_stream_flags(&out, w->stream))
GIVES(stream_priority, int, cch_stream_priority(&out, w->stream))
GIVES(stream_is_capturing, int, cch_stream_is_capturing(&out, w->stream))
DOES(stream_query, cch_stream_query(w->stream))
DOES(stream_poll, cch_stream_poll(w->stream))
MAKES(event_behind_context, cch_event, cch_event_behind_context(&out, w->context))
MAKES(stream_mark, cch_event, cch_stream_mark(&out, w->stream))
DOES(stream_synchronize, cch_stream_synchronize(w->stream))
DOES(stream_wait_event, cch_stream_wait_event(w->stream, w->end))
DOES(stream_wait_stream, cch_stream_wait_stream(w->stream, w->second_stream))
DOES(stream_order, cch_stream_order(cch_stream_raw(w->stream), NULL, w->second_stream, 0))
MAKES(event_create, cch_event, cch_event_create(&out, w->context, CCH_EVENT_BLOCKING_SYNC))
MAKES(event_wrap, cch_event, cch_event_wrap(&out, w->foreign_event, NULL, NULL))
DOES(event_record, cch_event_record(w->start, w->stream))
DOES(event_record_legacy, cch_event_record(w->start, cch_stream_legacy()))
DOES(event_query, cch_event_query(w->end))
DOES(event_poll, cch_event_poll(w->end))
DOES(event_synchronize, cch_event_synchronize(w->end))
GIVES(event_elapsed, float, cch_event_elapsed(&out, w->start, w->end))
DOES(stream_callback, cch_stream_callback(w->stream, do_nothing, NULL, w->bundle))
DOES(stream_callback_captured, cch_stream_callback(w->captured, do_nothing, NULL, w->bundle))
