/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_KERNEL_H
#define CUDACORE_INTERNAL_KERNEL_H

#include <cudacore/cudacore.h>

/** The library, borrowed from the box; NULL when it is not known. */
CCH_EXPORT cch_library *cch_kernel_library(const cch_kernel *kernel);

/**
 * Sets the parameters of a kernel, which cch_launch() and graph nodes need, for a driver that cannot report them
 * (before 12.4). The array is copied. Nothing changes if the parameters are known already, or if the driver can report
 * them. At a launch, such a driver copies each argument from the given offset, in the size that the parameter has in
 * the code.
 */
CCH_EXPORT cch_status cch_kernel_set_params(cch_kernel *kernel, const cch_param *params, size_t count);

/**
 * Gets the bytes that a binding has stored about the kernel, such as the kinds of its parameters, which not every
 * driver reports; NULL if there are none. If `given` is not NULL, it is stored first, unless there are bytes already.
 * They stay as long as the kernel's box, so objects that a binding makes for the box later find them.
 */
CCH_EXPORT cch_status cch_kernel_layout(const void **out, size_t *size, cch_kernel *kernel,
                                        const void *CCH_NULLABLE given, size_t given_size);

/**
 * Launches as cch_launch() does, after checking whether the stream is being captured, whichever code began the capture.
 * If it is, `keep(data)` is called before the launch, because work in a capture cannot be undone. `keep` calls
 * cch_capture_keep_all(), so that the graph keeps the kernel and the memory that the arguments point into. If `keep`
 * fails, nothing is launched, and the status of `keep` is returned.
 */
CCH_EXPORT cch_status cch_launch_keeping(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel,
                                         const void *CCH_NULLABLE args, size_t args_size, cch_keep_fn keep,
                                         void *CCH_NULLABLE data);

/**
 * Clusters of a launch on a stream: the maximum number of blocks that a cluster can have
 * (cuOccupancyMaxPotentialClusterSize; the clusters of the config are ignored), or the number of clusters that the
 * device can hold at the same time (cuOccupancyMaxActiveClusters). The kernel's limit of dynamic shared memory is not
 * raised: blocks that exceed it do not fit.
 */
CCH_EXPORT cch_status cch_occupancy_clusters(int *out, bool largest, cch_stream *stream,
                                             const cch_launch_config *config, cch_kernel *kernel);

/**
 * Gives up ownership of a library permanently: it is not unloaded with its last reference. Call it before passing the
 * handle to code that may unload the library, because the driver crashes if a library is unloaded twice. From then on,
 * the library is borrowed. For a borrowed library, nothing changes.
 */
CCH_EXPORT cch_status cch_library_disown(cch_library *library);

#endif
