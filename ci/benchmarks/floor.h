/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLOOR_H
#define FLOOR_H

/* Declarations for the C files of the floor: the driver's functions, and the measurement of a row. */

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Macros of cuda.h add a version to many of these names, as in cuMemAlloc_v2. The driver exports
   the expanded name. */
#define FUNCTIONS(F)                                                                                                   \
  F(cuInit)                                                                                                            \
  F(cuGetErrorName)                                                                                                    \
  F(cuDeviceGet)                                                                                                       \
  F(cuDevicePrimaryCtxRetain)                                                                                          \
  F(cuCtxSetCurrent)                                                                                                   \
  F(cuCtxSynchronize)                                                                                                  \
  F(cuLibraryLoadData)                                                                                                 \
  F(cuLibraryGetKernel)                                                                                                \
  F(cuLibraryUnload)                                                                                                   \
  F(cuLaunchKernelEx)                                                                                                  \
  F(cuStreamCreateWithPriority)                                                                                        \
  F(cuStreamDestroy)                                                                                                   \
  F(cuStreamSynchronize)                                                                                               \
  F(cuStreamWaitEvent)                                                                                                 \
  F(cuEventCreate)                                                                                                     \
  F(cuEventDestroy)                                                                                                    \
  F(cuEventRecord)                                                                                                     \
  F(cuEventQuery)                                                                                                      \
  F(cuEventSynchronize)                                                                                                \
  F(cuEventElapsedTime)                                                                                                \
  F(cuMemAllocAsync)                                                                                                   \
  F(cuMemFreeAsync)                                                                                                    \
  F(cuMemHostAlloc)                                                                                                    \
  F(cuMemcpyAsync)                                                                                                     \
  F(cuMemsetD8Async)                                                                                                   \
  F(cuStreamBeginCapture)                                                                                              \
  F(cuStreamEndCapture)                                                                                                \
  F(cuUserObjectCreate)                                                                                                \
  F(cuGraphRetainUserObject)                                                                                           \
  F(cuGraphCreate)                                                                                                     \
  F(cuGraphClone)                                                                                                      \
  F(cuGraphDestroy)                                                                                                    \
  F(cuGraphAddNode)                                                                                                    \
  F(cuGraphAddDependencies)                                                                                            \
  F(cuGraphGetNodes)                                                                                                   \
  F(cuGraphGetEdges)                                                                                                   \
  F(cuGraphNodeGetType)                                                                                                \
  F(cuGraphNodeGetDependencies)                                                                                        \
  F(cuGraphInstantiate)                                                                                                \
  F(cuGraphExecDestroy)                                                                                                \
  F(cuGraphExecUpdate)                                                                                                 \
  F(cuGraphExecNodeSetParams)                                                                                          \
  F(cuGraphUpload)                                                                                                     \
  F(cuGraphLaunch)

#define DECLARE(name) __typeof__(name) *name;
extern struct driver {
  FUNCTIONS(DECLARE)
} cu;

extern CUstream stream;

void check(CUresult result, const char *call);
#define CHECK(call) check(call, #call)
double now(void);
void report(const char *name, const double *times, size_t count);
CUlaunchConfig one_block(CUstream on);

/* Returns whether a row was requested. If the command line names no rows, all rows are requested. */
bool wanted(const char *name);

/*
 * Measures a row as worker.py does: a short warm-up, then `repeat` measurements without anything between them. `per` is
 * the number of operations in a statement.
 */
#define ROW_PER(per, name, number, repeat, statement)                                                                  \
  do {                                                                                                                 \
    if (!wanted(name))                                                                                                 \
      break;                                                                                                           \
    double times[repeat];                                                                                              \
    for (int r = -1; r < (repeat); r++) {                                                                              \
      int n = r < 0 ? (number) / 10 + 1 : (number);                                                                    \
      double start = now();                                                                                            \
      for (int i = 0; i < n; i++) {                                                                                    \
        statement;                                                                                                     \
      }                                                                                                                \
      if (r >= 0)                                                                                                      \
        times[r] = (now() - start) / n / (per);                                                                        \
      CHECK(cu.cuCtxSynchronize());                                                                                    \
    }                                                                                                                  \
    report(name, times, repeat);                                                                                       \
  } while (0)
#define ROW(name, number, repeat, statement) ROW_PER(1, name, number, repeat, statement)

/* Measures the rows about graphs; defined in floor_graphs.c. */
void graphs(CUcontext context, CUlibrary library, CUdeviceptr pointer);

#endif
