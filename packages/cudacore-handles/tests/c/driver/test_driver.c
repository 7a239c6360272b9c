/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the driver, and missing entry points. */
#include "driver/driver_table.h"
/* driver_table.h is included only for its list of entry points. The library does not export the table itself. */
#include "check.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs a test in a child process, in which no driver is loaded yet. */
#define RUN_ALONE(test)                                                                                                \
  do {                                                                                                                 \
    pid_t child = fork();                                                                                              \
    if (child == 0) {                                                                                                  \
      RUN(test);                                                                                                       \
      _exit(0);                                                                                                        \
    }                                                                                                                  \
    int status;                                                                                                        \
    CHECK_EQ(waitpid(child, &status, 0), child);                                                                       \
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);                                                              \
  } while (0)

/* If the driver forks in cuInit to run nvidia-modprobe, a lock held by the library would keep cuInit from returning. */
static void driver_may_fork_in_init(void) {
  setenv("REAL_DRIVER", getenv("CUDACORE_DRIVER"), 1);
  setenv("CUDACORE_DRIVER", getenv("FORKING_DRIVER"), 1);
  alarm(30);
  OK(cch_driver_init());
}

static void init_in_thread(int index, void *argument) {
  int count;
  (void)index, (void)argument;
  OK(cch_device_count(&count));
}

/* Several threads that make the first call would initialise the driver more than once, or use a half-loaded driver. */
static void threads_initialise_once(void) {
  check_threads(8, init_in_thread, NULL);
  CHECK_EQ(sim.calls("cuInit"), 1);
}

/* An entry point that one driver lacks would not be reported as missing, or would disable other entry points. */
static void hidden_entry_point_fails_alone(void) {
  sim.hide("cuStreamGetPriority");
  sim.hide("cuPointerGetAttribute");
  cch_context *context;
  cch_stream *stream;
  unsigned flags;
  int priority = -7;
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_stream_flags(&flags, stream));
  FAILS(CCH_ENOSYMBOL, cch_stream_priority(&priority, stream));
  CHECK_EQ(priority, -7);
  CHECK_STR(check_error()->operation, "cuStreamGetPriority");
  CHECK_HAS(check_error()->message, "5.5");
  CHECK_HAS(check_error()->message, "13.2");
  OK(cch_context_set_current(context));
  FAILS(CCH_ENOSYMBOL, cch_pointer_check(1));
  OK(cch_context_set_current(NULL));
  cch_stream_unref(stream);
  cch_context_unref(context);
}

/* A driver of CUDA 12.0 could not be used at all, or an error would not name the required version. */
static void old_driver_serves_what_it_has(void) {
  cch_context *context;
  cch_library *library;
  cch_kernel *kernel;
  cch_event *event;
  OK(cch_context_primary(&context, 0));
  OK(cch_context_set_current(context));
  OK(cch_event_create(&event, context, 0));
  OK(cch_library_load(&library, check_ptx, strlen(check_ptx)));
  OK(cch_kernel_get(&kernel, library, "add"));
  const cch_param *params = NULL;
  size_t count = 77;
  FAILS(CCH_ENOSYMBOL, cch_kernel_params(&params, &count, kernel, NULL));
  CHECK(params == NULL && count == 77);
  CHECK_STR(check_error()->operation, "cuKernelGetParamInfo");
  CHECK_HAS(check_error()->message, "12.4");
  CHECK_HAS(check_error()->message, "12.0");
  OK(cch_context_set_current(NULL));
  cch_event_unref(event);
  cch_kernel_unref(kernel);
  cch_library_unref(library);
  cch_context_unref(context);
}

/*
 * With a driver that cannot report a kernel's parameters, those given to cch_kernel_set_params() would not be used, or
 * the library of a kernel would not be found.
 */
static void launch_as_stated(void) {
  static const cch_param stated[] = {{0, 8}, {8, 4}, {12, 4}, {16, 8}, {24, 12}};
  const cch_param *params;
  size_t count;
  static const cch_launch_config one = {.size = sizeof one, .grid = {1, 1, 1}, .block = {1, 1, 1}};
  static const check_mixed arguments = {0x1122334455667788, 1.5f, 42, 2.25, {1, 2, 3}};
  cch_context *context;
  cch_stream *stream;
  cch_library *library;
  cch_kernel *kernel, *empty, *again;
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_library_load(&library, check_ptx, strlen(check_ptx)));
  OK(cch_kernel_get(&kernel, library, "mixed"));
  OK(cch_kernel_get(&empty, library, "empty"));
  OK(cch_context_set_current(context));
  FAILS(CCH_ENOSYMBOL, cch_launch(stream, &one, kernel, &arguments, CHECK_MIXED_SIZE));
  CHECK_HAS(check_error()->message, "12.4");
  FAILS(CCH_EINVAL, cch_kernel_set_params(kernel, NULL, 1));
  OK(cch_kernel_set_params(kernel, stated, CHECK_MIXED_COUNT));
  OK(cch_kernel_set_params(kernel, stated, 1)); /* ignored: the parameters are already set */
  OK(cch_kernel_params(&params, &count, kernel, NULL));
  CHECK(count == CHECK_MIXED_COUNT && memcmp(params, stated, sizeof stated) == 0);
  OK(cch_launch(stream, &one, kernel, &arguments, CHECK_MIXED_SIZE));
  check_launch seen = check_last_launch();
  CHECK(memcmp(seen.arguments, &arguments, CHECK_MIXED_SIZE) == 0);
  FAILS(CCH_EMISMATCH, cch_launch(stream, &one, kernel, &arguments, 8));
  OK(cch_kernel_set_params(empty, NULL, 0));
  OK(cch_launch(stream, &one, empty, NULL, 0));
  OK(cch_kernel_wrap(&again, cch_kernel_raw(kernel), NULL, NULL, NULL)); /* the same box, which keeps the library */
  CHECK_PTR(again, kernel);
  OK(cch_context_set_current(NULL));
  cch_kernel_unref(again);
  cch_kernel_unref(kernel);
  cch_kernel_unref(empty);
  cch_library_unref(library);
  cch_stream_unref(stream);
  cch_context_unref(context);
}

/* A driver of CUDA 13 would lack a function that the library requires. */
static void every_entry_point_is_found(void) {
  void *entry = dlsym(dlopen(getenv("CUDACORE_DRIVER"), RTLD_NOW | RTLD_LOCAL), "cuGetProcAddress_v2");
  PFN_cuGetProcAddress_v12000 find;
  memcpy(&find, &entry, sizeof find);
#define FOUND(name, version) CHECK(find(#name, &entry, version, 0, NULL) == CUDA_SUCCESS && entry != NULL);
  CCH__DRIVER_FUNCTIONS(FOUND)
#undef FOUND
}

/* With an argument, the program runs the tests for a driver of CUDA 12.0. */
int main(int argc, char **argv) {
  (void)argv;
  check_open();
  if (argc > 1) {
    RUN(old_driver_serves_what_it_has);
    RUN(launch_as_stated);
    return 0;
  }
  RUN_ALONE(driver_may_fork_in_init);
  RUN_ALONE(threads_initialise_once);
  RUN_ALONE(hidden_entry_point_fails_alone);
  RUN(every_entry_point_is_found);
  return 0;
}
