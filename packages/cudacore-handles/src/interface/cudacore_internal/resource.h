/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_RESOURCE_H
#define CUDACORE_INTERNAL_RESOURCE_H

/**
 * @file resource.h
 * Resources of devices: streaming multiprocessors and work queues. A green context can have a part of them
 * (cch_context_create(), in context.h). A resource is a value: it can be copied, and is never freed. The driver has
 * resources since CUDA 12.4.
 */

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/** Kinds of resource, with CUDA's numbers (CUdevResourceType): multiprocessors, and (since CUDA 13.1) the configuration
 * of work queues. */
#define CCH_RESOURCE_NONE 0
#define CCH_RESOURCE_SM 1
#define CCH_RESOURCE_WORKQUEUE 1000

/** How work queues are shared, with CUDA's numbers (CUdevWorkqueueConfigScope). */
#define CCH_WORKQUEUE_DEVICE 0
#define CCH_WORKQUEUE_BALANCED 1

/** A resource in the driver's form (CUdevResource). Only the functions below read its contents. */
typedef struct cch_resource {
  uint64_t opaque[18];
} cch_resource;

/** One of the groups that multiprocessors are split into. */
typedef struct cch_sm_group {
  uint32_t count;     /**< number of multiprocessors; 0: as many as possible. The split sets it to the actual number */
  uint32_t together;  /**< number of multiprocessors that are co-scheduled, for clusters; 0: the device's default */
  uint32_t preferred; /**< preferred number of co-scheduled multiprocessors; 0: the same as `together` */
  uint32_t backfill;  /**< 1: `count` need not be a multiple of the co-scheduled number */
} cch_sm_group;

/** A device's resource of a kind (cuDeviceGetDevResource). */
CCH_EXPORT cch_status cch_resource_of_device(cch_resource *out, int device, int kind);

/**
 * A context's resource of a kind: for a green context, its part (cuGreenCtxGetDevResource); for any other context,
 * everything that its device has (cuCtxGetDevResource).
 */
CCH_EXPORT cch_status cch_resource_of_context(cch_resource *out, cch_context *context, int kind);

/** The kind of a resource: a CCH_RESOURCE_*. Destructor-safe. */
CCH_EXPORT int cch_resource_kind(const cch_resource *resource);

/**
 * The number of multiprocessors of a resource, the minimum number in a part of it, the number that is co-scheduled, and
 * the driver's flags. Drivers before CUDA 13.1 report only the first of these; the others are 0. Destructor-safe.
 */
CCH_EXPORT cch_status cch_resource_sm(uint32_t *count, uint32_t *least, uint32_t *together, uint32_t *flags,
                                      const cch_resource *resource);

/** The expected number of streams with work at the same time, and how queues are shared. Destructor-safe. */
CCH_EXPORT cch_status cch_resource_workqueue(uint32_t *limit, int *scope, const cch_resource *resource);

/** Changes the settings of work queues, for contexts that are created with the resource. Destructor-safe. */
CCH_EXPORT cch_status cch_resource_set_workqueue(cch_resource *resource, uint32_t limit, int scope);

/**
 * Splits multiprocessors into groups of at least `least` multiprocessors, which the driver rounds up
 * (cuDevSmResourceSplitByCount). *count is the number of groups that `out` has room for, and becomes the number of
 * groups. `rest` (may be NULL) gets the remaining multiprocessors, or CCH_RESOURCE_NONE. Groups of a split cannot be
 * split again.
 */
CCH_EXPORT cch_status cch_resource_split_evenly(cch_resource *out, size_t *count, cch_resource *CCH_NULLABLE rest,
                                                const cch_resource *resource, unsigned flags, uint32_t least);

/**
 * Splits multiprocessors into the requested groups, in their order (cuDevSmResourceSplit, of CUDA 13.1), and sets the
 * number of multiprocessors in each. `out` may be NULL if only these numbers are needed. `rest` is as for
 * cch_resource_split_evenly().
 */
CCH_EXPORT cch_status cch_resource_split(cch_resource *CCH_NULLABLE out, cch_resource *CCH_NULLABLE rest,
                                         const cch_resource *resource, cch_sm_group *groups, size_t count);

CCH_END_DECLS

#endif
