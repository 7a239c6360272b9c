/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes that need each other, dropped in every order. */
#include "check.h"

/* The boxes, each with its index in `dropped`. */
#define EACH(X) X(0, context) X(1, stream) X(2, event) X(3, pool) X(4, deviceptr) X(5, library) X(6, kernel)
enum { BOXES = 7 };

#define DECLARE(number, name) static cch_##name *name;
EACH(DECLARE)

static void make(void) {
  cch_pool_config config = {.size = sizeof config, .location_type = 1};
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_event_create(&event, context, 0));
  OK(cch_pool_create(&pool, &config));
  OK(cch_deviceptr_alloc_async(&deviceptr, pool, 100, stream));
  OK(cch_library_load(&library, check_ptx, strlen(check_ptx)));
  OK(cch_kernel_get(&kernel, library, "add"));
}

static void ref(int which) {
#define REF(number, name)                                                                                              \
  if (which == number)                                                                                                 \
    cch_##name##_ref(name);
  EACH(REF)
}

static void unref(int which) {
#define UNREF(number, name)                                                                                            \
  if (which == number)                                                                                                 \
    cch_##name##_unref(name);
  EACH(UNREF)
}

/* Uses each box that is still referenced. Each use must work, even if other boxes were dropped. */
static void use(const int *dropped) {
  if (!dropped[0])
    OK(cch_context_synchronize(context));
  if (!dropped[1])
    OK(cch_stream_synchronize(stream));
  if (!dropped[2])
    OK(cch_event_synchronize(event));
  if (!dropped[3])
    CHECK_EQ(cch_pool_device(pool), 0);
  if (!dropped[4])
    OK(cch_deviceptr_fill(deviceptr, 7, 1, cch_deviceptr_stream(deviceptr)));
  if (!dropped[1] && !dropped[2])
    OK(cch_event_record(event, stream));
  if (!dropped[1] && !dropped[6]) {
    const cch_launch_config config = {.size = sizeof config, .grid = {1, 1, 1}, .block = {1, 1, 1}};
    char arguments[28] = {0};
    OK(cch_launch(stream, &config, kernel, arguments, sizeof arguments));
  }
}

static void drop_in_order(const int *order) {
  int dropped[BOXES] = {0};
  make();
  for (int i = 0; i < BOXES; i++) {
    use(dropped);
    unref(order[i]);
    dropped[order[i]] = 1;
  }
  CHECK_CLEAN();
}

static void permute(int *order, int n, void (*function)(const int *order)) {
  if (n == BOXES) {
    function(order);
    return;
  }
  for (int i = n; i < BOXES; i++) {
    int first = order[n];
    order[n] = order[i], order[i] = first;
    permute(order, n + 1, function);
    order[i] = order[n], order[n] = first;
  }
}

/* In some order of dropping a context, stream, event, pool, allocation, library and kernel, one would be destroyed
 * before another that needs it. */
static void every_order(void) {
  int order[BOXES] = {0, 1, 2, 3, 4, 5, 6};
  permute(order, 0, drop_in_order);
}

/* A second reference to an object would not keep the object alive. */
static void twice_referenced(void) {
  int dropped[BOXES] = {0};
  make();
  for (int i = 0; i < BOXES; i++)
    ref(i);
  for (int i = 0; i < BOXES; i++)
    unref(i);
  use(dropped);
  for (int i = 0; i < BOXES; i++)
    unref(i);
}

static void unref_in_thread(int index, void *argument) {
  (void)argument;
  unref(index);
}

/* Threads that drop boxes which need each other would destroy a box twice. */
static void every_box_from_its_own_thread(void) {
  for (int i = 0; i < 200; i++) {
    make();
    check_threads(BOXES, unref_in_thread, NULL);
    CHECK_CLEAN();
  }
}

/* The deferred queue would destroy boxes in the order of arrival, even if a later box needs an earlier one. */
static void every_order_deferred(void) {
  int order[BOXES] = {0, 1, 2, 3, 4, 5, 6};
  for (int i = 0; i < BOXES; i++) {
    int first = order[0];
    memmove(order, order + 1, sizeof order - sizeof *order);
    order[BOXES - 1] = first;
    make();
    cch_callback_enter();
    for (int j = 0; j < BOXES; j++)
      unref(order[j]);
    cch_callback_leave();
    cch_reclaim_drain();
    CHECK_CLEAN();
  }
}

int main(void) {
  check_open();
  RUN(every_order);
  RUN(twice_referenced);
  RUN(every_box_from_its_own_thread);
  RUN(every_order_deferred);
  return 0;
}
