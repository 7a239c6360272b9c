/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/capture_info.h"

#include "driver/current.h"

static int ask(cch__capture_info *out, CUstream stream) {
  if (cch__driver.cuStreamGetCaptureInfo_v12030 != NULL)
    return (int)cch__driver.cuStreamGetCaptureInfo_v12030(stream, &out->status, &out->id, &out->graph,
                                                          &out->dependencies, &out->edges, &out->count);
  return (int)cch__driver.cuStreamGetCaptureInfo_v11030(stream, &out->status, &out->id, &out->graph, &out->dependencies,
                                                        &out->count);
}

int cch__capture_info_of(cch__capture_info *out, CUstream stream) {
  static const char name[] = "cuStreamGetCaptureInfo";
  *out = (cch__capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
  if (cch__driver.cuStreamGetCaptureInfo_v12030 == NULL && cch__driver.cuStreamGetCaptureInfo_v11030 == NULL)
    return cch__fail_missing(name);
  int status = cch__checked(ask(out, stream), name);
  if (status != 0 || out->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    *out = (cch__capture_info){.status = out->status}; /* the driver may have left the other fields unset */
  return status;
}
