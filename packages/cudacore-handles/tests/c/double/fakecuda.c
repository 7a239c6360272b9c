/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfakecuda.so: the test double of the CUDA driver that fakecuda.h describes. Its state and its controls. One lock
 * guards everything, so that it is free of data races by construction. The answers to odd calls (no current
 * context, a context that was released, arguments of the wrong size) are those that driver 580 gave on an H200.
 */
#include "double/fakecuda_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/wait.h>

typedef void (*any_function)(void);

static const struct entry_point {
  const char *name;
  int version;
  any_function pointer;
  unsigned flags;
} entry_points[] = {
#define ROW(name, version, symbol, flags) {#name, version, (any_function)symbol, flags},
    ENTRY_POINTS(ROW)
#undef ROW
};

struct state state = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
_Thread_local object *stack[MAX_DEPTH];
_Thread_local int depth;

static _Thread_local enum function calling;
static _Thread_local fake_call *call_record;
static _Thread_local bool forbidden;

static void lock(void) { pthread_mutex_lock(&state.lock); }
static void unlock(void) { pthread_mutex_unlock(&state.lock); }

/* A forked child may ask what the double saw, whichever thread held the lock in the parent. */
__attribute__((constructor)) static void set_up(void) {
  pthread_atfork(lock, unlock, unlock);
  for (int i = 0; i < DEVICES; i++) {
    state.contexts[i].kind = FAKE_CONTEXT;
    state.contexts[i].u.ctx.device = i;
    state.pools[i].kind = FAKE_POOL;
    state.pools[i].live = true;
    state.pools[i].u.pool.device = i;
    state.pools[i].u.pool.is_default = true;
    state.pools[i].u.pool.props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    state.pools[i].u.pool.props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    state.pools[i].u.pool.props.location.id = i;
  }
  object *host = &state.pools[DEVICES];
  host->kind = FAKE_POOL;
  host->live = true;
  host->u.pool.device = -1;
  host->u.pool.is_default = true;
  host->u.pool.props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  host->u.pool.props.location.type = CU_MEM_LOCATION_TYPE_HOST;
}

void violate(const char *format, ...) {
  char *text = state.last_violation;
  int n = snprintf(text, sizeof state.last_violation, "%s: ", entry_points[calling].name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + n, sizeof state.last_violation - (size_t)n, format, arguments);
  va_end(arguments);
  state.violations++;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static CUresult take_failure(const char *name) {
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < state.failure_count; i++) {
    struct failure *failure = &state.failures[i];
    if (failure->name && strcmp(failure->name, name) != 0)
      continue;
    if (failure->every || (failure->countdown > 0 && --failure->countdown == 0))
      result = failure->result;
  }
  return result;
}

