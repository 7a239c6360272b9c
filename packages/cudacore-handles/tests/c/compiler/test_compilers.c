/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of compilers, and their programs. Functions here replace those of the libraries. No driver is needed. */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int destroyed, result_of_destroy;

static int destroy(void **handle) {
  CHECK(*handle == &destroyed);
  destroyed++;
  return result_of_destroy;
}

static void *program_of_kind(cch_kind kind) {
  void *program = NULL, **handle;
  OK(cch_program_create(&program, kind, (cch_compiler_fn)destroy));
  CHECK_EQ(cch_kind_of(program), kind);
  OK(cch_program_handle(&handle, program));
  CHECK(*handle == NULL);
  *handle = &destroyed;
  return program;
}

static void *new_program(void) { return program_of_kind(CCH_KIND_NVRTC_PROGRAM); }

/* A function that a library lacks would be called. */
static void missing_functions_are_null(void) {
  void *library = dlopen(NULL, RTLD_NOW);
  cch_compiler_fn found = NULL;
  OK(cch_compiler_symbol(&found, library, "malloc"));
  CHECK(found != NULL);
  OK(cch_compiler_symbol(&found, library, "nvrtcNoSuchFunction"));
  CHECK(found == NULL);
  dlclose(library);
}

static int add(const char *text, int a, size_t b, const int *c, int d, const void *none) {
  return none == NULL ? atoi(text) + a + (int)b + *c + d : 0;
}

/* An argument would be lost, or passed in another one's place. */
static void arguments_are_passed(void) {
  const int c = 1000;
  const uintptr_t arguments[6] = {(uintptr_t)"10000", (uintptr_t)-1, 20, (uintptr_t)&c, 300, 0};
  int result = 0;
  OK(cch_compiler_call(&result, (cch_compiler_fn)add, arguments));
  CHECK_EQ(result, 10000 - 1 + 20 + 1000 + 300);
}

/* A program would be destroyed while it is referenced, be destroyed twice, or never; or before it is created. */
static void programs_are_destroyed_once(void) {
  static const cch_kind kinds[] = {CCH_KIND_NVRTC_PROGRAM, CCH_KIND_NVVM_PROGRAM, CCH_KIND_NVJITLINK_LINKER};
  for (size_t i = 0; i < 3; i++) {
    void *program = program_of_kind(kinds[i]);
    int before = destroyed;
    CHECK(cch_ref(program) == program);
    cch_unref(program);
    CHECK_EQ(destroyed, before);
    CHECK_EQ(cch_live_count(kinds[i]), 1);
    cch_unref(program);
    CHECK_EQ(destroyed, before + 1);
    OK(cch_program_create(&program, kinds[i], (cch_compiler_fn)destroy));
    cch_unref(program);
    CHECK_EQ(destroyed, before + 1);
  }
  CHECK_EQ(sim.calls(NULL), 0); /* compiling would need a driver */
}

/* A box of another kind would be taken for a program. */
static void other_boxes_are_refused(void) {
  void *program = NULL, **handle = NULL;
  cch_bundle *bundle = NULL;
  OK(cch_bundle_create(&bundle, 0));
  FAILS(CCH_EINVAL, cch_program_create(&program, CCH_KIND_BUNDLE, (cch_compiler_fn)destroy));
  CHECK_HAS(check_error()->message, "is not the kind of a compiler's program");
  FAILS(CCH_EINVAL, cch_program_handle(&handle, bundle));
  FAILS(CCH_EINVAL, cch_program_cancel(bundle));
  CHECK(program == NULL && handle == NULL);
  cch_bundle_unref(bundle);
}

static cch_error reported;
static void report(const cch_error *error) { reported = *error; }

/* The failure of a compiler to destroy its program would not be reported. */
static void failure_is_reported(void) {
  result_of_destroy = 4;
  cch_error_set_report(report);
  cch_unref(new_program());
  cch_error_set_report(NULL);
  result_of_destroy = 0;
  CHECK_STR(reported.operation, "nvrtcDestroyProgram");
  CHECK_EQ(reported.domain, CCH_DOMAIN_NVRTC);
  CHECK_HAS(reported.message, "NVRTC_ERROR_INVALID_PROGRAM");
}

/* cch_unref_deferred() would destroy a program at once, or never. */
static void dropped_in_a_callback(void) {
  void *program = new_program();
  int before = destroyed;
  cch_unref_deferred(program);
  CHECK_EQ(destroyed, before);
  cch_reclaim_drain();
  CHECK_EQ(destroyed, before + 1);
}

