/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the output of printf in kernels, by replacements of those functions of the driver that write it. */
#define _GNU_SOURCE
#include "base/arguments.h"
#include "base/kinds.h"
#include "driver/driver_table.h"

#include <cudacore_internal/driver.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The functions at which the driver writes output: their parameters, and the arguments for the driver. */
#define PRINTING(X)                                                                                                    \
  X(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction kernel, void **arguments, void **extra),               \
    (config, kernel, arguments, extra)) /* the first launch of code loads it */                                        \
  X(cuCtxSynchronize, (void), ())                                                                                      \
  X(cuStreamSynchronize, (CUstream stream), (stream))                                                                  \
  X(cuEventSynchronize, (CUevent event), (event))                                                                      \
  X(cuMemAlloc, (CUdeviceptr * memory, size_t size), (memory, size))                                                   \
  X(cuMemFree, (CUdeviceptr memory), (memory))                                                                         \
  X(cuMemHostAlloc, (void **memory, size_t size, unsigned flags), (memory, size, flags))                               \
  X(cuMemFreeHost, (void *memory), (memory))                                                                           \
  X(cuLibraryUnload, (CUlibrary library), (library))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows; not held while the driver is called */
static int collected = -1;                               /* a file in memory */
static int standard_output; /* a copy of file descriptor 1 while it is replaced; negative if it was closed */
static unsigned calls;      /* calls during which it is replaced */
static atomic_bool enabled_now, has_output;

static void restore(void) {
  if (standard_output < 0) {
    close(STDOUT_FILENO);
    return;
  }
  dup2(standard_output, STDOUT_FILENO);
  close(standard_output);
}

/* A call during which the descriptor could not be replaced is not counted. */
static bool begin(void) {
  pthread_mutex_lock(&lock);
  bool is_replaced = calls != 0;
  if (!is_replaced) {
    fflush(stdout); /* what other code has written belongs to the real descriptor */
    standard_output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const bool is_known = standard_output >= 0 || errno == EBADF;
    is_replaced = is_known && dup2(collected, STDOUT_FILENO) >= 0;
    if (!is_replaced && standard_output >= 0)
      close(standard_output);
  }
  calls += is_replaced;
  pthread_mutex_unlock(&lock);
  return is_replaced;
}

static CUresult end(bool is_replaced, CUresult result) {
  if (!is_replaced)
    return result;
  pthread_mutex_lock(&lock);
  fflush(stdout); /* the driver may write to the buffer of the C library */
  if (--calls == 0)
    restore();
  if (lseek(collected, 0, SEEK_END) > 0)
    atomic_store_explicit(&has_output, true, memory_order_release);
  pthread_mutex_unlock(&lock);
  return result;
}

static void before_fork(void) { pthread_mutex_lock(&lock); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&lock); }

/* The thread that would restore the descriptor does not exist in the child. */
static void after_fork_in_child(void) {
  if (calls != 0)
    restore();
  calls = 0;
  atomic_store_explicit(&has_output, false, memory_order_relaxed); /* the parent writes it, and shares the file */
  pthread_mutex_unlock(&lock);
}

/* Returns a new file in memory, or -1. It is none of the standard descriptors, which a program can have closed. */
static int new_file(void) {
  int file = memfd_create("cudacore-printf", MFD_CLOEXEC);
  if (file < 0 || file > STDERR_FILENO)
    return file;
  int other = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(file);
  return other;
}

__attribute__((constructor)) static void watch_fork(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static struct {
#define FIELD(name, parameters, arguments) __typeof__(cch__driver.name) name;
  PRINTING(FIELD)
#undef FIELD
} real;

#define REPLACEMENT(name, parameters, arguments)                                                                       \
  static CUresult CUDAAPI collecting_##name parameters {                                                               \
    bool is_replaced = begin();                                                                                        \
    return end(is_replaced, real.name arguments);                                                                      \
  }
PRINTING(REPLACEMENT)
#undef REPLACEMENT

/* Other threads may be calling the functions of the table, so each pointer is replaced at once. */
static void replace_functions(bool enabled) {
#define REPLACE(name, parameters, arguments)                                                                           \
  if (cch__driver.name != NULL) {                                                                                      \
    if (enabled)                                                                                                       \
      real.name = cch__driver.name;                                                                                    \
    __atomic_store_n(&cch__driver.name, enabled ? collecting_##name : real.name, __ATOMIC_RELEASE);                    \
  }
  PRINTING(REPLACE)
#undef REPLACE
}

cch_status cch_printed_collect(bool enabled) {
  CCH__RETURN_FAILURE(cch__ready());
  pthread_mutex_lock(&lock);
  int error = 0;
  if (collected < 0) {
    collected = new_file();
    if (collected < 0 || fcntl(collected, F_SETFL, O_APPEND) < 0)
      error = errno;
  }
  if (error == 0 && atomic_exchange(&enabled_now, enabled) != enabled)
    replace_functions(enabled);
  pthread_mutex_unlock(&lock);
  return error == 0 ? 0 : cch__fail(CCH_ENOMEM, __func__, "memfd_create: %s", strerror(error));
}

bool cch_printed_is_collected(void) { return atomic_load_explicit(&enabled_now, memory_order_relaxed); }

bool cch_printed_is_possible(void) { return atomic_load_explicit(&cch__printing, memory_order_relaxed) != 0; }

cch_status cch_printed_read(size_t *count, char *text, size_t size) {
  static off_t done; /* guarded by the lock */
  CCH__REQUIRE(count, text);
  *count = 0;
  if (!atomic_load_explicit(&has_output, memory_order_acquire))
    return 0;
  pthread_mutex_lock(&lock);
  ssize_t got = pread(collected, text, size, done);
  *count = got > 0 ? (size_t)got : 0;
  done += (off_t)*count;
  if (calls == 0 && done == lseek(collected, 0, SEEK_END) && ftruncate(collected, 0) == 0) {
    done = 0;
    atomic_store_explicit(&has_output, false, memory_order_relaxed);
  }
  pthread_mutex_unlock(&lock);
  return 0;
}
