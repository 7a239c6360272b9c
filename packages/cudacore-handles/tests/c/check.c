/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>

#define DEFINE(result, name, parameters) result(*name) parameters;
FAKE_CONTROLS(DEFINE)
#undef DEFINE

check_driver driver;

const char check_ptx[] = "//\n"
                         "// .entry commented_out(.param .u8 nothing)\n"
                         "//\n"
                         ".version 8.0\n"
                         ".target sm_70\n"
                         ".address_size 64\n"
                         ".visible .entry empty()\n"
                         "{\n  ret;\n}\n"
                         ".visible .entry add(\n"
                         "  .param .u64 .ptr .global .align 4 add_param_0,\n"
                         "  .param .u64 .ptr .global .align 4 add_param_1,\n"
                         "  .param .u64 .ptr .global .align 4 add_param_2,\n"
                         "  .param .u32 add_param_3\n"
                         ")\n"
                         "{\n  ret;\n}\n"
                         ".visible .entry mixed(\n"
                         "  .param .u64 mixed_param_0, .param .f32 mixed_param_1, .param .u32 mixed_param_2,\n"
                         "  .param .f64 mixed_param_3, .param .align 4 .b8 mixed_param_4[12]\n"
                         ")\n"
                         "{\n  ret;\n}\n";

void check_fail(const char *file, int line, const char *format, ...) {
  fflush(stdout);
  fprintf(stderr, "%s:%d: ", file, line);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  _Exit(1); /* what is alive now is no news */
}

void check_eq(long long left, long long right, const char *what, const char *file, int line) {
  if (left != right)
    check_fail(file, line, "%s: %lld (%#llx), %lld (%#llx)", what, left, (unsigned long long)left, right,
               (unsigned long long)right);
}

void check_str(const char *left, const char *right, const char *what, const char *file, int line) {
  if (strcmp(left, right) != 0)
    check_fail(file, line, "%s is \"%s\", not \"%s\"", what, left, right);
}

void check_has(const char *text, const char *part, const char *what, const char *file, int line) {
  if (strstr(text, part) == NULL)
    check_fail(file, line, "%s is \"%s\", without \"%s\"", what, text, part);
}

void check_status(int status, int expected, const char *what, const char *file, int line) {
  if (status != expected) {
    const cch_error *error = check_error();
    check_fail(file, line, "%s: %d (%s), not %d; last failure %d in %s: %s", what, status, cch_error_name(status),
               expected, error->code, error->operation, error->message);
  }
  if (status == CCH_ECOMPILER && check_error()->domain < CCH_DOMAIN_NVRTC)
    check_fail(file, line, "%s: a failure of no compiler is on record", what);
  if (status != 0 && status != CUDA_ERROR_NOT_READY && status != CCH_ECOMPILER && check_error()->code != status)
    check_fail(file, line, "%s: %d is returned, and %d on record", what, status, check_error()->code);
}

const cch_error *check_error(void) {
  static _Thread_local cch_error error;
  cch_error_last(&error);
  return &error;
}

void check_open(void) {
  const char *path = getenv("CUDACORE_DRIVER");
  void *handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (handle == NULL || dlsym(handle, "fake_reset") == NULL) {
    printf("CUDACORE_DRIVER does not name the test double of the driver\n");
    exit(CHECK_SKIP);
  }
  void *entry;
#define LOAD(result, name, parameters)                                                                                 \
  entry = dlsym(handle, #name);                                                                                        \
  CHECK(entry != NULL);                                                                                                \
  memcpy(&name, &entry, sizeof entry);
  FAKE_CONTROLS(LOAD)
#undef LOAD
  PFN_cuGetProcAddress_v12000 find;
  entry = dlsym(handle, "cuGetProcAddress_v2");
  CHECK(entry != NULL);
  memcpy(&find, &entry, sizeof entry);
#define LOAD(name, version)                                                                                            \
  CHECK_EQ(find(#name, &entry, version, 0, NULL), CUDA_SUCCESS);                                                       \
  CHECK(entry != NULL);                                                                                                \
  memcpy(&driver.name, &entry, sizeof entry);
  CHECK_DRIVER(LOAD)
#undef LOAD
  fake_reset();
}

void check_clean(const char *file, int line) {
  static const char *const kinds[] = {"context", "stream", "event",         "pool",         "deviceptr",
                                      "library", "kernel", "NVRTC program", "NVVM program", "bundle"};
  static const char *const resources[] = {"context", "stream", "event", "pool", "allocation", "library", "kernel"};
  char violation[256];
  fake_last_violation(violation, sizeof violation);
  if (fake_violations() != 0)
    check_fail(file, line, "misuse of the driver: %s", violation);
  if (cch_reclaim_pending() != 0)
    check_fail(file, line, "%zu boxes are queued", cch_reclaim_pending());
  for (int kind = 0; kind < CCH_KIND_COUNT; kind++)
    if (cch_live_count(kind) != 0)
      check_fail(file, line, "%zu boxes of kind %s are alive", cch_live_count(kind), kinds[kind]);
  for (int kind = 0; kind < FAKE_KIND_COUNT; kind++)
    if (fake_live(kind) != 0)
      check_fail(file, line, "the driver has %zu of kind %s alive", fake_live(kind), resources[kind]);
}

void check_run(void (*test)(void), const char *name) {
  printf("%s\n", name);
  fflush(stdout);
  fake_reset();
  cch_error_clear();
  test();
  check_clean(name, 0);
}

struct worker {
  pthread_t thread;
  pthread_barrier_t *start;
  void (*function)(int index, void *argument);
  void *argument;
  int index;
};

static void *work(void *opaque) {
  struct worker *worker = opaque;
  pthread_barrier_wait(worker->start);
  worker->function(worker->index, worker->argument);
  return NULL;
}

void check_threads(int count, void (*function)(int index, void *argument), void *argument) {
  enum { MAX_THREADS = 64 };
  struct worker workers[MAX_THREADS];
  pthread_barrier_t start;
  CHECK(count <= MAX_THREADS);
  CHECK_EQ(pthread_barrier_init(&start, NULL, (unsigned)count), 0);
  for (int i = 0; i < count; i++) {
    workers[i] = (struct worker){.start = &start, .function = function, .argument = argument, .index = i};
    CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < count; i++)
    CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
  pthread_barrier_destroy(&start);
}
