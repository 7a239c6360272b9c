/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_CURRENT_H
#define CUDACORE_CURRENT_H

/* What belongs to the calling thread for a few calls: the current context and the capture mode. */

#include "base/kinds.h"
#include "driver/driver_table.h"

/* Whether a context is a primary one, which anybody in the process can reset, and the driver can be asked about that.
 */
static inline bool cch__context_can_be_lost(const cch_context *context) {
  return context->id != 0 && cch__driver.cuCtxGetId != NULL;
}

/*
 * Whether a primary context is still the one that the box was made for: 0, or a recorded failure. After a reset the
 * handle stays, and is the next primary context's. The driver crashes when it is given a stream, an event or an
 * executable graph of the old one (13.0, H200), so it is asked before. NULL is no context.
 */
CCH__COLD int cch__context_fail_lost(const cch_context *context, CUresult answer, const char *operation);
static inline int cch__context_check(const cch_context *context, const char *operation) {
  if (context == NULL || !cch__context_can_be_lost(context))
    return 0;
  unsigned long long id = 0; /* no two contexts of a process have the same */
  CUresult answer = cch__driver.cuCtxGetId(context->raw, &id);
  return answer == CUDA_SUCCESS && id == context->id ? 0 : cch__context_fail_lost(context, answer, operation);
}

/*
 * Whether memory is still there: a copy from pinned memory that went with its context is a SIGSEGV in the driver. The
 * context of the stream is current, or will be before the memory is used, so it is checked anyway.
 */
static inline int cch__memory_check(const cch_deviceptr *ptr, const cch_stream *stream, const char *operation) {
  if (ptr->box.context == (const cch__box *)stream->context)
    return 0;
  return cch__context_check(cch__lost_with(&ptr->box), operation);
}

/* What public functions do with a context that was checked by CCH__REQUIRE_USABLE() but may be lost. */
#define CCH__REQUIRE_CONTEXT(context) CCH__RETURN_FAILURE(cch__context_check(context, __func__))

/* Makes a box's context current; NULL means whatever is current. */
typedef struct cch__current {
  CUcontext saved;
  bool switched;
} cch__current;

/* The halves that usually have nothing to do. `answer` is what cuCtxGetId said of the current context, if it was asked.
 */
int cch__current_switch(cch__current *current, const cch_context *context, CUresult answer);
void cch__current_restore(const cch__current *current);
int cch__current_again(CUcontext raw); /* the same for a caller that the failure is returned to */

/* One question says both that a primary context is current, and that it was not reset. */
static inline bool cch__is_known_current(CUresult *answer, const cch_context *context) {
  unsigned long long id = 0;
  if (!cch__context_can_be_lost(context))
    return false;
  *answer = cch__driver.cuCtxGetId(NULL, &id);
  return *answer == CUDA_SUCCESS && id == context->id;
}

static inline int cch__current_enter(cch__current *current, const cch_context *context) {
  CUresult answer = CUDA_SUCCESS;
  current->switched = false;
  if (context == NULL || cch__is_known_current(&answer, context))
    return 0;
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

#endif
