/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>

check_sim sim;

/*
 * For LeakSanitizer: the simulated driver exists as long as the process, and does not free everything. Thread-local
 * variables are not searched, because the search sometimes crashes if threads of the driver have some.
 */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void) { return "use_tls=0:print_suppressions=0"; }
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
  return "leak:libcuda.so.1\nleak:__cxa_thread_atexit_impl\nleak:dl_open_worker_begin\n";
}
check_driver driver;

const char check_ptx[] = "//\n"
                         "// .entry commented_out(.param .u8 nothing)\n"
                         "//\n"
                         ".version 8.0\n"
                         ".target sm_70\n"
                         ".address_size 64\n"
                         ".visible .entry empty()\n"
                         "{\n  ret;\n}\n"
                         ".visible .entry store(.param .u64 store_param_0, .param .u32 store_param_1)\n"
                         "{\n"
                         "  .reg .b64 %p;\n  .reg .b32 %v;\n"
                         "  ld.param.u64 %p, [store_param_0];\n  ld.param.u32 %v, [store_param_1];\n"
                         "  st.u32 [%p], %v;\n  ret;\n"
                         "}\n"
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
  _Exit(1); /* live objects are not reported after a failure */
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
  error = *cch_error_last();
  return &error;
}

check_launch check_last_launch(void) {
  check_launch out;
  CHECK_EQ(sim.last_launch(&out.given, out.name, sizeof out.name, out.arguments, sizeof out.arguments), 1);
  return out;
}

void check_open(void) {
  const char *path = getenv("CUDACORE_DRIVER");
  void *handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (handle == NULL || dlsym(handle, "cudasim_hold") == NULL) {
    printf("CUDACORE_DRIVER does not name the simulated driver, cudacore-sim's libcuda.so.1\n");
    exit(CHECK_SKIP);
  }
  void *entry;
#define LOAD(name)                                                                                                     \
  entry = dlsym(handle, "cudasim_" #name);                                                                             \
  CHECK(entry != NULL);                                                                                                \
  memcpy(&sim.name, &entry, sizeof entry);
  CHECK_CONTROLS(LOAD)
#undef LOAD
  PFN_cuGetProcAddress_v12000 find;
  entry = dlsym(handle, "cuGetProcAddress_v2");
  CHECK(entry != NULL);
  memcpy(&find, &entry, sizeof entry);
#define LOAD(name, version)                                                                                            \
  if (find(#name, &entry, version, 0, NULL) != CUDA_SUCCESS)                                                           \
    entry = NULL;                                                                                                      \
  memcpy(&driver.name, &entry, sizeof entry);
  CHECK_DRIVER(LOAD)
#undef LOAD
  sim.reset();
}

int check_released;

void check_release(void *owner) { check_released += *(const int *)owner; }

void check_settle(void) { CHECK_EQ(sim.clear_errors(), 0); }

void check_clean(const char *file, int line) {
  char report[1024];
  check_settle();
  cch_reclaim_drain();
  if (sim.report(sim.reports(), report, sizeof report) != 0)
    check_fail(file, line, "misuse of the driver: %s", report);
  if (cch_reclaim_pending() != 0)
    check_fail(file, line, "%zu boxes are queued", cch_reclaim_pending());
  for (int kind = 0; kind < CCH_KIND_COUNT; kind++)
    if (cch_live_count(kind) != 0)
      check_fail(file, line, "%zu boxes of kind %d are alive (cch_kind)", cch_live_count(kind), kind);
  for (int kind = 0; kind < CUDASIM_KIND_COUNT; kind++)
    if (sim.live(kind) != 0)
      check_fail(file, line, "the driver has %zu of kind %s alive", sim.live(kind), sim.kind_name(kind));
}

static void nothing(void) {}
static void (*before_test)(void) = nothing, (*after_test)(void) = nothing;

void check_around(void (*before)(void), void (*after)(void)) {
  before_test = before;
  after_test = after;
}

void check_run(void (*test)(void), const char *name) {
  printf("%s\n", name);
  fflush(stdout);
  sim.reset();
  cch_error_clear();
  check_released = 0;
  before_test();
  test();
  after_test();
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
