/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/current.h"
#include "base/reclaim.h"
#include "base/registry.h"

#include <limits.h>

/* cch_context_raw() */
CCH__DEFINE_RAW(cch_context, CUcontext, raw)

/* Records which primary context the handle refers to now. */
static int identify(cch_context *context) {
  unsigned long long id = 0;
  if (cch__driver.cuCtxGetId == NULL)
    return 0;
  CCH__RETURN_FAILURE(CCH__CALL(cuCtxGetId, (context->raw, &id)));
  context->id = id;
  context->box.context = &context->box;
  return 0;
}

/* Finds whether a foreign context is the primary context of its device. */
static int is_primary(bool *out, const cch_context *context) {
  unsigned flags;
  int active = 0;
  CUcontext primary = NULL;
  *out = false;
  int status = CCH__CALL(cuDevicePrimaryCtxGetState, (context->device, &flags, &active));
  if (status != 0 || !active)
    return status;
  CCH__RETURN_FAILURE(CCH__CALL(cuDevicePrimaryCtxRetain, (&primary, context->device)));
  *out = primary == context->raw;
  return CCH__CALL(cuDevicePrimaryCtxRelease, (context->device));
}

int cch__context_fail_lost(const cch_context *context, CUresult answer, const char *operation) {
  /* If this query fails, continue: the operation itself fails if anything is wrong. */
  if (!cch__is_gone(context) && (answer == CUDA_SUCCESS || answer == CUDA_ERROR_CONTEXT_IS_DESTROYED))
    cch__invalidate((void *)(uintptr_t)context);
  return cch__is_gone(context) ? cch__fail_gone(context, operation) : 0;
}

bool cch__context_is_lost(const cch_context *context) {
  if (context == NULL || cch__is_gone(context))
    return context != NULL;
  if (cch__in_callback())
    return false;
  int status = CCH__ASIDE(cch__context_check(context, "cuCtxGetId"));
  return status == CCH_EGONE;
}

cch_status cch_context_primary(cch_context **out, int device) {
  CCH__REQUIRE_USABLE(out);
  cch__poll();
  CCH__FIND_DEVICE(raw_device, device);
  cch_context *context = cch__box_new(CCH_KIND_CONTEXT, sizeof *context, __func__);
  if (context == NULL)
    return CCH_ENOMEM;
  int status = CCH__CALL(cuDevicePrimaryCtxRetain, (&context->raw, raw_device));
  CCH__RETURN_FAILURE(cch__box_created(context, status));
  context->device = device;
  status = identify(context);
  if (status != 0) {
    cch_context_unref(context);
    return status;
  }
  cch_context *known;
  while ((known = cch__registry_insert_unless_known(context, context->raw)) != NULL && context->id != 0 &&
         known->id != context->id) {
    cch__invalidate(known); /* the registered box is for the context before the reset */
    cch_context_unref(known);
  }
  if (known != NULL) {
    /* The registered box has its own retain, so ours is released. */
    cch_context_unref(context);
    context = known;
  }
  *out = context;
  return 0;
}

cch_status cch_context_create(cch_context **out, int device, const cch_resource *resources, size_t count) {
  CCH__REQUIRE(out);
  CCH__REQUIRE_ARRAY(resources, count);
  CCH__RETURN_FAILURE(cch__ready());
  if (count == 0 || count > UINT_MAX)
    return cch__fail(CCH_EINVAL, __func__, "there are %zu resources", count);
  cch__poll();
  CCH__FIND_DEVICE(raw_device, device);
  CUdevResourceDesc description; /* the driver keeps the description until the process ends */
  cch_context *context = cch__box_new(CCH_KIND_CONTEXT, sizeof *context, __func__);
  if (context == NULL)
    return CCH_ENOMEM;
  CUdevResource *given = (CUdevResource *)(uintptr_t)resources; /* the driver only reads the resources */
  int status = CCH__CALL(cuDevResourceGenerateDesc, (&description, given, (unsigned)count));
  /* Before CUDA 13.1 the default stream had to be requested. */
  if (status == 0)
    status = CCH__CALL(cuGreenCtxCreate, (&context->green, description, raw_device, CU_GREEN_CTX_DEFAULT_STREAM));
  if (status == 0) {
    status = CCH__CALL(cuCtxFromGreenCtx, (&context->raw, context->green));
    if (status != 0)
      cch__driver.cuGreenCtxDestroy(context->green);
  }
  CCH__RETURN_FAILURE(cch__box_created(context, status));
  context->device = device;
  cch__registry_insert(context, context->raw);
  *out = context;
  return 0;
}

cch_status cch_context_wrap(cch_context **out, CUcontext raw, void *owner, cch_release_fn release) {
  CCH__REQUIRE_USABLE(out, raw);
  cch_context *context;
  bool is_new;
  CCH__RETURN_FAILURE(
      cch__box_of_handle(&context, &is_new, CCH_KIND_CONTEXT, sizeof *context, raw, owner, release, __func__));
  if (is_new) {
    context->raw = raw;
    CUdevice device = 0;
    int status = CCH__IN_CONTEXT(context, CCH__CALL(cuCtxGetDevice, (&device)));
    context->device = device;
    bool primary = false;
    if (status == 0 && cch__driver.cuDevicePrimaryCtxGetState != NULL)
      status = is_primary(&primary, context);
    if (status == 0 && primary)
      status = identify(context);
    if (status != 0) {
      cch__box_free(context);
      return status;
    }
  }
  *out = context;
  return 0;
}

