/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_IPC_H
#define CUDACORE_IPC_H

/**
 * @file ipc.h
 * What processes share: memory of pools, and events.
 *
 * A pool that was created with the handle type of file descriptors is exported as one, which is sent to the other
 * process (SCM_RIGHTS) and imported there; its allocations follow as handles of 64 bytes, which may travel in any way.
 * Memory is mapped once a process, however many imports there are of it, and unmapped when the last of them has ended,
 * behind the work of the streams that each was to be freed on. The exporter keeps what it exported until the others are
 * done with it: CUDA does not.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** Names an allocation or an event for other processes of this machine, as long as it is not freed or destroyed. */
typedef struct cch_ipc_handle {
  unsigned char bytes[64];
} cch_ipc_handle;

/**
 * A new file descriptor for a pool, which is the caller's to close (cuMemPoolExportToShareableHandle). The pool was
 * created with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. @since 0.1
 */
CCH_EXPORT int cch_pool_export(int *out, cch_pool *pool);

/**
 * A pool of another process, by the descriptor that it exported, which stays the caller's
 * (cuMemPoolImportFromShareableHandle). It is the same box as long as one lives. `location_type` and `location_id` say
 * where its memory is; CCH_EMISMATCH where it is not there. The node of CCH_LOCATION_HOST_NUMA is not checked. Nothing
 * is allocated from such a pool. @since 0.1
 */
CCH_EXPORT int cch_pool_import(cch_pool **out, int descriptor, int location_type, int location_id);

/** Whether a pool is another process's. @since 0.1 */
CCH_EXPORT int cch_pool_is_imported(const cch_pool *pool);

/**
 * Names an allocation of a pool for other processes (cuMemPoolExportPointer). The handle of a part (deviceptr.h) names
 * the whole, in which it begins at cch_deviceptr_offset(); that of an import is the one that it was imported by. @since
 * 0.1
 */
CCH_EXPORT int cch_deviceptr_export(cch_ipc_handle *out, cch_deviceptr *ptr);

/**
 * Memory of another process, of a pool that was imported, by the handle that it exported and its `size`
 * (cuMemPoolImportPointer). It ends in the order of `stream`, or of that of cch_deviceptr_set_stream()
 * (cuMemFreeAsync). Each import is a box of its own; all of one handle are parts of one mapping. CCH_EMISMATCH for more
 * bytes than the memory has; CUDA_ERROR_NOT_PERMITTED where a mapping of it waits to be ended,
 * and that cannot be done here and now. @since 0.1
 */
CCH_EXPORT int cch_deviceptr_import(cch_deviceptr **out, cch_pool *pool, const cch_ipc_handle *handle, size_t size,
                                    cch_stream *stream);

/** The same, of `size` bytes from `offset` on. @since 0.1 */
CCH_EXPORT int cch_deviceptr_import_part(cch_deviceptr **out, cch_pool *pool, const cch_ipc_handle *handle,
                                         size_t offset, size_t size, cch_stream *stream);

/** Whether memory is another process's. @since 0.1 */
CCH_EXPORT int cch_deviceptr_is_imported(const cch_deviceptr *ptr);

/**
 * Names an event with CCH_EVENT_INTERPROCESS for other processes (cuIpcGetEventHandle). The handle of an event that was
 * imported is the one that it was imported by. @since 0.1
 */
CCH_EXPORT int cch_event_export(cch_ipc_handle *out, cch_event *event);

/**
 * An event of another process, in a context (cuIpcOpenEventHandle). Of `flags` only CCH_EVENT_BLOCKING_SYNC says
 * something that is not known; it is what cch_event_flags() tells. @since 0.1
 */
CCH_EXPORT int cch_event_import(cch_event **out, cch_context *context, const cch_ipc_handle *handle, unsigned flags);

CCH_END_DECLS

#endif
