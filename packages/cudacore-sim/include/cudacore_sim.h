/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_H
#define CUDACORE_SIM_H

/**
 * @file cudacore_sim.h The controls of the simulated CUDA driver. The simulator is a libcuda.so.1; these functions are
 * exported beside the driver's own. A program that also runs on a real driver looks these functions up by dlsym. The
 * functions can be called on any thread, and in host functions and callbacks of CUDA.
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
 * The kinds of objects. A primary context counts while it is retained. An address range is the result of
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
  CUDASIM_GRAPH = 11, /**< without the graphs inside of nodes */
  CUDASIM_GRAPH_EXEC = 12,
  CUDASIM_USER_OBJECT = 13,
  CUDASIM_GRAPHICS = 14, /**< registered resources */
  CUDASIM_ARRAY = 15,    /**< includes mipmapped arrays, but not their levels */
  CUDASIM_TEXTURE = 16,
  CUDASIM_SURFACE = 17,
  CUDASIM_KIND_COUNT = 18
} cudasim_kind;

/** A call that has returned. */
typedef struct cudasim_call {
  uint64_t number;      /**< numbers begin at 1; the full log drops the oldest calls */
  const char *name;     /**< the exported symbol, such as "cuMemAlloc_v2" */
  uint64_t thread;      /**< the thread id (TID) that Linux gives the calling thread */
  void *context;        /**< the context that was current when the call began */
  int32_t result;       /**< CUresult */
  int32_t injected;     /**< 1: cudasim_fail made the call fail */
  void *stream;         /**< the CUstream argument; NULL: no stream, or the default stream */
  const char *function; /**< the name for cuGetProcAddress, such as "cuMemAlloc" */
} cudasim_call;

/** The parameters of a launch. */
typedef struct cudasim_launch {
  uint64_t number;       /**< numbers begin at 1 */
  void *stream;          /**< the CUstream argument */
  void *context;         /**< the context in which the kernel ran */
  uint32_t grid[3];      /**< in blocks */
  uint32_t block[3];     /**< in threads */
  uint32_t cluster[3];   /**< in blocks; zeros: the launch has no clusters */
  uint32_t shared_bytes; /**< dynamic shared memory of a block */
  uint32_t cooperative;  /**< 1: a cooperative launch */
  uint32_t programmatic; /**< 1: programmatic stream serialization */
  size_t name_size;      /**< the length of the kernel's name, without the NUL */
  size_t argument_size;  /**< bytes of the argument block */
} cudasim_launch;

/** CUDASIM_VERSION of the library. */
CUDASIM_EXPORT int cudasim_version(void);

/**
 * Writes a line to `out` for every environment variable with an invalid value, and returns the length of the whole
 * text. Variables with invalid values are ignored.
 */
CUDASIM_EXPORT size_t cudasim_ignored_settings(char *out, size_t size);

/** Name of a kind, such as "stream"; NULL for an unknown kind. */
CUDASIM_EXPORT const char *cudasim_kind_name(int kind);

/** The number of live objects of a kind; 0 for an unknown kind. */
CUDASIM_EXPORT size_t cudasim_live(int kind);

/**
 * Writes a line for every live object of a kind (-1: of all kinds) to `out`, and returns the length of the whole text.
 */
CUDASIM_EXPORT size_t cudasim_describe_live(int kind, char *out, size_t size);

/**
 * Copies the numbers of at most `max` live objects of a kind (-1: of all kinds), in the order of the lines of
 * cudasim_describe_live. Returns the number of all of these objects. Objects are numbered in the order in which they
 * are created, from 1.
 */
CUDASIM_EXPORT size_t cudasim_live_numbers(int kind, uint64_t *out, size_t max);

/** The number of the newest object; 0 if none was created. */
CUDASIM_EXPORT uint64_t cudasim_newest(void);

/**
 * Requests notifications about objects that the calling thread creates. The driver's call that creates an object calls
 * later(function, NULL). `later` is not called again until the program has called cudasim_created. `later` must not
 * call the driver. It has the type of Py_AddPendingCall, which makes Python call `function` after the driver's call has
 * returned. If `later` is NULL, the notifications end.
 */
