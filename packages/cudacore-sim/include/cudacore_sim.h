/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_H
#define CUDACORE_SIM_H

/**
 * @file cudacore_sim.h The controls of the simulated CUDA driver. The simulator is a libcuda.so.1 that exports these
 * functions in addition to the driver's own. A program that also runs on a real driver must look these functions up by
 * dlsym. The functions can be called on any thread, and in host functions and callbacks of CUDA.
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

/** Version of this interface. Newer versions keep all functions of older ones. */
#define CUDASIM_VERSION 1

/**
 * The kinds of objects. A primary context counts as live while it is retained. An address range is the result of
 * cuMemAddressReserve.
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
  CUDASIM_GRAPH = 11, /**< excludes child graphs and the bodies of conditional nodes */
  CUDASIM_GRAPH_EXEC = 12,
  CUDASIM_USER_OBJECT = 13,
  CUDASIM_GRAPHICS = 14, /**< registered graphics resources */
  CUDASIM_ARRAY = 15,    /**< includes mipmapped arrays, but not their levels */
  CUDASIM_TEXTURE = 16,
  CUDASIM_SURFACE = 17,
  CUDASIM_KIND_COUNT = 18
} cudasim_kind;

/** A finished call of a driver function. */
typedef struct cudasim_call {
  uint64_t number;      /**< counted from 1; a full log drops its oldest calls */
  const char *name;     /**< the exported symbol, such as "cuMemAlloc_v2" */
  uint64_t thread;      /**< the thread id (TID) that Linux gives the calling thread */
  void *context;        /**< the context that was current when the call began */
  int32_t result;       /**< CUresult */
  int32_t injected;     /**< 1: the call failed because of cudasim_fail; else 0 */
  void *stream;         /**< the CUstream argument; NULL: none, or the default stream */
  const char *function; /**< the name that cuGetProcAddress takes, such as "cuMemAlloc" */
} cudasim_call;

/** The parameters of a kernel launch. */
typedef struct cudasim_launch {
  uint64_t number;       /**< counted from 1 */
  void *stream;          /**< the CUstream argument */
  void *context;         /**< the context in which the kernel ran */
  uint32_t grid[3];      /**< in blocks */
  uint32_t block[3];     /**< in threads */
  uint32_t cluster[3];   /**< in blocks; zeros: the launch has no clusters */
  uint32_t shared_bytes; /**< dynamic shared memory of a block */
  uint32_t cooperative;  /**< 1: a cooperative launch; else 0 */
  uint32_t programmatic; /**< 1: launched with programmatic stream serialization; else 0 */
  size_t name_size;      /**< the length of the kernel's name, without the final NUL */
  size_t argument_size;  /**< the size of the argument block in bytes */
} cudasim_launch;

/** Returns the CUDASIM_VERSION with which the library was built. */
CUDASIM_EXPORT int cudasim_version(void);

/**
 * Writes a line to `out` for every environment variable of the simulator that is ignored because its value is invalid,
 * and returns the length of the whole text.
 */
CUDASIM_EXPORT size_t cudasim_ignored_settings(char *out, size_t size);

/** Returns the name of a kind, such as "stream"; NULL for an unknown kind. */
CUDASIM_EXPORT const char *cudasim_kind_name(int kind);

/** Returns the number of live objects of a kind; 0 for an unknown kind. */
CUDASIM_EXPORT size_t cudasim_live(int kind);

/**
 * Writes a line for every live object of a kind (-1: of all kinds) to `out`, and returns the length of the whole text.
 */
CUDASIM_EXPORT size_t cudasim_describe_live(int kind, char *out, size_t size);

/**
 * Copies the numbers of at most `max` live objects of a kind (-1: of all kinds), in the order of the lines of
 * cudasim_describe_live. Returns how many such objects there are, which can be more than `max`. Objects are numbered
 * from 1, in the order in which they are created.
 */
CUDASIM_EXPORT size_t cudasim_live_numbers(int kind, uint64_t *out, size_t max);

/** Returns the number of the newest object; 0 if no object was created. */
CUDASIM_EXPORT uint64_t cudasim_newest(void);

/**
 * Requests notifications about objects that the calling thread creates: a driver function that creates an object calls
 * later(function, argument) before it returns, or later(interpreter, function, argument) if `interpreter` is not NULL.
 * `later` is not called again until the program has called cudasim_created. `later` must not call the driver. It is
 * Py_AddPendingCall or, before Python 3.12, _PyEval_AddPendingCall, which make Python call `function` once the driver
 * function has returned. NULL as `later` ends the notifications.
 */
CUDASIM_EXPORT void cudasim_on_create(void *later, void *interpreter, int (*function)(void *), void *argument);