cch_status cch_context_current(cch_context **out) {
  CCH__REQUIRE_USABLE(out);
  CUcontext raw = NULL;
  CCH__RETURN_FAILURE(CCH__CALL(cuCtxGetCurrent, (&raw)));
  if (raw != NULL)
    return cch_context_wrap(out, raw, NULL, NULL);
  *out = NULL;
  return 0;
}

cch_status cch_context_set_current(cch_context *context) {
  CCH__REQUIRE_USABLE_OR_NULL(context);
  CUresult answer;
  if (context != NULL && cch__is_known_current(&answer, context))
    return 0;
  CCH__REQUIRE_CONTEXT(context); /* otherwise the driver would accept a context that was reset */
  return CCH__CALL(cuCtxSetCurrent, (context != NULL ? context->raw : NULL));
}

cch_status cch_context_restore(cch_context *context) {
  CCH__REQUIRE_USABLE_OR_NULL(context);
  return cch__current_again(context != NULL ? context->raw : NULL);
}

cch_status cch_context_synchronize(cch_context *context) {
  CCH__REQUIRE_USABLE(context);
  cch__poll_waiting();
  return CCH__IN_CONTEXT(context, CCH__CALL(cuCtxSynchronize, ()));
}

static int memory_info(size_t *free, size_t *total) {
  size_t left = 0, all = 0;
  CCH__RETURN_FAILURE(CCH__RELAXED(CCH__CALL(cuMemGetInfo, (&left, &all))));
  *free = left;
  *total = all;
  return 0;
}

cch_status cch_context_memory_info(size_t *free, size_t *total, cch_context *context) {
  CCH__REQUIRE_USABLE(free, total, context);
  return CCH__IN_CONTEXT(context, memory_info(free, total));
}

cch_status cch_current_device(int *out) {
  CCH__REQUIRE_USABLE(out);
  CUdevice device;
  CCH__RETURN_FAILURE(CCH__CALL(cuCtxGetDevice, (&device)));
  *out = device; /* a CUdevice is the ordinal of the device */
  return 0;
}

CCH__DEFINE_GET(int, cch_context_device, cch_context, context, CCH_EINVAL, device)

bool cch_context_is_primary(const cch_context *context) {
  CCH__REQUIRE_ELSE(false, context);
  return context->box.owned && context->green == NULL;
}

cch_status cch_context_is_green(int *out, cch_context *context) {
  CCH__REQUIRE_USABLE(out, context);
  int status = 0;
  CUgreenCtx green = context->green;
  if (!context->box.owned &&
      cch__driver.cuStreamGetGreenCtx != NULL) /* a driver that lacks this function has no green contexts */
    status = CCH__IN_CONTEXT(context, CCH__CALL(cuStreamGetGreenCtx, (CU_STREAM_LEGACY, &green)));
  if (status == 0)
    *out = green != NULL;
  return status;
}

int cch__context_create_stream(CUstream *out, cch_context *context, unsigned flags, int priority) {
  if (context->green != NULL)
    return CCH__CALL(cuGreenCtxStreamCreate, (out, context->green, flags, priority));
  return CCH__IN_CONTEXT(context, CCH__CALL(cuStreamCreateWithPriority, (out, flags, priority)));
}

/* ---- helper streams ---- */

static atomic_size_t helpers;

size_t cch_helper_stream_count(void) { return atomic_load_explicit(&helpers, memory_order_relaxed); }

/* It is only made in a context that the library owns, because it must be destroyed before the context. */
int cch__context_helper(CUstream *out, cch_context *context) {
  CUstream known = atomic_load_explicit(&context->helper, memory_order_acquire), made = NULL;
  if (known == NULL && context->box.owned) {
    CCH__RETURN_FAILURE(cch__context_create_stream(&made, context, CU_STREAM_NON_BLOCKING, 0));
    if (atomic_compare_exchange_strong(&context->helper, &known, made)) {
      atomic_fetch_add_explicit(&helpers, 1, memory_order_relaxed);
      known = made;
    } else { /* another thread was first */
      cch__report(CCH__CALL(cuStreamDestroy, (made)));
    }
  }
  *out = known;
  return 0;
}

static bool end_helper(cch_context *context) {
  CUstream helper = atomic_load_explicit(&context->helper, memory_order_acquire);
  if (helper == NULL)
    return true;
  if (!cch__destroyed(CCH__CALL(cuStreamDestroy, (helper))))
    return false;
  atomic_store_explicit(&context->helper, NULL, memory_order_relaxed);
  atomic_fetch_sub_explicit(&helpers, 1, memory_order_relaxed);
  return true;
}

bool cch__context_destroy(cch_context *context) {
  if (!context->box.owned)
    return true;
  if (!end_helper(context))
    return false;
  int status = context->green != NULL ? CCH__CALL(cuGreenCtxDestroy, (context->green))
                                      : CCH__CALL(cuDevicePrimaryCtxRelease, (context->device));
  return cch__destroyed(status);
}
