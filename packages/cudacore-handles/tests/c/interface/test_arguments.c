/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls every public function with each of its arguments wrong in turn: NULL, or a box of each other kind. arguments.py
 * makes the table of functions from the headers. The calls are made in child processes, so that a crashing call is
 * reported, and the others are still made.
 */
#include "operations.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*any_function)(void);

/* The value of an argument or of a result. */
typedef struct value {
  void *pointer;
  long long number;
  any_function function;
} value;

typedef struct parameter {
  const char *name;
  enum { BOX, ANY_BOX, HANDLE, POINTER, FUNCTION, NUMBER, SIZE } sort;
  int kind;         /* the kind of a box */
  const char *type; /* the type of a handle */
  bool nullable;
  bool makes_box;        /* an out-parameter for a new box */
  any_function function; /* the callback to pass */
} parameter;

typedef struct function {
  const char *name;
  void (*call)(value *result, const value *arguments);
  enum { STATUS, ZERO, NOTHING, RAW } answer; /* the result for a wrong argument */
  int count;
  parameter parameters[8];
} function;

/* The callback functions to pass. Each is named for its type. */
static void fn_cch_release_fn(void *owner) { (void)owner; }
static void fn_cch_host_fn(void *data) { (void)data; }
static int fn_cch_keep_fn(void *data) {
  (void)data;
  return 0;
}
static void fn_cch_report_fn(const cch_error *error) { (void)error; }
static void fn_cch_search_fn(void) {}
static void fn_cch_compiler_fn(void) {}
static void fn_cch_free_fn(void *owner, CUdeviceptr ptr, size_t size, cch_stream *stream) {
  (void)owner, (void)ptr, (void)size, (void)stream;
}

#include "arguments_table.h"

/* The exit status of a child after a call that succeeded. The next child begins with new objects. */
enum { GO_ON = 2 };

enum { FUNCTIONS = sizeof functions / sizeof *functions, ROOM = 1024 };

/* The objects from which valid arguments are taken. */
static world w;
static void *boxes[CCH_KIND_COUNT];
static const char zero[ROOM];
static char room[8][ROOM]; /* memory for pointers to values, such as out-parameters; must stay zero if a call fails */

static void open_boxes(void) {
  static const cch_kind programs[] = {CCH_KIND_NVRTC_PROGRAM, CCH_KIND_NVVM_PROGRAM, CCH_KIND_NVJITLINK_LINKER};
  world_open(&w);
  void *const made[CCH_KIND_COUNT] = {w.context, w.stream, w.start, w.pool, w.ptr,  w.library, w.kernel,  NULL,
                                      NULL,      w.bundle, w.graph, w.node, w.exec, NULL,      w.graphics};
  memcpy(boxes, made, sizeof boxes);
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    OK(cch_program_create(&boxes[programs[i]], programs[i], fn_cch_compiler_fn));
  const cch_texture_desc sampling = {0};
  cch_texture_resource resource = {0};
  OK(cch_array_create((cch_array **)&boxes[CCH_KIND_ARRAY], w.context, &world_line));
  resource.source = boxes[CCH_KIND_ARRAY];
  OK(cch_mipmapped_array_create((cch_mipmapped_array **)&boxes[CCH_KIND_MIPMAPPED_ARRAY], w.context, &world_plane));
  OK(cch_texture_create((cch_texture **)&boxes[CCH_KIND_TEXTURE], w.context, &resource, &sampling));
  OK(cch_surface_create((cch_surface **)&boxes[CCH_KIND_SURFACE], w.context, boxes[CCH_KIND_ARRAY]));
  OK(cch_tracker_create((cch_tracker **)&boxes[CCH_KIND_TRACKER], &(cch_tracker_config){.lists = true}));
  OK(cch_allocator_create((cch_allocator **)&boxes[CCH_KIND_ALLOCATOR], w.pool, NULL, 0));
  for (int kind = 0; kind < CCH_KIND_COUNT; kind++)
    CHECK_EQ(cch_kind_of(boxes[kind]), kind);
}

static void close_boxes(void) {
  cch_unref(boxes[CCH_KIND_NVRTC_PROGRAM]);
  cch_unref(boxes[CCH_KIND_NVVM_PROGRAM]);
  cch_unref(boxes[CCH_KIND_NVJITLINK_LINKER]);
  cch_unref(boxes[CCH_KIND_TRACKER]);
  cch_unref(boxes[CCH_KIND_ALLOCATOR]);
  cch_torch_set_allocator(1, NULL);
  cch_unref(boxes[CCH_KIND_SURFACE]);
  cch_unref(boxes[CCH_KIND_TEXTURE]);
  cch_unref(boxes[CCH_KIND_MIPMAPPED_ARRAY]);
  cch_unref(boxes[CCH_KIND_ARRAY]);
  world_close(&w);
}

static void *handle(const char *type) {
  const struct {
    const char *type;
    void *raw;
  } handles[] = {{"CUcontext", w.foreign_context},
                 {"CUstream", w.foreign_stream},
                 {"CUevent", w.foreign_event},
                 {"CUmemoryPool", w.foreign_pool},
                 {"CUlibrary", w.foreign_library},
                 {"CUkernel", w.foreign_kernel},
                 {"CUgraph", cch_graph_raw(w.graph)},
                 {"CUgraphNode", cch_graph_node_raw(w.node)},
                 {"CUgraphicsResource", cch_graphics_raw(w.graphics)},
                 {"CUarray", cch_array_raw(boxes[CCH_KIND_ARRAY])}};
  for (size_t i = 0; i < sizeof handles / sizeof *handles; i++)
    if (strcmp(handles[i].type, type) == 0)
      return handles[i].raw;
  check_fail(__FILE__, __LINE__, "there is no handle of the type %s to test with", type);
}

