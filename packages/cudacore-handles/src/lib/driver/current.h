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

/* The halves that usually have nothing to do. `answer` is what cuCtxGetId said of the current context, if it was asked.
 */
int cch__current_switch(cch__current *current, const cch_context *context, CUresult answer);
void cch__current_restore(const cch__current *current);

static inline int cch__current_enter(cch__current *current, const cch_context *context) {
  CUresult answer = CUDA_SUCCESS;
  current->switched = false;
  if (context == NULL)
    return 0;
  if (cch__context_can_be_lost(context)) {
    /* One question says both that it is current, and that it was not reset. */
    unsigned long long id = 0;
    answer = cch__driver.cuCtxGetId(NULL, &id);
    if (answer == CUDA_SUCCESS && id == context->id)
      return 0;
  }
  return cch__current_switch(current, context, answer);
}

static inline void cch__current_leave(const cch__current *current) {
  if (current->switched)
    cch__current_restore(current);
}

/*
 * The status of an expression that is evaluated while the context is current, or of the failure to make it so:
 *
 *   status = CCH__IN_CONTEXT(stream->context, CCH__CALL(cuGraphUpload, (exec->raw, stream->raw)));
 */
#define CCH__IN_CONTEXT(context, ...)                                                                                  \
  __extension__({                                                                                                      \
    cch__current current_here;                                                                                         \
    int status_here = cch__current_enter(&current_here, (context));                                                    \
    if (status_here == 0) {                                                                                            \
      status_here = (__VA_ARGS__);                                                                                     \
      cch__current_leave(&current_here);                                                                               \
    }                                                                                                                  \
    status_here;                                                                                                       \
  })

/*
 * Between these the thread's calls are none that an ongoing capture of whatever stream and thread forbids: frees are
 * "potentially unsafe" to the driver, and would invalidate it.
 */
CUstreamCaptureMode cch__relaxed_enter(void);
void cch__relaxed_leave(CUstreamCaptureMode saved);

/* A number of the calling thread that no other thread ever has; not 0. */
uint64_t cch__thread(void);

#endif
