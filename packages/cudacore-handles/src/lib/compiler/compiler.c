/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of compiler libraries, and the boxes of their programs. */
#define _GNU_SOURCE
#include "base/kinds.h"
#include "driver/driver_table.h"

#include <cudacore_internal/base.h>
#include <cudacore_internal/compiler.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* The calls of compilers that run now. */
static atomic_int calls;
/* Whether the process waits for the calls that still run, and whose results nobody can get any more. */
static atomic_bool is_ending;

void cch_compilers_finish(void) {
  const struct timespec pause = {.tv_nsec = 1000000};
  atomic_store(&is_ending, true);
  while (atomic_load(&calls) > 0)
    nanosleep(&pause, NULL);
  atomic_store(&is_ending, false);
}

/* Whether the process was forked during a call. The thread of that call can have held locks of the compiler. */
static atomic_bool is_locked;

/* The threads that call compilers do not exist in a forked child. */
static void forget_calls(void) {
  if (atomic_exchange(&calls, 0) > 0)
    atomic_store(&is_locked, true);
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(NULL, NULL, forget_calls); }

/*
 * NVRTC 12.0 to 13.0 handle these signals while they compile. They put the old handlers back, but with SA_RESTART: from
 * then on, Ctrl+C would no longer interrupt a read. So the flags are restored after each call. Those before the first
 * one of calls that overlap count. There is no lock, because a child could be forked while it is held.
 */
static const int handled[] = {SIGINT, SIGTERM, SIGXFSZ};
enum { HANDLED = sizeof handled / sizeof *handled };
static _Atomic(uintptr_t) handlers[HANDLED];
static atomic_int flags_before[HANDLED];

static void begin_call(void) {
  if (atomic_fetch_add(&calls, 1) != 0)
    return;
  for (int i = 0; i < HANDLED; i++) {
    struct sigaction now;
    sigaction(handled[i], NULL, &now);
    atomic_store(&flags_before[i], now.sa_flags);
    atomic_store(&handlers[i], (uintptr_t)now.sa_sigaction);
  }
}

static void end_call(void) {
  for (int i = 0; i < HANDLED; i++) {
    struct sigaction now;
    sigaction(handled[i], NULL, &now);
    int flags = atomic_load(&flags_before[i]);
    if ((uintptr_t)now.sa_sigaction != atomic_load(&handlers[i]) || now.sa_flags == flags)
      continue;
    now.sa_flags = flags;
    sigaction(handled[i], &now, NULL);
  }
  atomic_fetch_sub(&calls, 1);
}

cch_status cch_compiler_symbol(cch_compiler_fn *out, void *library, const char *name) {
  CCH__REQUIRE(out, library, name);
  const cch__driver_hooks *hooks = cch__driver_find_hooks();
  void *found = hooks != NULL && hooks->symbol != NULL ? hooks->symbol(library, name, NULL) : dlsym(library, name);
  memcpy(out, &found, sizeof found);
  return 0;
}

/*
 * Wherever CUDA runs on Linux, the first six pointers and integers are passed in a register each. So this call suits
 * all functions that have no more of them, and no other parameters.
 */
cch_status cch_compiler_call(int *result, cch_compiler_fn function, const uintptr_t *arguments) {
  CCH__REQUIRE(result, function, arguments);
  if (atomic_load_explicit(&is_locked, memory_order_relaxed))
    return cch__fail(CCH_EFORKED, "fork",
                     "another thread was compiling when this process was forked, and compilers cannot be used in the "
                     "child: they could wait forever for a lock of that thread");
  typedef int (*six_words)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
  begin_call();
  *result = ((six_words)function)(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
  end_call();
  return 0;
}

static const struct {
  cch_domain domain;
  const char *destroyer;
} compilers[CCH_KIND_COUNT] = {
    [CCH_KIND_NVRTC_PROGRAM] = {CCH_DOMAIN_NVRTC, "nvrtcDestroyProgram"},
    [CCH_KIND_NVVM_PROGRAM] = {CCH_DOMAIN_NVVM, "nvvmDestroyProgram"},
    [CCH_KIND_NVJITLINK_LINKER] = {CCH_DOMAIN_NVJITLINK, "nvJitLinkDestroy"},
};

static int check_kind(int kind, const char *operation) {
  bool is_program = kind >= 0 && kind < CCH_KIND_COUNT && compilers[kind].destroyer != NULL;
  return is_program ? 0 : cch__fail(CCH_EINVAL, operation, "%d is not the kind of a compiler's program", kind);
}

cch_status cch_program_create(void **out, cch_kind kind, cch_compiler_fn destroy) {
  CCH__REQUIRE(out, destroy);
  CCH__RETURN_FAILURE(check_kind((int)kind, __func__));
  cch__program *program = cch__box_new(kind, sizeof *program, __func__);
  if (program == NULL)
    return CCH_ENOMEM;
  program->destroy = (int (*)(void **))destroy;
  *out = program;
  return 0;
}

cch_status cch_program_handle(void ***out, void *box) {
  CCH__REQUIRE(out, box);
  CCH__RETURN_FAILURE(check_kind(cch_kind_of(box), __func__));
  *out = &((cch__program *)box)->raw;
  return 0;
}

cch_status cch_program_cancel(void *box) {
  CCH__REQUIRE(box);
  CCH__RETURN_FAILURE(check_kind(cch_kind_of(box), __func__));
  atomic_store_explicit(&((cch__program *)box)->cancelled, true, memory_order_relaxed);
  return 0;
}

/* During a compilation, NVRTC calls this some 100,000 times a second. */
int cch_program_is_cancelled(void *handle, void *reserved) {
  (void)reserved;
  CCH__REQUIRE(handle);
  const cch__program *program = (const cch__program *)((char *)handle - offsetof(cch__program, raw));
  return atomic_load_explicit(&program->cancelled, memory_order_relaxed) ||
         atomic_load_explicit(&is_ending, memory_order_relaxed);
}

/* Compilers own only host memory, so this needs neither the driver nor a context. */
bool cch__program_destroy(cch__program *program) {
  int kind = program->box.kind;
  bool is_left = program->raw == NULL || atomic_load_explicit(&is_locked, memory_order_relaxed);
  int result = is_left ? 0 : program->destroy(&program->raw);
  if (result != 0)
    cch__report(cch__fail_in(compilers[kind].domain, result, compilers[kind].destroyer));
  return true;
}