/**
 * Copies the numbers of up to `max` objects that were created since the last call of cudasim_created, on the thread
 * that called cudasim_on_create. Returns how many were copied.
 */
CUDASIM_EXPORT size_t cudasim_created(uint64_t *out, size_t max);

/** Copies up to `max` logged calls with numbers above `after`, oldest first, and returns how many were copied. */
CUDASIM_EXPORT size_t cudasim_log(uint64_t after, cudasim_call *out, size_t max);

/** Returns the number of the last call that was logged. */
CUDASIM_EXPORT uint64_t cudasim_log_position(void);

/** Turns the log on (1) or off (0). At the start of a program, the log is on. */
CUDASIM_EXPORT void cudasim_log_enable(int on);

/**
 * Returns the number of calls of an entry point; UINT64_MAX for an unknown entry point. `name` is the name of the entry
 * point, with or without the suffix of its version; NULL: all entry points.
 */
CUDASIM_EXPORT uint64_t cudasim_calls(const char *name);

/**
 * Makes the `nth` call of an entry point, counted from now, fail with `result` without any effect: 1 is the next call,
 * 0 is every call until cudasim_reset. `name` is the name that cuGetProcAddress takes ("cuMemAlloc": all versions) or
 * one symbol ("cuMemAlloc_v2"); NULL: all entry points. Several failures can be armed.
 *
 * @return 0, or -1 for an unknown entry point
 */
CUDASIM_EXPORT int cudasim_fail(const char *name, uint64_t nth, int result);

/**
 * Creates a simulated OpenGL buffer of `size` zero bytes. cuGraphicsGLRegisterBuffer accepts the returned name; so does
 * cuGraphicsGLRegisterImage, as if the buffer were an image. While no such buffer exists, the simulator behaves as if
 * there were no OpenGL context.
 *
 * @param data receives the address of the contents, as OpenGL sees them while the buffer is not mapped. The address is
 *             valid until cudasim_gl_delete, and while a resource is registered for the buffer. May be NULL
 * @return the name of the buffer
 */
CUDASIM_EXPORT unsigned cudasim_gl_buffer(size_t size, void **data);

/** Deletes a buffer of cudasim_gl_buffer, given by its name. Returns 0, or -1 for an unknown name. */
CUDASIM_EXPORT int cudasim_gl_delete(unsigned name);

/** Returns how many calls have failed because of cudasim_fail since the start or the last cudasim_reset. */
CUDASIM_EXPORT uint64_t cudasim_injected(void);

/**
 * Hides an entry point from cuGetProcAddress until cudasim_reset, as if the driver were too old for it. `name` is the
 * name that cuGetProcAddress takes, such as "cuMemAlloc". Code that has looked the function up before can still call
 * it.
 *
 * @return 0, or -1 for an unknown entry point
 */
CUDASIM_EXPORT int cudasim_hide(const char *name);

/**
 * Makes every call of an entry point wait before the call has any effect, until cudasim_let_go or cudasim_reset: a test
 * can then act in the middle of the call. `name` has the same form as for cudasim_fail.
 *
 * @return 0, or -1 for an unknown entry point
 */
CUDASIM_EXPORT int cudasim_hold(const char *name);

/** Returns how many calls of an entry point wait because of cudasim_hold; UINT64_MAX for an unknown entry point. */
CUDASIM_EXPORT uint64_t cudasim_held(const char *name);

/**
 * Lets the waiting calls of an entry point continue. Later calls do not wait.
 *
 * @return 0, or -1 for an unknown entry point
 */
CUDASIM_EXPORT int cudasim_let_go(const char *name);

/**
 * Makes the driver treat the calling thread as if it ran a host function (1), or ends that (0). Calls that are
 * forbidden in host functions fail with CUDA_ERROR_NOT_PERMITTED. Such calls are not reported as misuse.
 */
CUDASIM_EXPORT void cudasim_forbid(int forbidden);

/** Returns the number of contexts on the calling thread's context stack. */
CUDASIM_EXPORT size_t cudasim_depth(void);

/**
 * Describes the last launch that the driver accepted. Copies the kernel's name to `name` and the argument block to
 * `arguments`; both are truncated to the given sizes, and either may be NULL.
 *
 * @return 1, or 0 if nothing was launched yet
 */
CUDASIM_EXPORT int cudasim_last_launch(cudasim_launch *out, char *name, size_t name_capacity, void *arguments,
                                       size_t argument_capacity);

/** Returns the number of reports of misuse, faults and leaks so far. cudasim_reset() does not change it. */
CUDASIM_EXPORT uint64_t cudasim_reports(void);