static void fill(value *arguments, const function *f) {
  for (int i = 0; i < f->count; i++) {
    const parameter *p = &f->parameters[i];
    arguments[i] = (value){.number = 1, .function = p->function, .pointer = room[i]};
    if (p->sort == BOX)
      arguments[i].pointer = boxes[p->kind];
    else if (p->sort == ANY_BOX)
      arguments[i].pointer = w.bundle;
    else if (p->sort == HANDLE)
      arguments[i].pointer = handle(p->type);
  }
}

/* Gets a wrong value of an argument by the value's number: NULL, or boxes. Returns false after the last value. */
static bool wrong(void **out, const parameter *p, int number) {
  *out = NULL;
  if (p->sort == NUMBER || p->sort == SIZE)
    return false;
  if (number == 0)
    return true;
  if (p->sort != BOX || number > CCH_KIND_COUNT)
    return false;
  *out = boxes[number - 1]; /* run_calls() skips the box that is of the right kind */
  return true;
}

/* Calls a function with one wrong argument, and checks the function's result and error message. */
static void check_refusal(const function *f, int place, void *given) {
  const parameter *p = &f->parameters[place];
  value arguments[8], result = {0};
  char expected[96];
  fill(arguments, f);
  arguments[place].pointer = given;
  arguments[place].function = NULL;
  cch_error_clear();
  f->call(&result, arguments);
  snprintf(expected, sizeof expected, "the argument %s is ", f->answer == RAW ? "box" : p->name);
  if (f->answer == NOTHING)
    return;
  CHECK_EQ(result.number, f->answer == STATUS ? CCH_EINVAL : 0);
  CHECK_PTR(result.pointer, NULL);
  if (f->answer == RAW && given == NULL)
    return;
  CHECK_EQ(check_error()->code, CCH_EINVAL);
  CHECK_HAS(check_error()->message, expected);
  for (int i = 0; i < f->count; i++)
    if (memcmp(room[i], zero, sizeof zero) != 0)
      check_fail(__FILE__, __LINE__, "%s has changed the argument %s", f->name, f->parameters[i].name);
}

/* Calls a function with an unusual argument that may be valid. The function may return anything, but must not crash. */
static void check_survival(const function *f, int place, value given) {
  value arguments[8], result = {0};
  fill(arguments, f);
  arguments[place] = given;
  f->call(&result, arguments);
}

/*
 * Whether a function has a pointer to values, so that another of its parameters can be the number of bytes or elements.
 */
static bool counts(const function *f) {
  for (int i = 0; i < f->count; i++)
    if (f->parameters[i].sort == POINTER && !f->parameters[i].makes_box)
      return true;
  return false;
}

/* Makes the test calls of one function, starting with number `first`. *at is the number of the current call. */
static void run_calls(const function *f, int first, volatile int *at) {
  static const long long numbers[] = {0, -1, 0x7fffffff, -0x7fffffff - 1};
  int call = 0;
  void *given;
  for (int place = 0; place < f->count; place++) {
    const parameter *p = &f->parameters[place];
    for (int n = 0; wrong(&given, p, n); n++) {
      bool is_right = (n == 0 && (p->nullable || p->sort == ANY_BOX)) || (p->sort == BOX && given == boxes[p->kind]);
      *at = call;
      if (!is_right && call++ >= first)
        check_refusal(f, place, given);
    }
  }
  close_boxes();
  CHECK_CLEAN();
  for (int place = 0; place < f->count; place++) {
    const parameter *p = &f->parameters[place];
    bool is_number = p->sort == NUMBER || p->sort == SIZE;
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
      if (is_number ? p->sort == SIZE && numbers[n] != 0 && counts(f) : n > 0 || !p->nullable)
        continue;
      *at = call;
      if (call++ < first)
        continue;
      open_boxes();
      check_survival(f, place, (value){.number = numbers[n]});
      *at = call;
      _exit(GO_ON); /* the child ends, because the call may have changed objects */
    }
  }
}

/* Makes the sanitizers' malloc() return NULL for huge sizes, instead of ending the process. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

static int failures;

static void test(const function *f, volatile int *at) {
  int status, first = 0;
  do {
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(60);
      check_open();
      open_boxes();
      run_calls(f, first, at);
      _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (*at > first)
      first = *at;
    if (WIFSIGNALED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != GO_ON)) {
      fprintf(stderr, "%s, call %d: %s\n", f->name, *at,
              WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "see above");
      if (++failures > 200)
        check_fail(__FILE__, __LINE__, "too many failures");
      first++;
    }
  } while (WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

int main(int argc, char **argv) {
#ifdef __SANITIZE_THREAD__
  /* With ThreadSanitizer, starting the child processes would take ten minutes. */
  puts("has one thread, in which ThreadSanitizer finds nothing");
  return 77;
#endif
  check_open(); /* skips the test on another driver than the simulated one */
  volatile int *at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(at != MAP_FAILED);
  for (size_t i = 0; i < FUNCTIONS; i++)
    if (argc < 2 || strcmp(functions[i].name, argv[1]) == 0) {
      *at = 0;
      test(&functions[i], at);
    }
  printf("%d functions, %d failures\n", FUNCTIONS, failures);
  return failures != 0;
}