CUresult enter(enum function function) {
  const struct entry_point *entry = &entry_points[function];
  lock();
  calling = function;
  state.calls[function]++;
  call_record = NULL;
  if (function != FN_cuGetProcAddress_v2) {
    state.total_calls++;
    if (state.logged < MAX_LOG) {
      call_record = &state.log[state.logged++];
      *call_record = (fake_call){.name = entry->name, .thread = (uint64_t)gettid(), .result = -1};
      call_record->context = depth ? stack[depth - 1] : NULL;
    }
  }
  if (state.held[function]) {
    state.waiting[function]++;
    pthread_cond_broadcast(&state.changed);
    while (state.held[function])
      pthread_cond_wait(&state.changed, &state.lock);
    state.waiting[function]--;
  }
  if (function == FN_cuGetProcAddress_v2)
    return CUDA_SUCCESS;
  if (forbidden && !(entry->flags & (BEFORE_INIT | IN_HOST_FUNCTION)))
    return CUDA_ERROR_NOT_PERMITTED;
  CUresult failure = take_failure(entry->name);
  if (failure != CUDA_SUCCESS || (entry->flags & BEFORE_INIT))
    return failure;
  if (!state.initialised) {
    violate("called before cuInit");
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  if (state.process != getpid()) {
    violate("called in a child of the process that called cuInit");
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  return CUDA_SUCCESS;
}

CUresult leave(CUresult result) {
  if (call_record)
    call_record->result = result;
  unlock();
  return result;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"context",    "stream",           "event",      "pool",
                                         "allocation", "library",          "kernel",     "graph",
                                         "graph node", "executable graph", "user object"};

object *new_object(fake_kind kind) {
  if (!state.free[kind]) {
    chunk *more = calloc(1, sizeof *more);
    if (!more)
      return NULL;
    more->next = state.chunks[kind];
    state.chunks[kind] = more;
    for (int i = CHUNK - 1; i >= 0; i--) {
      more->objects[i].kind = kind;
      more->objects[i].next_free = state.free[kind];
      state.free[kind] = &more->objects[i];
    }
  }
  object *o = state.free[kind];
  state.free[kind] = o->next_free;
  memset(o, 0, sizeof *o);
  o->kind = kind;
  o->live = true;
  state.live[kind]++;
  return o;
}

void bind_to_context(object *o, object *context) {
  o->context = context;
  context->u.ctx.residents++;
}

void end_object(object *o) {
  o->live = false;
  o->next_free = state.free[o->kind];
  state.free[o->kind] = o;
  state.live[o->kind]--;
  if (o->context)
    o->context->u.ctx.residents--;
}

static bool is_object(fake_kind kind, const void *handle) {
  for (int i = 0; i < DEVICES; i++)
    if (handle == &state.contexts[i] || handle == &state.pools[i])
      return ((const object *)handle)->kind == kind;
  if (handle == &state.pools[DEVICES])
    return kind == FAKE_POOL;
  for (const chunk *c = state.chunks[kind]; c; c = c->next) {
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)c->objects;
    if (offset < sizeof c->objects)
      return offset % sizeof(object) == 0;
  }
  return false;
}

CUresult check_context(object *context) {
  if (context->u.ctx.retains)
    return CUDA_SUCCESS;
  violate("the primary context of device %d was released", context->u.ctx.device);
  return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult find_object(object **out, fake_kind kind, const void *handle) {
  if (!is_object(kind, handle)) {
    violate("%p is no %s", handle, kind_names[kind]);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  object *o = (object *)handle;
  if ((kind != FAKE_CONTEXT || o->context) && !o->live) {
    violate("%s %p was destroyed", kind_names[kind], handle);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *out = o;
  return o->context ? check_context(o->context) : CUDA_SUCCESS;
}

object *home_of(object *context) { return context->context ? context->context : context; }

CUresult current_context(object **out) {
  if (depth == 0) {
    violate("no context is current");
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *out = stack[depth - 1];
  return check_context(*out);
}

CUresult find_stream(object **out, object **context, CUstream handle) {
  *out = NULL;
  if (call_record)
    call_record->stream = handle;
  if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
    return current_context(context);
  CUresult result = find_object(out, FAKE_STREAM, handle);
  if (result == CUDA_SUCCESS)
    *context = (*out)->context;
  return result;
}

CUresult check_device(CUdevice device) {
  return device >= 0 && device < DEVICES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* ---- controls ---------------------------------------------------------------------------------------------------- */

#define DECLARE(result, name, parameters) result name parameters;
FAKE_CONTROLS(DECLARE)
#undef DECLARE

/* Applies a statement to every entry point of a name, as `f`. */
#define FOR_EACH_NAMED(name_, statement)                                                                               \
  for (int f = 0; f < FUNCTIONS; f++)                                                                                  \
    if (strcmp(entry_points[f].name, name_) == 0)                                                                      \
  statement

void fake_reset(void) {
  lock();
  memset(state.calls, 0, sizeof state.calls);
  memset(state.hidden, 0, sizeof state.hidden);
  memset(state.held, 0, sizeof state.held);
  state.total_calls = state.logged = state.violations = state.failure_count = 0;
  state.last_violation[0] = '\0';
  state.launched = false;
  pthread_cond_broadcast(&state.changed);
  unlock();
}

size_t fake_live(int kind) {
  lock();
  size_t live = 0;
  if (kind == FAKE_CONTEXT)
    for (int i = 0; i < DEVICES; i++)
      live += state.contexts[i].u.ctx.retains != 0;
  if (kind >= 0 && kind < FAKE_KIND_COUNT)
    live += state.live[kind];
  unlock();
  return live;
}

size_t fake_violations(void) {
  lock();
  size_t violations = state.violations;
  unlock();
  return violations;
}

void fake_last_violation(char *out, size_t size) {
  lock();
  snprintf(out, size, "%s", state.last_violation);
  unlock();
}

void fake_fail(const char *name, unsigned nth, int result) {
  lock();
  if (state.failure_count < MAX_FAILURES) {
    struct failure *failure = &state.failures[state.failure_count];
    *failure = (struct failure){.countdown = nth, .every = nth == 0, .result = (CUresult)result};
    if (name)
      FOR_EACH_NAMED(name, failure->name = entry_points[f].name);
    if (!name || failure->name) /* the name of nothing fails nothing */
      state.failure_count++;
  }
  unlock();
}

void fake_hide(const char *name) {
  lock();
  FOR_EACH_NAMED(name, state.hidden[f] = true);
  unlock();
}

size_t fake_calls(const char *name) {
  lock();
  size_t calls = name ? 0 : state.total_calls;
  if (name)
    FOR_EACH_NAMED(name, calls += state.calls[f]);
  unlock();
  return calls;
}

size_t fake_log(size_t first, fake_call *out, size_t max) {
  lock();
  size_t n = first < state.logged ? state.logged - first : 0;
  if (n > max)
    n = max;
  if (n)
    memcpy(out, &state.log[first], n * sizeof *out);
  unlock();
  return n;
}

void fake_hold(const char *name) {
  lock();
  FOR_EACH_NAMED(name, state.held[f] = true);
  unlock();
}

size_t fake_held(const char *name) {
  lock();
  size_t held = 0;
  FOR_EACH_NAMED(name, held += state.waiting[f]);
  unlock();
  return held;
}

void fake_let_go(const char *name) {
  lock();
  FOR_EACH_NAMED(name, state.held[f] = false);
  pthread_cond_broadcast(&state.changed);
  unlock();
}

void fake_forbid(int now) { forbidden = now != 0; }

int fake_depth(void) { return depth; }

int fake_last_launch(fake_launch *out) {
  lock();
  int launched = state.launched;
  if (launched)
    *out = state.last_launch;
  unlock();
  return launched;
}

/* ---- initialisation, versions, errors ---------------------------------------------------------------------------- */

static int driver_version(void) {
  const char *claimed = getenv("FAKECUDA_VERSION");
  return claimed && atoi(claimed) > 0 ? atoi(claimed) : 13020;
}

CUresult CUDAAPI cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *found) {
  (void)flags;
  ENTER(cuGetProcAddress_v2);
  if (!name || !out || version > driver_version())
    return leave(CUDA_ERROR_INVALID_VALUE);
  CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  *out = NULL;
  for (int f = 0; f < FUNCTIONS && !*out; f++) {
    if (strcmp(entry_points[f].name, name) != 0 || state.hidden[f] || entry_points[f].version > driver_version())
      continue;
    answer = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (entry_points[f].version > version)
      continue;
    answer = CU_GET_PROC_ADDRESS_SUCCESS;
    memcpy(out, &entry_points[f].pointer, sizeof *out);
  }
  if (found)
    *found = answer;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuInit(unsigned flags) {
  ENTER(cuInit);
  if (flags)
    return leave(CUDA_ERROR_INVALID_VALUE);
  if (state.initialised && state.process != getpid()) {
    violate("called in a child of the process that called cuInit");
    return leave(CUDA_ERROR_NOT_INITIALIZED);
  }
  if (getenv("FAKECUDA_FORK_IN_INIT")) { /* as the driver does to run nvidia-modprobe */
    unlock();
    pid_t child = fork();
    if (child == 0)
      _exit(0);
    int status;
    waitpid(child, &status, 0);
    lock();
  }
  state.initialised = true;
  state.process = getpid();
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDriverGetVersion(int *version) {
  ENTER(cuDriverGetVersion);
  if (!version)
    return leave(CUDA_ERROR_INVALID_VALUE);
  *version = driver_version();
  return leave(CUDA_SUCCESS);
}

#define ERRORS(X)                                                                                                      \
  X(CUDA_SUCCESS, "no error")                                                                                          \
  X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                                      \
  X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                                         \
  X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                                                \
  X(CUDA_ERROR_DEINITIALIZED, "driver shutting down")                                                                  \
  X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                                        \
  X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                                               \
  X(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                                                        \
  X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                                              \
  X(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device")                          \
  X(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed")                                                            \
  X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain.")                \
  X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                                              \
  X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                                                    \
  X(CUDA_ERROR_NOT_READY, "device not ready")                                                                          \
  X(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                                            \
  X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")                                     \
  X(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                                           \
  X(CUDA_ERROR_NOT_PERMITTED, "operation not permitted")                                                               \
  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")                         \
  X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture")                  \
  X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,                                                                                \
    "operation would make the legacy stream depend on a capturing blocking stream")                                    \
  X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                                               \
  X(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster dimension")                                                      \
  X(CUDA_ERROR_UNKNOWN, "unknown error")

static CUresult find_error(const char **out, CUresult error, bool want_name) {
  static const struct {
    CUresult error;
    const char *name, *meaning;
  } errors[] = {
#define ROW(error, meaning) {error, #error, meaning},
    ERRORS(ROW)
#undef ROW
  };
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].error == error) {
      *out = want_name ? errors[i].name : errors[i].meaning;
      return CUDA_SUCCESS;
    }
  *out = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **out) {
  ENTER(cuGetErrorName);
  return leave(find_error(out, error, true));
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **out) {
  ENTER(cuGetErrorString);
  return leave(find_error(out, error, false));
}

/* NVRTC looks this up in whatever driver is loaded, and calls it without asking whether it is there. */
CUresult CUDAAPI cuGetExportTable(const void **out, const CUuuid *id) {
  (void)out, (void)id;
  ENTER(cuGetExportTable);
  return leave(CUDA_ERROR_NOT_FOUND);
}
