/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/current.h"

int cch__current_switch(cch__current *current, const cch_context *context, CUresult answer) {
  if (answer != CUDA_SUCCESS && answer != CUDA_ERROR_INVALID_CONTEXT && answer != CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return cch__fail_driver((int)answer, "cuCtxGetId");
  int status = cch__context_check(context, "cuCtxSetCurrent");
  if (status == 0)
    status = CCH__CALL(cuCtxGetCurrent, (&current->saved));
  if (status != 0 || current->saved == context->raw)
    return status;
  status = CCH__CALL(cuCtxSetCurrent, (context->raw));
  current->switched = status == 0;
  return status;
}

/*
 * Reports that the context or the capture mode could not be restored. This is not returned, because the caller must
 * return the status of its own call. After a sticky error, the call that restores fails each time; with an error of
 * earlier work, it fails only once. So the call is made twice before the failure is reported.
 */
static void report_way_back(CUresult result, const char *name) {
  if (result == CUDA_SUCCESS)
    return;
  cch__errors saved;
  cch__owner_enter(&saved);
  cch__report(cch__fail_driver((int)result, name));
  cch__owner_leave(&saved);
}

int cch__current_again(CUcontext raw) {
  if (cch__driver.cuCtxSetCurrent != NULL && cch__driver.cuCtxSetCurrent(raw) == CUDA_SUCCESS)
    return 0;
  return CCH__CALL(cuCtxSetCurrent, (raw));
}

void cch__current_restore(const cch__current *current) {
  if (cch__driver.cuCtxSetCurrent(current->saved) != CUDA_SUCCESS)
    report_way_back(cch__driver.cuCtxSetCurrent(current->saved), "cuCtxSetCurrent");
}

CUstreamCaptureMode cch__relaxed_enter(void) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (cch__driver.cuThreadExchangeStreamCaptureMode == NULL ||
      cch__driver.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
    return CU_STREAM_CAPTURE_MODE_RELAXED; /* nothing was changed, so there is nothing to restore */
  return mode;
}

void cch__relaxed_leave(CUstreamCaptureMode saved) {
  if (saved != CU_STREAM_CAPTURE_MODE_RELAXED && cch__driver.cuThreadExchangeStreamCaptureMode(&saved) != CUDA_SUCCESS)
    report_way_back(cch__driver.cuThreadExchangeStreamCaptureMode(&saved), "cuThreadExchangeStreamCaptureMode");
}

bool cch__driver_permits_calls(const cch_context *context, bool *is_there) {
  CUcontext current;
  int status;
  if (context != NULL && cch__context_can_be_lost(context)) {
    unsigned long long id = 0;
    CUresult answer = cch__driver.cuCtxGetId(context->raw, &id);
    *is_there = answer == CUDA_SUCCESS && id == context->id;
    return answer != CUDA_ERROR_NOT_PERMITTED;
  }
  status = CCH__CALL(cuCtxGetCurrent, (&current));
  if (status == CUDA_ERROR_NOT_PERMITTED)
    return false;
  cch__report(status);
  return true;
}