CUDASIM_EXPORT void cudasim_on_create(int (*later)(int (*function)(void *), void *), int (*function)(void *));

/**
 * Copies the numbers of up to `max` objects that the thread of cudasim_on_create has created since the last call, and
 * returns how many were copied.
 */
CUDASIM_EXPORT size_t cudasim_created(uint64_t *out, size_t max);

/** Copies up to `max` calls with numbers above `after`, oldest first, and returns how many. */
CUDASIM_EXPORT size_t cudasim_log(uint64_t after, cudasim_call *out, size_t max);

/** Number of the last call that was logged. */
CUDASIM_EXPORT uint64_t cudasim_log_position(void);

/** Turns the log off or on; it is on at start. */
CUDASIM_EXPORT void cudasim_log_enable(int on);

/**
 * The number of calls of an entry point, by its name with or without the version; NULL: of all entry points. UINT64_MAX
 * for an unknown entry point.
 */
CUDASIM_EXPORT uint64_t cudasim_calls(const char *name);

/**
 * Makes the `nth` call of an entry point, counted from now, fail with `result` before it does anything: 1 is the next
 * call, 0 is every call until cudasim_reset. The name is that of cuGetProcAddress ("cuMemAlloc": any version) or of one
 * symbol ("cuMemAlloc_v2"); NULL is any entry point. Several failures can be armed.
 *
 * @return 0, or -1 for an unknown entry point
 */
CUDASIM_EXPORT int cudasim_fail(const char *name, uint64_t nth, int result);

/**
 * Creates a stand-in for an OpenGL buffer of `size` zero bytes. cuGraphicsGLRegisterBuffer accepts its name.
 * cuGraphicsGLRegisterImage accepts it, too, as if it were an image. While no such buffer exists, there is no OpenGL
 * context.
 *
 * @param data receives the address of the contents, as OpenGL sees them while the buffer is not mapped. The address is
 *             valid until cudasim_gl_delete, and while a resource is registered for the buffer. May be NULL
 * @return the name of the buffer
 */
CUDASIM_EXPORT unsigned cudasim_gl_buffer(size_t size, void **data);

/** Deletes a buffer of cudasim_gl_buffer, given by its name. Returns 0, or -1 for an unknown name. */
CUDASIM_EXPORT int cudasim_gl_delete(unsigned name);

/** How many calls cudasim_fail has made fail, since the start or the last cudasim_reset. */
CUDASIM_EXPORT uint64_t cudasim_injected(void);

/**
 * Hides an entry point from cuGetProcAddress until cudasim_reset, as if the driver were too old for it. `name` is the
 * name for cuGetProcAddress, such as "cuMemAlloc". Code that has looked the function up before can still call it.
 *
 * @return 0, or -1 for an unknown entry point
 */
CUDASIM_EXPORT int cudasim_hide(const char *name);

/**
 * Makes every call of an entry point wait before it does anything, until cudasim_let_go or cudasim_reset: a test can
 * then act in the middle of the call. The name is as for cudasim_fail().
 *
 * @return 0, or -1 for an unknown entry point
 */
CUDASIM_EXPORT int cudasim_hold(const char *name);

/** The number of calls of an entry point that wait because of cudasim_hold; UINT64_MAX for an unknown entry point. */
CUDASIM_EXPORT uint64_t cudasim_held(const char *name);

/**
 * Lets the calls of an entry point continue, and holds no further ones.
 *
 * @return 0, or -1 for an unknown entry point
 */
CUDASIM_EXPORT int cudasim_let_go(const char *name);

/**
 * Makes the driver treat the calling thread as if it ran a host function (1), or ends that (0). Calls that are
 * forbidden in host functions fail with CUDA_ERROR_NOT_PERMITTED. Such calls are not reported as misuse.
 */
CUDASIM_EXPORT void cudasim_forbid(int forbidden);

/** The number of contexts on the calling thread's stack. */
CUDASIM_EXPORT size_t cudasim_depth(void);

/**
 * Describes the last launch that the driver accepted. Copies the kernel's name to `name`, and the argument
 * block to `arguments`, each as far as it fits; either may be NULL.
 *
 * @return 1, or 0 if nothing was launched yet
 */
