/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

/**
 * @file fakecuda.h
 * The controls of the driver's test double, libfakecuda.so.
 *
 * The double answers as the driver does where lifetimes and contexts are concerned, and is no simulator: work runs
 * at once, kernels do not run at all. It hands out the address that was freed last, as the driver does, so that
 * stale pointers show; it notes every misuse, counts what is alive, logs its calls, and can fail, hide or hold back
 * any entry point. Device memory is host memory. Streams can be captured, with all that the driver
 * forbids meanwhile, into graphs of which launches become nodes, but not other work; memory that was allocated in a
 * capture stays when it ends, until a free is tried. Its image format is PTX, of which it reads the kernels'
 * signatures; of other images it reads what their headers point at, as the driver would, and nothing more.
 *
 * $FAKECUDA_VERSION is the driver version that it claims, 13020 without it. With $FAKECUDA_FORK_IN_INIT, cuInit forks
 * a child that exits at once, as the driver does where it has to run nvidia-modprobe.
 */

#include <stddef.h>
#include <stdint.h>

/** What can be alive. A context is alive while its primary context is retained. */
typedef enum fake_kind {
  FAKE_CONTEXT = 0,
  FAKE_STREAM = 1,
  FAKE_EVENT = 2,
  FAKE_POOL = 3,
  FAKE_MEMORY = 4,
  FAKE_LIBRARY = 5,
  FAKE_KERNEL = 6,
  FAKE_GRAPH = 7, /* those in nodes and in executable graphs, too */
  FAKE_NODE = 8,
  FAKE_EXEC = 9,
  FAKE_USER_OBJECT = 10,
  FAKE_ADDRESSES = 11,
  FAKE_PHYSICAL = 12,
  FAKE_MAPPING = 13,
  FAKE_KIND_COUNT = 14
} fake_kind;

/** One call: the entry point, the thread, the context that was current when it began, its stream, what it returned. */
typedef struct fake_call {
  const char *name;
  uint64_t thread;
  void *context;
  void *stream;
  int64_t result;
} fake_call;

#define FAKE_ARGS_SIZE 32764

/** One launch, with its arguments as the kernel would find them. */
typedef struct fake_launch {
  void *kernel;
  void *stream;
  void *context;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t cluster[3];
  uint32_t shared_bytes;
  uint32_t cooperative;
  uint32_t programmatic;
  int32_t priority;
  size_t args_size;
  unsigned char args[FAKE_ARGS_SIZE];
} fake_launch;

/*
 * The controls, as X(result, name, parameters). Names of entry points are those of cuGetProcAddress, without the
 * version: "cuStreamDestroy". NULL stands for any entry point where it says so.
 *
 * fake_reset            forgets log, violations, failures, hidden and held entry points; objects stay alive
 * fake_live             objects of a kind that are alive
 * fake_violations       misuses so far; fake_last_violation copies the text of the last, "" for none
 * fake_fail             the nth call from now (1 is the next, 0 is every one) of `name` (NULL: of any) gives `result`
 * fake_hide             cuGetProcAddress does not know `name`
 * fake_calls            calls so far of `name` (NULL: of any); cuGetProcAddress is counted by its own name only
 * fake_log              copies up to `max` calls from the `first` on and returns how many; the log is bounded
 * fake_hold             calls of `name` wait at their beginning until fake_let_go; fake_held says how many do
 * fake_forbid           from now on (1), or no longer (0), the calling thread runs a host function: of most calls the
 *                       driver then says CUDA_ERROR_NOT_PERMITTED, which is no misuse
 * fake_depth            depth of the calling thread's context stack
 * fake_last_launch      copies the last launch and returns 1, or returns 0 when there was none
 */
#define FAKE_CONTROLS(X)                                                                                               \
  X(void, fake_reset, (void))                                                                                          \
  X(size_t, fake_live, (int kind))                                                                                     \
  X(size_t, fake_violations, (void))                                                                                   \
  X(void, fake_last_violation, (char *out, size_t size))                                                               \
  X(void, fake_fail, (const char *name, unsigned nth, int result))                                                     \
  X(void, fake_hide, (const char *name))                                                                               \
  X(size_t, fake_calls, (const char *name))                                                                            \
  X(size_t, fake_log, (size_t first, fake_call *out, size_t max))                                                      \
  X(void, fake_hold, (const char *name))                                                                               \
  X(size_t, fake_held, (const char *name))                                                                             \
  X(void, fake_let_go, (const char *name))                                                                             \
  X(void, fake_forbid, (int forbidden))                                                                                \
  X(int, fake_depth, (void))                                                                                           \
  X(int, fake_last_launch, (fake_launch * out))

#endif
