/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_CURRENT_H
#define CUDACORE_CURRENT_H

/* The thread's current context and capture mode, which are changed for a few calls. */

#include "base/kinds.h"
#include "driver/driver_table.h"

/*
 * Returns whether a context is a primary context whose id the driver can report (cuCtxGetId). Any code in the process
 * can reset a primary context.
 */
static inline bool cch__context_can_be_lost(const cch_context *context) {
  return context->id != 0 && cch__driver.cuCtxGetId != NULL;
}

/*
 * Checks that a primary context is still the one that the box was made for: 0, or a recorded failure. A reset keeps the
 * handle, which then refers to the next primary context. The driver crashes if it gets a stream, an event or an
 * executable graph of the old context (13.0, H200), so this must be called first. NULL stands for no context.
 */
CCH__COLD int cch__context_fail_lost(const cch_context *context, CUresult answer, const char *operation);
static inline int cch__context_check(const cch_context *context, const char *operation) {
  if (context == NULL || !cch__context_can_be_lost(context))
    return 0;
  unsigned long long id = 0; /* no two contexts of a process have the same id */
  CUresult answer = cch__driver.cuCtxGetId(context->raw, &id);
  return answer == CUDA_SUCCESS && id == context->id ? 0 : cch__context_fail_lost(context, answer, operation);
}

/*
 * Returns whether a context was reset. False in a function that CUDA calls, because the driver must not be called
 * there.
 */
bool cch__context_is_lost(const cch_context *context);

/* Creates a stream that has no box. */
int cch__context_create_stream(CUstream *out, cch_context *context, unsigned flags, int priority);
/*
 * Gets the stream on which frees of memory in a context wait for several other streams. It is created when it is first
 * needed, and destroyed with the context. NULL if the library does not own the context.
 */
int cch__context_helper(CUstream *out, cch_context *context);

/*
 * Returns whether the driver accepts calls on this thread now. CUDA forbids them in the functions that it calls. The
 * same call of the driver determines whether `context` still exists. NULL, and contexts that cannot be reset, always
 * exist.
 */
bool cch__driver_permits_calls(const cch_context *context, bool *is_there);

/* Returns a failure if the context is lost. Public functions call it after CCH__REQUIRE_USABLE(). */
#define CCH__REQUIRE_CONTEXT(context) CCH__RETURN_FAILURE(cch__context_check(context, __func__))

/*
 * cch__current_enter() makes the context of a box current; NULL leaves the current one. cch__current_leave() restores
 * the previous context, which this structure stores.
 */
typedef struct cch__current {
  CUcontext saved;
  bool switched;
} cch__current;

/*
 * The slow parts of cch__current_enter() and cch__current_leave(), which are rarely needed. `answer` is the result of
 * cuCtxGetId for the current context, if it was called.
 */
int cch__current_switch(cch__current *current, const cch_context *context, CUresult answer);
void cch__current_restore(const cch__current *current);
int cch__current_again(CUcontext raw); /* returns a failure to the caller instead of reporting it */

/* One call of the driver determines whether the context is current, and whether it was reset. */
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
 * Evaluates an expression while the context is current. The result is the status of the expression or, if the context
 * cannot be made current, the status of that failure:
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
 * Between calls of cch__relaxed_enter() and cch__relaxed_leave(), nothing that the thread calls can invalidate a
 * capture of another stream or thread. Without these two calls, a free could invalidate a capture, because the driver
 * regards frees as "potentially unsafe".
 */
CUstreamCaptureMode cch__relaxed_enter(void);
void cch__relaxed_leave(CUstreamCaptureMode saved);

/* Evaluates an expression between cch__relaxed_enter() and cch__relaxed_leave(). The result is its status. */
#define CCH__RELAXED(...)                                                                                              \
  __extension__({                                                                                                      \
    CUstreamCaptureMode mode_here = cch__relaxed_enter();                                                              \
    int status_here = (__VA_ARGS__);                                                                                   \
    cch__relaxed_leave(mode_here);                                                                                     \
    status_here;                                                                                                       \
  })

/* Gives a new box a reference to its context, which may be NULL. If the context is lost, the box cannot be used. */
static inline void cch__box_in(cch__box *box, cch_context **place, cch_context *context) {
  if (context == NULL)
    return;
  *place = cch_context_ref(context);
  box->context = context->box.context;
}

#endif
