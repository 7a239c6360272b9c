/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call works in the context of its objects, whatever context is current, and leaves the current context
 * unchanged.
 */
#include "operations.h"

/* These driver functions work in the current context, which must be the context of the operation's object. */
static const char *const in_context[] = {
    "cuStreamCreateWithPriority", "cuEventCreate", "cuMemAlloc", "cuMemHostAlloc", "cuCtxSynchronize",
    "cuCtxGetStreamPriorityRange"};

static void check_calls_were_in(CUcontext context) {
  static cudasim_call calls[256];
  size_t n = sim.log(0, calls, sizeof calls / sizeof *calls);
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < sizeof in_context / sizeof *in_context; j++)
      if (strcmp(calls[i].function, in_context[j]) == 0)
        CHECK_PTR(calls[i].context, context);
}

static void check_current(const operation *operation, CUcontext expected, size_t depth) {
  CUcontext current;
  CHECK_EQ(driver.cuCtxGetCurrent(&current), 0);
  if (current != expected || sim.depth() != depth)
    check_fail(__FILE__, __LINE__, "%s: the current context is %p and not %p", operation->name, (void *)current,
               (void *)expected);
}

enum { NONE, OWN, FOREIGN };

static void run(const operation *operation, int which) {
  world w;
  world_open(&w);
  CUcontext foreign;
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&foreign, 1), 0); /* keeps the foreign context beyond world_close() */
  CUcontext current = which == NONE ? NULL : which == OWN ? cch_context_raw(w.context) : w.foreign_context;
  CHECK_EQ(driver.cuCtxSetCurrent(current), 0);
  sim.reset();
  void *made = NULL;
  int status = operation->call(&w, &made);
  if (which == NONE && (operation->flags & OPERATION_NEEDS_CURRENT)) {
    CHECK(status == 0 || status == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(operation->undo == NULL || status != 0 || made == NULL);
    sim.reset();
  } else {
    check_status(status, 0, operation->name, __FILE__, __LINE__);
  }
  if (operation->flags & OPERATION_SETS_CURRENT)
    current = cch_context_raw(w.context);
  check_current(operation, current, current != NULL);
  undo(operation, status, made);
  check_current(operation, current, current != NULL);
  check_calls_were_in(cch_context_raw(w.context));
  /* Destroy the objects while another context is current, or no context. */
  if (!(operation->flags & OPERATION_SETS_CURRENT)) {
    world_close(&w);
    check_current(operation, current, current != NULL);
    CHECK_EQ(driver.cuCtxSetCurrent(NULL), 0);
  } else {
    CHECK_EQ(driver.cuCtxSetCurrent(NULL), 0);
    world_close(&w);
  }
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(1), 0);
  char violation[256];
  if (sim.report(sim.reports(), violation, sizeof violation) != 0)
    check_fail(__FILE__, __LINE__, "%s: %s", operation->name, violation);
}

/*
 * On a thread without a current context, or with the context of another device, a call would fail, use a wrong context,
 * or change the current context.
 */
static void every_call_with_every_current_context(void) {
  FOR_EACH_OPERATION(operation) {
    run(operation, NONE);
    run(operation, OWN);
    run(operation, FOREIGN);
  }
}

int main(void) {
  check_open();
  RUN(every_call_with_every_current_context);
  return 0;
}
