/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_DRIVER_H
#define CUDACORE_INTERNAL_DRIVER_H

#include <cudacore/cudacore.h>

/**
 * Calls a function of the driver by its name in the library's table (driver_table.h), for code to which a function of
 * its own here would only pass its arguments on. `arguments` is an array of eight pointers and integers. `boxes` ends
 * with NULL: the call fails if the resource of one of them no longer exists. `context` is made current for the call;
 * NULL leaves the current one. CCH_ENOSYMBOL if the driver lacks the function.
 */
CCH_EXPORT cch_status cch_driver_call(const char *name, const uintptr_t *arguments, void *const *boxes,
                                      cch_context *CCH_NULLABLE context);

/** Finds the driver that a package contains: for CUDACORE_DRIVER=name, sets $CUDACORE_NAME_LIBRARY. */
typedef void (*cch_search_fn)(void);

/**
 * Sets the function that finds drivers in packages. It is called before the driver is loaded, if $CUDACORE_DRIVER is
 * the name of one and its path is not known. No lock is held then.
 */
CCH_EXPORT void cch_driver_set_search(cch_search_fn CCH_NULLABLE search);

/**
 * Whether the driver is loaded, and $CUDACORE_DRIVER now selects another one, which this process can no longer load.
 */
CCH_EXPORT bool cch_driver_is_other(void);

/**
 * Copies the driver's explanation of this thread's last failed call: up to `size` bytes, including the NUL at the end.
 * Most drivers have none, and the text is empty. Any thread.
 */
CCH_EXPORT void cch_driver_explain(char *out, size_t size);

/** Whether the driver replaces functions of compilers, so that these make other code. Any thread. */
CCH_EXPORT bool cch_driver_replaces_compilers(void);

/** Number of devices (cuDeviceGetCount). */
CCH_EXPORT cch_status cch_device_count(int *out);

/**
 * Begins or ends collecting the output of printf in kernels. Meanwhile, file descriptor 1 is a file in memory during
 * those calls of the driver that write output, and at no other time. Such calls of this library do not take long,
 * because its waits first query whether the work is done. What other threads write to the descriptor meanwhile is
 * collected, too. Any thread.
 */
CCH_EXPORT cch_status cch_printed_collect(bool enabled);

/** Whether the output of kernels is collected. Any thread. */
CCH_EXPORT bool cch_printed_is_collected(void);

/** Whether code is loaded whose kernels may print. Any thread. */
CCH_EXPORT bool cch_printed_is_possible(void);

/** Moves collected output to `text`, at most `size` bytes; *count is how many there were. Any thread. */
CCH_EXPORT cch_status cch_printed_read(size_t *count, char *text, size_t size);

#endif
