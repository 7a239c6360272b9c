/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA user objects, through which the driver's graphs keep bundles alive. */
#include "driver/user_object.h"

#include <cudacore_internal/base.h>

/* CUDA calls this when a user object is no longer needed, on a thread that must not call CUDA. */
static void CUDA_CB let_go(void *bundle) { cch_unref_deferred(bundle); }

int cch__driver_keep(CUuserObject *out, CUgraph graph, cch_bundle *bundle, size_t count) {
  CUuserObject object;
  const unsigned references = (unsigned)count;
  cch_bundle_ref(bundle);
  int status = CCH__CALL(cuUserObjectCreate, (&object, bundle, let_go, references, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  if (status != 0) {
    cch_bundle_unref(bundle);
    return status;
  }
  status = CCH__CALL(cuGraphRetainUserObject, (graph, object, references, CU_GRAPH_USER_OBJECT_MOVE));
  if (status != 0) {
    CCH__ASIDE(cch__report(CCH__CALL(cuUserObjectRelease, (object, references))));
    return status;
  }
  *out = object;
  return 0;
}

void cch__driver_unref(CUgraph graph, CUuserObject object, size_t count) {
  if (object == NULL || count == 0)
    return;
  CCH__ASIDE(cch__report(CCH__CALL(cuGraphReleaseUserObject, (graph, object, (unsigned)count))));
}
