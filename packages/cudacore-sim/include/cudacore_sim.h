/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_H
#define CUDACORE_SIM_H

/**
 * @file cudacore_sim.h
 * The controls of the simulated CUDA driver. The simulator is a libcuda.so.1; these functions are exported beside the
 * driver's own. A program that must also run on a real driver asks for them by dlsym. Any thread may call them, also
 * a host function or callback that CUDA runs.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CUDASIM_EXPORT __attribute__((visibility("default")))
#else
#define CUDASIM_EXPORT
#endif

/** Version of this interface. A newer library keeps what an older one had. */
#define CUDASIM_VERSION 1

/** What can be alive. A primary context is alive while it is retained; an address range is one of cuMemAddressReserve.
 */
typedef enum cudasim_kind {
  CUDASIM_CONTEXT = 0,
  CUDASIM_STREAM = 1,
  CUDASIM_EVENT = 2,
  CUDASIM_POOL = 3,
  CUDASIM_DEVICE_MEMORY = 4,
  CUDASIM_HOST_MEMORY = 5,
  CUDASIM_MANAGED_MEMORY = 6,
  CUDASIM_PHYSICAL_MEMORY = 7,
  CUDASIM_ADDRESS_RANGE = 8,
  CUDASIM_LIBRARY = 9,
  CUDASIM_MODULE = 10,
  CUDASIM_GRAPH = 11, /**< not those in nodes */
  CUDASIM_GRAPH_EXEC = 12,
  CUDASIM_USER_OBJECT = 13,
  CUDASIM_KIND_COUNT = 14
} cudasim_kind;

/** One call that has returned. */
typedef struct cudasim_call {
  uint64_t number;  /**< of the call, from 1; numbers that are missing were dropped, the log is bounded */
  const char *name; /**< the exported symbol, such as "cuMemAlloc_v2" */
  uint64_t thread;  /**< the kernel's id of the calling thread */
  void *context;    /**< the context that was current when the call began */
  int32_t result;   /**< CUresult */
  int32_t injected; /**< 1: cudasim_fail made it fail */
} cudasim_call;

/** What a launch asked for. */
typedef struct cudasim_launch {
  uint64_t number;       /**< of the launch, from 1 */
  void *stream;          /**< CUstream as it was given */
  void *context;         /**< that it ran in */
  uint32_t grid[3];      /**< in blocks */
  uint32_t block[3];     /**< in threads */
  uint32_t cluster[3];   /**< in blocks, as the launch gave it; zeros: it gave none */
  uint32_t shared_bytes; /**< dynamic shared memory of a block */
  uint32_t cooperative;  /**< 1: a cooperative launch */
  uint32_t programmatic; /**< 1: programmatic stream serialization */
  size_t name_size;      /**< of the kernel's name, without the NUL */
  size_t argument_size;  /**< of the argument block, bytes */
} cudasim_launch;

/** CUDASIM_VERSION of the library. */
CUDASIM_EXPORT int cudasim_version(void);

/**
 * Writes a line for every environment variable whose value was of no use, and returns the length of the whole text.
 * Such a variable is as if it were not set.
 */
CUDASIM_EXPORT size_t cudasim_ignored_settings(char *out, size_t size);

/** Name of a kind, such as "stream"; NULL for no kind. */
CUDASIM_EXPORT const char *cudasim_kind_name(int kind);

/** How many objects of a kind are alive. 0 for no kind. */
CUDASIM_EXPORT size_t cudasim_live(int kind);

/** Writes a line for every live object of a kind (-1: of all) to `out`, and returns the length of the whole text. */
CUDASIM_EXPORT size_t cudasim_describe_live(int kind, char *out, size_t size);

/** Copies up to `max` calls with numbers above `after`, oldest first, and returns how many. */
CUDASIM_EXPORT size_t cudasim_log(uint64_t after, cudasim_call *out, size_t max);

/** Number of the last call that was logged. */
CUDASIM_EXPORT uint64_t cudasim_log_position(void);

/** Turns the log off or on; it is on at start. */
CUDASIM_EXPORT void cudasim_log_enable(int on);