CUDASIM_EXPORT int cudasim_last_launch(cudasim_launch *out, char *name, size_t name_capacity, void *arguments,
                                       size_t argument_capacity);

/** How many reports of misuse, faults and leaks there were. */
CUDASIM_EXPORT size_t cudasim_reports(void);

/** Copies report `index`, from 0, and returns its whole length, or 0 if it does not exist. */
CUDASIM_EXPORT size_t cudasim_report(size_t index, char *out, size_t size);

/**
 * The number of explanations of refused calls, each counted once: why code cannot be loaded, why a kernel cannot be
 * launched, what is not simulated. They are not reports, because a program may make such calls on purpose.
 */
CUDASIM_EXPORT size_t cudasim_explanations(void);

/** Copies explanation `index`, from 0, and returns its whole length, or 0 if it does not exist. */
CUDASIM_EXPORT size_t cudasim_explanation(size_t index, char *out, size_t size);

/**
 * Copies the reason why the last failed call of this thread failed: an explanation, a report of misuse, or the fault of
 * the kernel that the error comes from. Returns the whole length; 0: only the code is known.
 */
CUDASIM_EXPORT size_t cudasim_why(char *out, size_t size);

/**
 * Looks up a function, as dlsym does. The search is made by `look_up`, or by dlsym itself if `look_up` is NULL.
 * Functions of NVRTC and nvJitLink that return cubins are replaced. The cubins then contain the PTX from which they
 * were made, in a section ".cudacore_sim.ptx", which the simulator runs. Other functions are returned unchanged.
 * `python -m cudacore_sim` does this for a whole program.
 */
CUDASIM_EXPORT void *cudasim_symbol(void *library, const char *name, void *(*look_up)(void *library, const char *name));

/**
 * Adds the section ".cudacore_sim.ptx" to a cubin in a file. The section contains the PTX that an assembler has
 * compiled to the cubin. `files` are the files of this PTX, and end with NULL. They can be all arguments of the
 * assembler: files that do not exist or are not PTX are ignored. `python -m cudacore_sim` does this for ptxas, wherever
 * it is started.
 *
 * @return 0, or -1: the file is not a cubin, no file is PTX, or a file cannot be read or written
 */
CUDASIM_EXPORT int cudasim_keep_ptx(const char *cubin, const char *const *files);

/**
 * Waits until no work runs or can run, then clears the errors that kernels have left in contexts and devices. On a GPU,
 * a process cannot continue after such an error. Here memory and objects are unchanged, and all handles stay valid.
 * Objects that could not be destroyed because of the error are still alive. The text of cudasim_why() is cleared.
 *
 * @return the number of devices that had such an error
 */
CUDASIM_EXPORT int cudasim_clear_errors(void);

/** The description of a simulated device, for tools that list the devices of a machine. */
typedef struct cudasim_device {
  char name[96];
  char uuid[48];         /**< "GPU-..." */
  uint32_t pci_bus;      /**< the bus; domain, device and function are 0 */
  int32_t major, minor;  /**< compute capability */
  uint32_t has_context;  /**< whether this process has a context on the device */
  uint64_t memory, used; /**< in bytes; `used` is allocated by this process */
} cudasim_device;

/**
 * Describes a device by its number among all devices, including those that CUDA_VISIBLE_DEVICES hides. The driver need
 * not be initialised.
 *
 * @return 0, or -1 for an unknown device
 */
CUDASIM_EXPORT int cudasim_describe_device(int number, cudasim_device *out);

/** The version of CUDA that the driver reports, such as 13000. */
CUDASIM_EXPORT int cudasim_driver_version(void);

/**
 * Clears the log, the counts of calls, reports, explanations, armed failures, and hidden or held functions. Objects
 * stay alive.
 */
CUDASIM_EXPORT void cudasim_reset(void);

/**
 * Waits for all work, then destroys every object and every context, as if the driver had just been initialised: sticky
 * errors are cleared, and existing handles and device addresses become invalid. No thread but the calling one may be
 * using CUDA.
 */
CUDASIM_EXPORT void cudasim_reset_device(void);

#ifdef __cplusplus
}
#endif

#endif
