/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers that lack an entry point. Each operation of the library is run without each entry point in turn. The test
 * is linked with the library's object files, because it changes the library's table of entry points.
 */
#include "driver/driver_table.h"

#include <stddef.h>

typedef struct entry {
  const char *name;
  void *place; /* the address of the entry in the library's table */
} entry;

static const entry entries[] = {
#define ENTRY(name, version) {#name, &cch__driver.name},
    CCH__DRIVER_FUNCTIONS(ENTRY)
#undef ENTRY
#define ENTRY(name, version) {#name, &cch__driver.name##_v##version},
        CCH__NEWER_FUNCTIONS(ENTRY)
#undef ENTRY
};

#include "operations.h" /* comes after the table, because check.h undefines macros of cuda.h that the table needs */

enum { MAX_CALLS = 64 };

static void *take_away(const entry *entry) {
  void *function, *none = NULL;
  memcpy(&function, entry->place, sizeof function);
  memcpy(entry->place, &none, sizeof none);
  return function;
}

static void put_back(const entry *entry, void *function) { memcpy(entry->place, &function, sizeof function); }

static bool destroys(const char *name) {
  return strstr(name, "Destroy") || strstr(name, "Free") || strstr(name, "Release") || strstr(name, "Unload") ||
         strstr(name, "Unmap") || strstr(name, "Unregister") || strcmp(name, "cuStreamEndCapture") == 0;
}

/* Whether destructors need the driver function. */
static bool is_for_destructors(const char *name) {
  return destroys(name) || strcmp(name, "cuCtxGetCurrent") == 0 || strcmp(name, "cuCtxSetCurrent") == 0;
}

/*
 * Whether an operation must succeed without the driver function, because it calls the function only for an optional
 * query.
 */
static bool is_optional(const char *name, const operation *operation) {
  if (strcmp(name, "cuStreamIsCapturing") == 0)
    return strcmp(operation->name, "stream_is_capturing") != 0;
  return strcmp(name, "cuThreadExchangeStreamCaptureMode") == 0 || strcmp(name, "cuStreamGetCaptureInfo") == 0 ||
         strcmp(name, "cuKernelGetLibrary") == 0 || strcmp(name, "cuStreamGetGreenCtx") == 0 ||
         strcmp(name, "cuCtxGetId") == 0 || strcmp(name, "cuDevicePrimaryCtxGetState") == 0;
}

/* Finds the driver functions that an operation calls when none is missing: sets a flag in `called` for each of them. */
static void find_calls(bool *called, world *w, const operation *operation) {
  void *made = NULL;
  sim.reset();
  OK(operation->call(w, &made));
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
    called[i] = sim.calls(entries[i].name) > 0;
  undo(operation, 0, made);
}

static void without(const entry *missing, world *w, const operation *operation, bool needed) {
  void *made = NULL;
  void *function = take_away(missing);
  int status = operation->call(w, &made);
  if (is_for_destructors(missing->name))
    put_back(missing, function);
  if (status != 0 && (!needed || status != CCH_ENOSYMBOL || strcmp(check_error()->operation, missing->name) != 0))
    check_fail(__FILE__, __LINE__, "%s without %s: %d, %s: %s", operation->name, missing->name, status,
               check_error()->operation, check_error()->message);
  undo(operation, status, made);
  put_back(missing, function);
}

/* A missing entry point would disable functions that do not need it, cause a crash, or not be named in the error. */
static void every_entry_point_under_every_function(void) {
  FOR_EACH_OPERATION(operation) {
    bool called[sizeof entries / sizeof *entries];
    world shared;
    world_open_away(&shared);
    find_calls(called, &shared, operation);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
      if (!called[i] && !(operation->flags & OPERATION_ONCE))
        without(&entries[i], &shared, operation, false);
    world_close_away(&shared);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
      if (called[i] ? destroys(entries[i].name) /* needed to destroy temporary objects */
                    : !(operation->flags & OPERATION_ONCE))
        continue;
      world own;
      world_open_away(&own);
      without(&entries[i], &own, operation, called[i] && !is_optional(entries[i].name, operation));
      world_close_away(&own);
    }
  }
}

static void report(const cch_error *error) { CHECK_EQ(error->code, CCH_ENOSYMBOL); }

int main(void) {
  check_open();
  cch_error_set_report(report);
  OK(cch_driver_init());
  RUN(every_entry_point_under_every_function);
  return 0;
}