/**
 * Copies the report of a number, from 1 to cudasim_reports(). The texts of the newest 1000 reports are kept, until
 * cudasim_reset(). Returns the report's full length; 0 if its text is not kept.
 */
CUDASIM_EXPORT size_t cudasim_report(uint64_t number, char *out, size_t size);

/**
 * Returns the number of different explanations of refused calls: why code cannot be loaded, why a kernel cannot be
 * launched, what is not simulated. Explanations are not reports, because a program may make such calls on purpose.
 */
CUDASIM_EXPORT uint64_t cudasim_explanations(void);

/** Copies the explanation of a number, as cudasim_report() does. */
CUDASIM_EXPORT size_t cudasim_explanation(uint64_t number, char *out, size_t size);

/**
 * Copies the reason why the last failed call of this thread failed: an explanation, a report of misuse, or the fault of
 * the kernel that the error comes from. Returns the full length of the reason; 0 if nothing more than the error code is
 * known.
 */
CUDASIM_EXPORT size_t cudasim_why(char *out, size_t size);

/**
 * Looks up a function, as dlsym does. The search is made by `look_up`, or by dlsym itself if `look_up` is NULL.
 * For a function of NVRTC or nvJitLink that returns a cubin, the result is a replacement, which adds the PTX that the
 * cubin was made from to the cubin, as the section ".cudacore_sim.ptx". The simulator runs this PTX. Other functions
 * are returned unchanged. `python -m cudacore_sim` replaces the functions in a whole program.
 */
CUDASIM_EXPORT void *cudasim_symbol(void *library, const char *name, void *(*look_up)(void *library, const char *name));

/**
 * Adds the section ".cudacore_sim.ptx" to a cubin in a file. The section contains the PTX that an assembler has
 * compiled to the cubin. `files` are the files of this PTX, and end with NULL. A caller can pass all arguments of the
 * assembler: names of files that do not exist or are not PTX are ignored. `python -m cudacore_sim` does this for ptxas,
 * wherever it is started.
 *
 * @return 0, or -1: the file is not a cubin, no file is PTX, or a file cannot be read or written
 */
CUDASIM_EXPORT int cudasim_keep_ptx(const char *cubin, const char *const *files);

/**
 * Waits until no work runs or can run, then clears the errors that kernels have left in contexts and devices. On a GPU,
 * a process cannot use CUDA after such an error. In the simulator, memory and objects are unchanged, and all handles
 * stay valid. Objects that could not be destroyed because of the error are still alive. The text of cudasim_why() is
 * cleared.
 *
 * @return the number of devices that had such an error
 */
CUDASIM_EXPORT int cudasim_clear_errors(void);

/**
 * Ends all kernels that run now, as if they had made no progress: each is reported with the reason `why`, and its
 * context has the error CUDA_ERROR_LAUNCH_TIMEOUT. Work that is queued does not run.
 */
CUDASIM_EXPORT void cudasim_stop_kernels(const char *why);

/**
 * While the main thread waits for work, watches a nonblocking file that gets the number of each signal as a byte, as
 * Python's signal.set_wakeup_fd() writes them. SIGINT, SIGALRM and SIGTERM then end the kernels that run, so that the
 * call returns and Python can run its handler. `file`: -1 ends this.
 */
CUDASIM_EXPORT void cudasim_watch_signals(int file);

/** The description of a simulated device, for tools that list the devices of a machine. */
typedef struct cudasim_device {
  char name[96];
  char uuid[48];         /**< "GPU-..." */
  uint32_t pci_bus;      /**< the PCI bus; PCI domain, device and function are 0 */
  int32_t major, minor;  /**< compute capability */
  uint32_t has_context;  /**< whether this process has a context on the device */
  uint64_t memory, used; /**< in bytes: total, and allocated by this process */
} cudasim_device;

/**
 * Describes a device by its number among all devices, including those that CUDA_VISIBLE_DEVICES hides. The driver need
 * not be initialised.
 *
 * @return 0, or -1 for an unknown device
 */
CUDASIM_EXPORT int cudasim_describe_device(int number, cudasim_device *out);

/** Returns the version of CUDA that the driver reports, such as 13000. */
CUDASIM_EXPORT int cudasim_driver_version(void);

/**
 * Clears the log, the counts of calls, the texts of reports and explanations, armed failures, and hidden or held
 * functions. Objects stay alive.
 */
CUDASIM_EXPORT void cudasim_reset(void);

/**
 * Waits for all work, then destroys every object and every context, so that the driver is as after cuInit: sticky
 * errors are cleared, and existing handles and device addresses become invalid. No other thread may use CUDA meanwhile.
 */
CUDASIM_EXPORT void cudasim_reset_device(void);

#ifdef __cplusplus
}
#endif

#endif