/* Compiles until it is cancelled. */
static atomic_int phase;
static int compile(void **handle) {
  atomic_store(&phase, 1);
  while (!cch_program_is_cancelled(handle, NULL))
    usleep(100);
  usleep(20000);
  atomic_store(&phase, 2);
  return 16;
}

static void *compile_on_thread(void *handle) {
  const uintptr_t arguments[6] = {(uintptr_t)handle};
  int result = 0;
  OK(cch_compiler_call(&result, (cch_compiler_fn)compile, arguments));
  CHECK_EQ(result, 16);
  return NULL;
}

/*
 * A compilation that is no longer needed could not be cancelled. One that runs when the process ends would crash,
 * because exit() destroys the compiler's data.
 */
static void compilations_are_ended(void) {
  for (int at_exit = 0; at_exit < 2; at_exit++) {
    void *program = new_program(), **handle;
    pthread_t thread;
    atomic_store(&phase, 0);
    OK(cch_program_handle(&handle, program));
    CHECK_EQ(cch_program_is_cancelled(handle, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, compile_on_thread, handle), 0);
    while (atomic_load(&phase) == 0)
      usleep(100);
    if (at_exit) {
      cch_compilers_finish();
      CHECK_EQ(atomic_load(&phase), 2);
    } else {
      OK(cch_program_cancel(program));
    }
    pthread_join(thread, NULL);
    cch_unref(program);
  }
}

static void ignore(int number) { (void)number; }

/* NVRTC 12.0 to 13.0 set SA_RESTART for the handlers of the process. */
static int restart(void) {
  struct sigaction now;
  sigaction(SIGINT, NULL, &now);
  now.sa_flags |= SA_RESTART;
  return sigaction(SIGINT, &now, NULL);
}

/* After a compilation, Ctrl-C would not interrupt a read. */
static void signals_keep_their_flags(void) {
  const uintptr_t arguments[6] = {0};
  struct sigaction own = {.sa_handler = ignore}, before, after;
  int result;
  sigaction(SIGINT, &own, &before);
  OK(cch_compiler_call(&result, (cch_compiler_fn)restart, arguments));
  sigaction(SIGINT, &before, &after);
  CHECK_EQ(after.sa_flags & SA_RESTART, 0);
}

/* Calls a function in a forked child. */
static void in_child(bool (*test)(void *program), void *program) {
  pid_t child = fork();
  if (child == 0)
    _exit(test(program) ? 0 : 1);
  if (child < 0 && errno == ENOMEM) {
    puts("  left out: there is no memory for what ThreadSanitizer maps, twice");
    return;
  }
  int status;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool is_left(void *program) {
  int before = destroyed;
  cch_unref(program);
  return destroyed == before;
}

static bool is_refused(void *program) {
  const uintptr_t arguments[6] = {0};
  int result = 0;
  int status = cch_compiler_call(&result, (cch_compiler_fn)restart, arguments);
  return status == CCH_EFORKED && is_left(program);
}

/* A forked child would wait forever for a lock of the compiler, which a thread of the parent had. */
static void child_of_a_compilation_uses_no_compiler(void) {
  void *program = new_program(), **handle;
  pthread_t thread;
  atomic_store(&phase, 0);
  OK(cch_program_handle(&handle, program));
  CHECK_EQ(pthread_create(&thread, NULL, compile_on_thread, handle), 0);
  while (atomic_load(&phase) == 0)
    usleep(100);
  in_child(is_refused, program);
  OK(cch_program_cancel(program));
  pthread_join(thread, NULL);
  cch_unref(program);
}

/* A forked child would call the compiler, although a thread of the parent may have held one of the compiler's locks. */
static void child_leaves_inherited_programs_alone(void) {
  int count;
  OK(cch_device_count(&count));
  void *program = new_program();
  in_child(is_left, program);
  cch_unref(program);
}

int main(void) {
  check_open();
  RUN(missing_functions_are_null);
  RUN(arguments_are_passed);
  RUN(programs_are_destroyed_once);
  RUN(other_boxes_are_refused);
  RUN(failure_is_reported);
  RUN(dropped_in_a_callback);
  RUN(compilations_are_ended);
  RUN(signals_keep_their_flags);
  RUN(child_of_a_compilation_uses_no_compiler);
  RUN(child_leaves_inherited_programs_alone);
  return 0;
}
