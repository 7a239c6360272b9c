/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_IPC_H
#define CUDACORE_INTERNAL_IPC_H

/**
 * @file ipc.h
 * Sharing memory of pools, and events, between processes.
 *
 * A pool that was created with the handle type of file descriptors is exported as a file descriptor, which is sent to
 * the other process (SCM_RIGHTS) and imported there. Allocations are exported as handles of 64 bytes, which can be sent
 * in any way. Memory is mapped once per process, even if it is imported several times. It is unmapped when the last
 * import has ended, after the work of the streams that order the frees of the imports. The exporter must keep the
 * memory until the other processes no longer use it, because CUDA does not keep it for them.
 */

#include <cudacore/cudacore.h>

/**
 * A handle by which other processes of this machine can import an allocation or an event. It is valid until the
 * allocation is freed or the event is destroyed.
 */
typedef struct cch_ipc_handle {
  unsigned char bytes[64];
} cch_ipc_handle;

/**
 * A new file descriptor for a pool, which the caller must close (cuMemPoolExportToShareableHandle). The pool must have
 * been created with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
 */
CCH_EXPORT cch_status cch_pool_export(int *out, cch_pool *pool);

/**
 * A pool of another process, by the file descriptor that it exported (cuMemPoolImportFromShareableHandle). The caller
 * keeps the descriptor. While a box of the pool exists, the same box is returned. `location_type` and `location_id`
 * state the location of the pool's memory; CCH_EMISMATCH if that location has no access to the memory. A device that
 * has access to another device's pool is found when memory is imported. The node of CCH_LOCATION_HOST_NUMA is not
 * checked. Nothing can be allocated from such a pool.
 */
CCH_EXPORT cch_status cch_pool_import(cch_pool **out, int descriptor, int location_type, int location_id);

/**
 * A handle by which other processes can import an allocation of a pool (cuMemPoolExportPointer). For a part
 * (deviceptr.h), it is the handle of the whole allocation, in which the part begins at cch_deviceptr_offset(). The
 * handle of an import is the one with which it was imported.
 */
CCH_EXPORT cch_status cch_deviceptr_export(cch_ipc_handle *out, cch_deviceptr *ptr);

/**
 * Memory of another process, from an imported pool, by its exported handle (cuMemPoolImportPointer): the `size` bytes
 * that begin at `offset`. It is unmapped in the order of `stream`, or of the stream of cch_deviceptr_set_stream()
 * (cuMemFreeAsync). Each import has its own box; all imports of one handle are parts of one mapping. CCH_EMISMATCH if
 * the memory is smaller, CCH_EINVAL if it is not of the device that was stated for the pool. CUDA_ERROR_NOT_PERMITTED
 * if an earlier mapping has not ended yet, and cannot be ended now.
 *
 * If `pool` is NULL, the handle is one that this process exported, and came back: the result is a part of the
 * allocation. CCH_EGONE if that was freed.
 */
CCH_EXPORT cch_status cch_deviceptr_import_part(cch_deviceptr **out, cch_pool *CCH_NULLABLE pool,
                                                const cch_ipc_handle *handle, size_t offset, size_t size,
                                                cch_stream *stream);

/** Whether memory belongs to another process. */
CCH_EXPORT bool cch_deviceptr_is_imported(const cch_deviceptr *ptr);

/**
 * A handle by which other processes can import an event that has CCH_EVENT_INTERPROCESS (cuIpcGetEventHandle). The
 * handle of an imported event is the one with which it was imported.
 */
CCH_EXPORT cch_status cch_event_export(cch_ipc_handle *out, cch_event *event);

/**
 * An event of another process, in a context (cuIpcOpenEventHandle). If this process has the event, because it exported
 * or imported it, the same box is returned; calls for one handle must not be simultaneous. `flags` can have
 * CCH_EVENT_BLOCKING_SYNC, which is only reported by cch_event_flags().
 */
CCH_EXPORT cch_status cch_event_import(cch_event **out, cch_context *context, const cch_ipc_handle *handle,
                                       unsigned flags);

#endif
