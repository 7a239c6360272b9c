/* SPDX-License-Identifier: Apache-2.0 */
/* Device resources: values that the driver fills in. */
#include "base/kinds.h"
#include "driver/driver_table.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(cch_resource) == sizeof(CUdevResource), "resources have another size");
_Static_assert(sizeof(CU_DEV_SM_RESOURCE_GROUP_PARAMS) == 64, "groups have another size");

enum { BACKFILL = 1 };

static CUdevResource *driver_form(const cch_resource *resource) { return (CUdevResource *)(uintptr_t)resource; }

static int check_multiprocessors(const cch_resource *resource, const char *operation) {
  if (resource->kind == CCH_RESOURCE_SM)
    return 0;
  return cch__fail(CCH_EINVAL, operation, "the resource is of kind %d, not %d", resource->kind, CCH_RESOURCE_SM);
}

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

cch_status cch_resource_split_evenly(cch_resource *out, size_t *count, cch_resource *rest, const cch_resource *resource,
                                     unsigned flags, uint32_t least) {
  CCH__REQUIRE_USABLE(out, count, resource);
  CCH__RETURN_FAILURE(check_multiprocessors(resource, __func__));
  if (*count == 0 || *count > UINT_MAX)
    return cch__fail(CCH_EINVAL, __func__, "the number of groups is %zu, and must be from 1 to %u", *count, UINT_MAX);
  cch_resource *groups = calloc(*count, sizeof *groups);
  if (groups == NULL)
    return cch__fail_nomem(__func__);
  cch_resource left = {0};
  unsigned made = (unsigned)*count;
  int status = CCH__CALL(cuDevSmResourceSplitByCount,
                         (driver_form(groups), &made, driver_form(resource), driver_form(&left), flags, least));
  if (status == 0) {
    memcpy(out, groups, made * sizeof *groups);
    *count = made;
    if (rest != NULL)
      *rest = left;
  }
  free(groups);
  return status;
}

cch_status cch_resource_split(cch_resource *out, cch_resource *rest, const cch_resource *resource, cch_sm_group *groups,
                              size_t count) {
  CCH__REQUIRE(resource);
  CCH__REQUIRE_ARRAY(groups, count);
  CCH__RETURN_FAILURE(cch__ready());
  CCH__RETURN_FAILURE(check_multiprocessors(resource, __func__));
  if (count == 0 || count > UINT_MAX)
    return cch__fail(CCH_EINVAL, __func__, "there are %zu groups", count);
  CUdevResource *made =
      calloc(count, sizeof *made + sizeof(CU_DEV_SM_RESOURCE_GROUP_PARAMS)); /* the resources, followed by the groups */
  if (made == NULL)
    return cch__fail_nomem(__func__);
  CU_DEV_SM_RESOURCE_GROUP_PARAMS *params = (CU_DEV_SM_RESOURCE_GROUP_PARAMS *)(made + count);
  for (size_t i = 0; i < count; i++) {
    params[i].smCount = groups[i].count;
    params[i].coscheduledSmCount = groups[i].together;
    params[i].preferredCoscheduledSmCount = groups[i].preferred;
    params[i].flags = groups[i].backfill != 0 ? BACKFILL : 0;
  }
  cch_resource left = {0};
  int status = CCH__CALL(cuDevSmResourceSplit, (out != NULL ? made : NULL, (unsigned)count, driver_form(resource),
                                                out != NULL ? driver_form(&left) : NULL, 0, params));
  if (status == 0) {
    for (size_t i = 0; i < count; i++)
      groups[i].count = params[i].smCount;
    if (out != NULL)
      memcpy(out, made, count * sizeof *out);
    if (rest != NULL)
      *rest = left;
  }
  free(made);
  return status;
}
