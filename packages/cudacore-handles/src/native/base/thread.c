/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on threads of their own: long calls that signals should interrupt, and calls that need a large stack.
 *
 * Python handles signals on the main thread, between two bytecodes. So the main thread waits for the call in slices,
 * and handles signals between them. If a handler raises an exception, the call goes on, and the thread drops its
 * result.
 *
 * The threads are made here, because the stacks of Python's threads have the size of threading.stack_size() or, by
 * default, of the limit of the main thread's stack. If that is unlimited, they have 2 MiB.
 */
#include "base/native.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STACK = 8 << 20, SLICE = 50 * 1000 * 1000 };

/* A call. */
typedef struct job {
  atomic_int references; /* of the caller and of the thread */
  sem_t done;
  pthread_t thread;
  runtime *runtime; /* a reference */
  PyObject *function;
  PyObject *result;
  PyObject *type, *value, *traceback; /* the exception that the function raised */
  atomic_bool left; /* the function has returned, or nobody waits for it any more; the second drops the objects */
} job;

static void job_unref(job *self) {
  if (atomic_fetch_sub(&self->references, 1) != 1)
    return;
  sem_destroy(&self->done);
  runtime_unref(self->runtime);
  free(self);
}

static void unref_objects(job *self) {
  Py_CLEAR(self->function);
  Py_CLEAR(self->result);
  Py_CLEAR(self->type);
  Py_CLEAR(self->value);
  Py_CLEAR(self->traceback);
}

static void *run(void *argument) {
  job *self = argument;
  PyThreadState *thread = runtime_attach(self->runtime);
  self->result = PyObject_CallNoArgs(self->function);
  if (self->result == NULL)
    PyErr_Fetch(&self->type, &self->value, &self->traceback);
  Py_CLEAR(self->function); /* the caller can rely on the thread keeping no objects of the call */
  if (atomic_exchange(&self->left, true))
    unref_objects(self);
  runtime_detach(thread);
  runtime_thread_ended(self->runtime); /* the thread no longer exists for the interpreter, which can now end */
  sem_post(&self->done);
  job_unref(self);
  return NULL;
}

static size_t stack_size(void) {
  struct rlimit limit;
  bool is_larger = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur > STACK;
  return is_larger ? limit.rlim_cur : STACK;
}

/* Starts the thread, on which signals are blocked: the main thread handles them, and is woken by them. */
static bool start(job *self) {
  pthread_attr_t attributes;
  sigset_t all, before;
  if (pthread_attr_init(&attributes) != 0)
    return false;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_attr_setstacksize(&attributes, stack_size()) == 0 &&
                 pthread_create(&self->thread, &attributes, run, self) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return started;
}

/* Waits for a job. Returns false with an exception if a signal handler has raised it. */
static bool wait_for(job *self) {
  for (;;) {
    struct timespec until;
    int failed;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += SLICE;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    WITHOUT_GIL(failed = sem_timedwait(&self->done, &until)); /* a signal that comes just before this wakes nothing */
    if (failed == 0)
      return true;
    if (PyErr_CheckSignals() < 0)
      return false;
  }
}

static PyObject *call_on_thread(PyObject *module, PyObject *function) {
  const state *st = PyModule_GetState(module);
  job *self = calloc(1, sizeof *self);
  if (self == NULL)
    return PyErr_NoMemory();
  atomic_init(&self->references, 2);
  sem_init(&self->done, 0, 0);
  self->runtime = runtime_thread_begins(st->base.runtime);
  self->function = Py_NewRef(function);
  if (!start(self)) { /* the system allows no more threads */
    runtime_thread_ended(self->runtime);
    unref_objects(self);
    job_unref(self);
    job_unref(self);
    return PyObject_CallNoArgs(function);
  }
  PyObject *result = NULL;
  if (wait_for(self)) {
    WITHOUT_GIL(pthread_join(self->thread, NULL)); /* a fork warns of other threads, even if they are ending */
    result = self->result;
    self->result = NULL;
    if (result == NULL)
      PyErr_Restore(self->type, self->value, self->traceback);
    self->type = self->value = self->traceback = NULL;
  } else {
    pthread_detach(self->thread);
    if (atomic_exchange(&self->left, true))
      KEEPING_EXCEPTION(unref_objects(self));
  }
  job_unref(self);
  return result;
}

/* 1 on the main thread of the process, -1 on others; 0 until a thread has asked the system. */
static _Thread_local int is_main;

static void after_fork_in_child(void) { is_main = 1; } /* the only thread of the child */

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

bool handles_signals(const state *st) {
  if (is_main == 0)
    is_main = syscall(SYS_gettid) == getpid() ? 1 : -1;
  return is_main > 0 && runtime_is_main(st->base.runtime);
}

/* Returns whether the stack of this thread is at least as large as that of a thread that start() makes. */
static bool has_large_stack(void) {
  pthread_attr_t attributes;
  void *address;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0)
    return false;
  pthread_attr_getstack(&attributes, &address, &size);
  pthread_attr_destroy(&attributes);
  return size >= STACK;
}

static PyObject *call_interruptibly(PyObject *module, PyObject *function) {
  if (!handles_signals(PyModule_GetState(module)) && has_large_stack())
    return PyObject_CallNoArgs(function);
  return call_on_thread(module, function);
}

static PyObject *join_threads(PyObject *module, PyObject *nothing) {
  (void)nothing;
  const runtime *rt = ((const state *)PyModule_GetState(module))->base.runtime;
  const struct timespec pause = {.tv_nsec = 1000000};
  while (runtime_has_threads(rt)) {
    WITHOUT_GIL(nanosleep(&pause, NULL));
    if (PyErr_CheckSignals() < 0)
      return NULL;
  }
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"call_on_thread", call_on_thread, METH_O, DOC_call_on_thread},
    {"call_interruptibly", call_interruptibly, METH_O, DOC_call_interruptibly},
    {"join_threads", join_threads, METH_NOARGS, DOC_join_threads},
    {NULL, NULL, 0, NULL},
};

/*
 * Daemon threads can be in a compiler when the process ends. Python calls this when its main interpreter has ended, so
 * that they cannot begin another call, and handles no signals any more: Ctrl-C then ends the process.
 */
static void wait_for_compilers(void) { cch_compilers_finish(); }

int add_thread_functions(PyObject *module) {
  static bool waits; /* the main interpreter alone sets it, once */
  if (!waits && runtime_is_main(((const state *)PyModule_GetState(module))->base.runtime))
    waits = Py_AtExit(wait_for_compilers) == 0;
  return PyModule_AddFunctions(module, functions);
}
