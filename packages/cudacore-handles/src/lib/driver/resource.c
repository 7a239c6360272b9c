/* SPDX-License-Identifier: Apache-2.0 */
/* Device resources: values that the driver fills in. */
#include "base/kinds.h"
#include "driver/driver_table.h"

_Static_assert(sizeof(cch_resource) == sizeof(CUdevResource), "resources have another size");

static CUdevResource *driver_form(cch_resource *resource) { return (CUdevResource *)resource; }

cch_status cch_resource_of_device(cch_resource *out, int device, int kind) {
  CCH__REQUIRE_USABLE(out);
  CCH__FIND_DEVICE(raw, device);
  cch_resource found = {0};
  CCH__RETURN_FAILURE(CCH__CALL(cuDeviceGetDevResource, (raw, driver_form(&found), (CUdevResourceType)kind)));
  *out = found;
  return 0;
}

cch_status cch_resource_of_context(cch_resource *out, cch_context *context, int kind) {
  CCH__REQUIRE_USABLE(out, context);
  cch_resource found = {0};
  CUdevResource *into = driver_form(&found);
  CCH__RETURN_FAILURE(context->green != NULL
                          ? CCH__CALL(cuGreenCtxGetDevResource, (context->green, into, (CUdevResourceType)kind))
                          : CCH__CALL(cuCtxGetDevResource, (context->raw, into, (CUdevResourceType)kind)));
  *out = found;
  return 0;
}
