/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

cch_context *context;
cch_stream *stream;
cch_pool *pool;

void device_open(void) {
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_pool_current(&pool, 0));
}

void device_close(void) {
  cch_pool_unref(pool);
  cch_stream_unref(stream);
  cch_context_unref(context);
}

void context_open(void) {
  OK(cch_context_primary(&context, 0));
  OK(cch_context_set_current(context));
}

void context_close(void) {
  OK(cch_context_set_current(NULL));
  cch_context_unref(context);
}

cch_event *new_event(void) {
  cch_event *made;
  OK(cch_event_create(&made, context, 0));
  return made;
}

void check_found(cch_event *event) {
  cch_event *found;
  OK(cch_event_wrap(&found, cch_event_raw(event), NULL, NULL));
  CHECK(found == event);
  cch_event_unref(found);
}
