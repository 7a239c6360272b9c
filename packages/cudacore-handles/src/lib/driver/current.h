/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_CURRENT_H
#define CUDACORE_CURRENT_H

/* What belongs to the calling thread for a few calls: the current context, the capture mode; and the thread itself. */

#include "base/kinds.h"

/* Makes a box's context current; NULL means whatever is current. */
typedef struct cch__current {
  CUcontext saved;
  bool switched;
} cch__current;

int cch__current_enter(cch__current *current, const cch_context *context);
void cch__current_leave(const cch__current *current);

/*
 * Between these the thread's calls are none that an ongoing capture of whatever stream and thread forbids: frees are
 * "potentially unsafe" to the driver, and would invalidate it.
 */
CUstreamCaptureMode cch__relaxed_enter(void);
void cch__relaxed_leave(CUstreamCaptureMode saved);

/* A number of the calling thread that no other thread ever has; not 0. */
uint64_t cch__thread(void);

#endif