/**
 * How many calls of an entry point there were, by its name with or without the version; NULL: of all of them.
 * UINT64_MAX where there is no such entry point.
 */
CUDASIM_EXPORT uint64_t cudasim_calls(const char *name);

/**
 * Makes the `nth` call from now of an entry point fail with `result`, before it does anything: 1 is the next one, 0
 * is every one until cudasim_reset. The name is that of cuGetProcAddress ("cuMemAlloc": any version) or of one symbol
 * ("cuMemAlloc_v2"); NULL is any entry point. Several failures can be armed.
 *
 * @return 0, or -1 where there is no such entry point
 */
CUDASIM_EXPORT int cudasim_fail(const char *name, uint64_t nth, int result);

/** How many calls cudasim_fail has made fail, since the start or the last cudasim_reset. */
CUDASIM_EXPORT uint64_t cudasim_injected(void);

/**
 * Makes cuGetProcAddress no longer know an entry point, by its name there ("cuMemAlloc"), until cudasim_reset: as a
 * driver does that is too old. Whoever has asked before keeps the function.
 *
 * @return 0, or -1 where there is no such entry point
 */
CUDASIM_EXPORT int cudasim_hide(const char *name);

/**
 * Describes the last launch that the driver accepted. The kernel's name goes to `name`, the argument block as the
 * kernel finds it to `arguments`, each as far as there is room; either may be NULL.
 *
 * @return 1, or 0 where nothing was launched
 */
CUDASIM_EXPORT int cudasim_last_launch(cudasim_launch *out, char *name, size_t name_capacity, void *arguments,
                                       size_t argument_capacity);

/** How many reports of misuse, faults and leaks there were. */
CUDASIM_EXPORT size_t cudasim_reports(void);

/** Copies report `index`, from 0, and returns its whole length, or 0 where there is none. */
CUDASIM_EXPORT size_t cudasim_report(size_t index, char *out, size_t size);

/**
 * How many explanations there were of calls that were refused, each of them once: why code cannot be loaded or a kernel
 * not be launched so, what is not simulated. They are no reports: a program may do so on purpose.
 */
CUDASIM_EXPORT size_t cudasim_explanations(void);

/** Copies explanation `index`, from 0, and returns its whole length, or 0 where there is none. */
CUDASIM_EXPORT size_t cudasim_explanation(size_t index, char *out, size_t size);

/**
 * Copies what there is to say of the last call of this thread that did not return CUDA_SUCCESS: the explanation, the
 * misuse that it was, or the fault of the kernel that its error comes from. Returns the whole length; 0 where nothing
 * is known but the code.
 */
CUDASIM_EXPORT size_t cudasim_why(char *out, size_t size);

/**
 * Looks up a function as dlsym does, with `look_up`, or dlsym itself where that is NULL. Functions of NVRTC and
 * nvJitLink that give cubins become ones whose cubins carry the PTX that they were made of, in a section
 * ".cudacore_sim.ptx": the simulator runs that. Any other function is what `look_up` returns. So does `python -m
 * cudacore_sim` for all of a program.
 */
CUDASIM_EXPORT void *cudasim_symbol(void *library, const char *name, void *(*look_up)(void *library, const char *name));

/**
 * Waits until no work runs or can run, then clears the errors that kernels have left in contexts and devices. What a
 * process can only end after on a GPU is over with here: memory and objects are as they were, all handles stay valid.
 * What was freed meanwhile, and refused, is still alive.
 *
 * @return how many devices had such an error
 */
CUDASIM_EXPORT int cudasim_clear_errors(void);

/** Forgets the log, the counts of calls, reports, explanations, failures that are armed, and what is hidden; objects
 * stay alive.
 */
CUDASIM_EXPORT void cudasim_reset(void);

/**
 * Waits for all work, then destroys every object and every context, as if the driver had just been initialised: sticky
 * errors are gone, and handles and device addresses that were given out are invalid. The calling thread, and no other,
 * may be using CUDA.
 */
CUDASIM_EXPORT void cudasim_reset_device(void);

#ifdef __cplusplus
}
#endif

#endif
