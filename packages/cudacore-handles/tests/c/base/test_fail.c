/* SPDX-License-Identifier: Apache-2.0 */
/* Makes each driver call of each function fail once. */
#include "operations.h"

enum { MAX_CALLS = 64, FIRST_CODE = 10000 };

static cch_error reported;
static void report(const cch_error *error) { reported = *error; }

/*
 * Whether a driver function is called by destructors. Its failure is then reported instead of returned, and the
 * driver's object remains (test_error.c).
 */
static bool destroys(const char *name) {
  return strstr(name, "Destroy") || strstr(name, "Free") || strstr(name, "Release") || strstr(name, "Unload");
}

/* Whether a driver function is a query whose result the library can do without. */
static bool is_optional(const char *name) {
  static const char *const names[] = {"cuCtxGetId", "cuKernelGetLibrary", "cuStreamIsCapturing",
                                      "cuStreamGetCaptureInfo", "cuThreadExchangeStreamCaptureMode"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0)
      return true;
  return false;
}

static size_t calls_of(const operation *operation, cudasim_call *calls) {
  world w;
  void *made = NULL;
  world_open_away(&w);
  sim.reset();
  OK(operation->call(&w, &made));
  size_t n = sim.log(0, calls, MAX_CALLS);
  CHECK(n < MAX_CALLS);
  undo(operation, 0, made);
  world_close_away(&w);
  return n;
}

static void fail_one(const operation *operation, const char *name, unsigned nth) {
  static int code = FIRST_CODE; /* changes for each failure, because a destructor's failure is reported once per code */
  world w;
  world_open_away(&w);
  live before = count_live();
  memset(&reported, 0, sizeof reported);
  cch_error_clear();
  sim.reset();
  sim.fail(NULL, nth, ++code);
  void *made = NULL;
  int status = operation->call(&w, &made);
  const cch_error *error = check_error();
  cudasim_call next = {0};
  /* current.c calls the function a second time. */
  bool is_tried_again = sim.log(nth, &next, 1) == 1 && strcmp(next.function, name) == 0;
  if (status == 0 && !is_optional(name) && !is_tried_again &&
      (reported.code != code || strcmp(reported.operation, name) != 0))
    check_fail(__FILE__, __LINE__, "%s: the failure of %s (call %u) is lost", operation->name, name, nth);
  if (status != 0 && (status != code || error->code != code || error->domain != CCH_DOMAIN_DRIVER ||
                      strcmp(error->operation, name) != 0))
    check_fail(__FILE__, __LINE__, "%s: %s failed with %d (call %u); %d came back, and %d in %s is on record",
               operation->name, name, code, nth, status, error->code, error->operation);
  if (status != 0) {
    CHECK(made == NULL);
    check_unchanged(&w, before, operation->name, name);
  }
  char violation[256];
  if (sim.report(sim.reports(), violation, sizeof violation) != 0)
    check_fail(__FILE__, __LINE__, "%s: after the failure of %s (call %u): %s", operation->name, name, nth, violation);
  sim.reset();
  undo(operation, status, made);
  world_close_away(&w);
}

/*
 * A failed driver call would be ignored, be reported as another failure, leak an object, change an out-parameter, or
 * leave the context of an object current.
 */
static void every_driver_call_of_every_function(void) {
  size_t failed = 0, operations = 0;
  cch_error_set_report(report);
  FOR_EACH_OPERATION(operation) {
    operations++;
    cudasim_call calls[MAX_CALLS];
    size_t n = calls_of(operation, calls);
    for (size_t nth = 0; nth < n; nth++)
      if (!destroys(calls[nth].function)) {
        fail_one(operation, calls[nth].function, (unsigned)nth + 1);
        failed++;
      }
  }
  cch_error_set_report(NULL);
  CHECK(operations >= 178); /* otherwise, the lists lack operations */
  CHECK(failed > operations);
}

int main(void) {
  check_open();
  RUN(every_driver_call_of_every_function);
  return 0;
}
