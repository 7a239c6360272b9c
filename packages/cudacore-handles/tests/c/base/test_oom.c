/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes each allocation of each function fail once. The program's own malloc, calloc and realloc replace those of the C
 * library, and refuse allocations of libcudacore_handles, which they recognise by the caller's address. Allocations of
 * the driver and of the C library itself succeed.
 */
#include "device.h"
#include "operations.h"

#include <link.h>

#if CHECK_SANITIZED || !defined(__GLIBC__)

int main(void) {
  printf("the sanitizers have an allocator of their own\n");
  return CHECK_SKIP;
}

#else

static uintptr_t library_begin, library_end;
static _Thread_local bool limited;
static _Thread_local size_t allowed, refused;

static bool refuse(const void *caller) {
  if (!limited || (uintptr_t)caller < library_begin || (uintptr_t)caller >= library_end)
    return false;
  if (allowed > 0) {
    allowed--;
    return false;
  }
  refused++;
  return true;
}

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);

void *malloc(size_t size) { return refuse(__builtin_return_address(0)) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
  return refuse(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
  return refuse(__builtin_return_address(0)) ? NULL : __libc_realloc(block, size);
}

static void allow(size_t count) {
  allowed = count;
  refused = 0;
  limited = true;
}

static int find_library(struct dl_phdr_info *info, size_t size, void *argument) {
  (void)size, (void)argument;
  if (strstr(info->dlpi_name, "libcudacore_handles.so") == NULL)
    return 0;
  for (unsigned i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
      library_begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      library_end = library_begin + info->dlpi_phdr[i].p_memsz;
    }
  return 1;
}

/* Makes the call with a limited number of allocations, and returns whether it succeeded. */
static bool succeeds_with(const operation *operation, size_t allocations) {
  world w;
  world_open_away(&w);
  live before = count_live();
  void *made = NULL;
  allow(allocations);
  int status = operation->call(&w, &made);
  limited = false;
  if (status != 0) {
    if (status != CCH_ENOMEM || refused == 0 || check_error()->code != CCH_ENOMEM || made != NULL)
      check_fail(__FILE__, __LINE__, "%s with %zu allocations: %d, not CCH_ENOMEM; %s: %s", operation->name,
                 allocations, status, check_error()->operation, check_error()->message);
    check_unchanged(&w, before, operation->name, "an allocation");
  }
  undo(operation, status, made);
  world_close_away(&w);
  return status == 0;
}

/* If no memory is left, a function would crash, leak, continue with an incomplete object, or return a wrong error. */
static void every_allocation_of_every_function(void) {
  size_t failures = 0;
  FOR_EACH_OPERATION(operation)
  for (size_t allocations = 0; !succeeds_with(operation, allocations); allocations++) {
    CHECK(allocations < 100);
    failures++;
  }
  CHECK(failures > 20);
}

/* If a registry cannot grow, it would lose boxes, or creating boxes would fail. */
static void registry_does_without_growing(void) {
  enum { MANY = 1000 };
  static cch_event *events[MANY];
  OK(cch_context_primary(&context, 0));
  size_t refusals = 0;
  for (int i = 0; i < MANY; i++) {
    allow(1); /* memory for the box, but not for new buckets */
    OK(cch_event_create(&events[i], context, 0));
    limited = false;
    refusals += refused;
  }
  CHECK(refusals > 0);
  for (int i = 0; i < MANY; i++)
    check_found(events[i]);
  for (int i = 0; i < MANY; i++)
    cch_event_unref(events[i]);
  cch_context_unref(context);
}

static void no_destroy(void) {}

/* If memory runs out while a box is made, the caller would get an incomplete box. */
static void failed_programs_are_not_left(void) {
  void *program = NULL;
  allow(0);
  int status = cch_program_create(&program, CCH_KIND_NVRTC_PROGRAM, no_destroy);
  limited = false;
  CHECK(status == CCH_ENOMEM && program == NULL);
}

int main(void) {
  check_open();
  dl_iterate_phdr(find_library, NULL);
  CHECK(library_begin < library_end);
  RUN(every_allocation_of_every_function);
  RUN(registry_does_without_growing);
  RUN(failed_programs_are_not_left);
  return 0;
}

#endif
