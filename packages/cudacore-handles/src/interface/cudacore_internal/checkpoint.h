/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_CHECKPOINT_H
#define CUDACORE_INTERNAL_CHECKPOINT_H

/**
 * @file checkpoint.h
 * Checkpoints of the GPU state of a process. The process is given by its id. Needs a driver for CUDA 12.8.
 *
 * A process is locked, checkpointed, restored and unlocked, in this order. While it is locked, its CUDA calls wait. A
 * checkpoint copies the process's GPU memory to the host and releases the GPU.
 */

#include <cudacore/cudacore.h>

/** The CUprocessState of a process (cuCheckpointProcessGetState). */
CCH_EXPORT cch_status cch_checkpoint_state(int *out, int pid);

/** The id of the thread that restores the GPU state of a process (cuCheckpointProcessGetRestoreThreadId). */
CCH_EXPORT cch_status cch_checkpoint_restore_thread(int *out, int pid);

/**
 * Locks a process that runs, once the work that it has submitted is done (cuCheckpointProcessLock). If that takes
 * longer than `timeout_ms`, returns CCH_NOT_READY, which is not recorded, and the process continues to run. If
 * `timeout_ms` is 0, the call waits without a limit.
 */
CCH_EXPORT cch_status cch_checkpoint_lock(int pid, unsigned timeout_ms);

/** Copies the GPU memory of a locked process to the host, and releases its GPUs (cuCheckpointProcessCheckpoint). */
CCH_EXPORT cch_status cch_checkpoint_save(int pid);

/**
 * Restores the GPU state of a checkpointed process, and leaves it locked (cuCheckpointProcessRestore).
 *
 * `uuids` maps the old devices of the process to new ones: `count` pairs of UUIDs of 16 bytes each, the old UUID first.
 * If `uuids` is NULL and `count` is 0, the devices remain the same. Pairs need a driver for CUDA 13.0.
 */
CCH_EXPORT cch_status cch_checkpoint_restore(int pid, const unsigned char *CCH_NULLABLE uuids, size_t count);

/** Lets a locked process run (cuCheckpointProcessUnlock). */
CCH_EXPORT cch_status cch_checkpoint_unlock(int pid);

#endif
