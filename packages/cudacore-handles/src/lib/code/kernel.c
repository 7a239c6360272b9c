/* SPDX-License-Identifier: Apache-2.0 */
#include "code/kernel.h"

#include "driver/current.h"
#include "base/registry.h"

#include <stdlib.h>
#include <string.h>

/* cch_kernel_raw() */
CCH__DEFINE_RAW(cch_kernel, CUkernel, raw)
CCH__DEFINE_GET(cch_library *, cch_kernel_library, cch_kernel, kernel, NULL, library)

/*
 * Gets the box of a kernel and its library. A kernel exists as long as its library is loaded. If the library is ours,
 * the kernel has one box, which keeps the library. Otherwise the driver may reuse the handle, so each caller gets a new
 * box. A caller that passes an owner also gets a new box, because the owner must live as long as that box.
 */
static int box_of(cch_kernel **out, CUkernel raw, cch_library *library, void *owner, cch_release_fn release,
                  const char *operation) {
  cch_kernel *kernel = cch__box_new(CCH_KIND_KERNEL, sizeof *kernel, operation);
  if (kernel == NULL)
    return CCH_ENOMEM;
  kernel->raw = raw;
  kernel->library = cch_library_ref(library);
  kernel->box.owner = owner;
  kernel->box.release = release;
  bool shared = library != NULL && library->box.owned && owner == NULL;
  cch_kernel *known = shared ? cch__registry_insert_unless_known(kernel, raw) : NULL;
  if (known != NULL && known->library == library) {
    cch_kernel_unref(kernel);
    kernel = known;
  } else if (known != NULL) {
    cch_kernel_unref(known);
    cch__registry_insert(kernel, raw);
  }
  *out = kernel;
  return 0;
}

cch_status cch_kernel_get(cch_kernel **out, cch_library *library, const char *name) {
  CCH__REQUIRE_USABLE(out, library, name);
  CUkernel raw;
  int status = CCH__CALL(cuLibraryGetKernel, (&raw, library->raw, name));
  return status != 0 ? status : box_of(out, raw, library, NULL, NULL, __func__);
}

cch_status cch_kernel_wrap(cch_kernel **out, CUkernel raw, cch_library *library, void *owner, cch_release_fn release) {
  CCH__REQUIRE(out, raw);
  CCH__REQUIRE_USABLE_OR_NULL(library);
  CUlibrary real = NULL; /* remains NULL if the driver cannot report the library */
  CUresult result = CUDA_SUCCESS;
  if (cch__driver.cuKernelGetLibrary != NULL) {
    result = cch__driver.cuKernelGetLibrary(&real, raw);
  } else { /* finds the library only if it is ours and the kernel has a box */
    cch_kernel *known = cch__registry_find(CCH_KIND_KERNEL, raw);
    if (known != NULL)
      real = known->library->raw;
    cch_kernel_unref(known);
  }
  if (result != CUDA_SUCCESS && library != NULL)
    return cch__fail_driver((int)result, "cuKernelGetLibrary");
  if (result != CUDA_SUCCESS)
    real = NULL;
  if (library != NULL && real != NULL && library->raw != real)
    return cch__fail(CCH_EMISMATCH, __func__, "the kernel is of the library %p, not of %p, which is to keep it",
                     (void *)real, (void *)library->raw);
  library = library != NULL ? cch_library_ref(library)
            : real != NULL  ? cch__registry_find(CCH_KIND_LIBRARY, real)
                            : NULL;
  int status = box_of(out, raw, library, owner, release, __func__);
  if (status == 0 && library == NULL) /* the code is not known */
    atomic_fetch_add_explicit(&cch__printing, 1, memory_order_relaxed);
  cch_library_unref(library);
  return status;
}

static cch__params *new_params(size_t count, const char *operation) {
  cch__params *params = malloc(sizeof *params + count * sizeof *params->param);
  if (params == NULL)
    cch__fail_nomem(operation);
  else
    *params = (cch__params){.count = count};
  return params;
}

static void set_param(cch__params *params, size_t index, cch_param param) {
  params->param[index] = param;
  if ((size_t)param.offset + param.size > params->block_size)
    params->block_size = (size_t)param.offset + param.size;
}

/* Sets the parameters of a kernel, unless another thread was first. Returns the kernel's parameters. */
static cch__params *keep_params(cch_kernel *kernel, cch__params *params) {
  cch__params *first = NULL;
  if (atomic_compare_exchange_strong(&kernel->params, &first, params))
    return params;
  free(params);
  return first;
}

static int query_params(cch_kernel *kernel, cch__params **out) {
  size_t offset, size, count = 0;
  if (cch__driver.cuKernelGetParamInfo == NULL)
    return cch__fail_missing("cuKernelGetParamInfo");
  CUresult result;
  while ((result = cch__driver.cuKernelGetParamInfo(kernel->raw, count, &offset, &size)) == CUDA_SUCCESS)
    count++;
  if (result != CUDA_ERROR_INVALID_VALUE) /* the driver's result for an index beyond the last one */
    return cch__fail_driver((int)result, "cuKernelGetParamInfo");
  cch__params *params = new_params(count, "cch_kernel_params");
  if (params == NULL)
    return CCH_ENOMEM;
  for (size_t i = 0; i < count; i++) {
    int status = CCH__CALL(cuKernelGetParamInfo, (kernel->raw, i, &offset, &size));
    if (status != 0) {
      free(params);
      return status;
    }
    set_param(params, i, (cch_param){.offset = (uint32_t)offset, .size = (uint32_t)size});
  }
  *out = params;
  return 0;
}

bool cch__kernel_has_params(cch_kernel *kernel) {
  return cch__driver.cuKernelGetParamInfo != NULL ||
         atomic_load_explicit(&kernel->params, memory_order_acquire) != NULL;
}

cch_status cch_kernel_set_params(cch_kernel *kernel, const cch_param *params, size_t count) {
  CCH__REQUIRE_USABLE(kernel);
  CCH__REQUIRE_ARRAY(params, count);
  if (cch__kernel_has_params(kernel))
    return 0;
  cch__params *stated = new_params(count, __func__);
  if (stated == NULL)
    return CCH_ENOMEM;
  stated->stated = true;
  for (size_t i = 0; i < count; i++)
    set_param(stated, i, params[i]);
  keep_params(kernel, stated);
  return 0;
}

cch_status cch_kernel_layout(const void **out, size_t *size, cch_kernel *kernel, const void *given, size_t given_size) {
  CCH__REQUIRE_USABLE(out, size, kernel);
  cch__layout *known = atomic_load_explicit(&kernel->layout, memory_order_acquire);
  if (known == NULL && given != NULL) {
    cch__layout *copy = malloc(sizeof *copy + given_size);
    if (copy == NULL)
      return cch__fail_nomem(__func__);
    copy->size = given_size;
    memcpy(copy->bytes, given, given_size);
    if (atomic_compare_exchange_strong(&kernel->layout, &known, copy))
      known = copy;
    else
      free(copy);
  }
  *out = known != NULL ? known->bytes : NULL;
  *size = known != NULL ? known->size : 0;
  return 0;
}

int cch__kernel_params_query(const cch__params **out, cch_kernel *kernel) {
  cch__params *params = NULL;
  CCH__RETURN_FAILURE(query_params(kernel, &params));
  *out = keep_params(kernel, params);
  return 0;
}

cch_status cch_kernel_params(const cch_param **out, size_t *count, cch_kernel *kernel, cch_context *context) {
  CCH__REQUIRE_USABLE(out, count, kernel);
  CCH__REQUIRE_USABLE_OR_NULL(context);
  const cch__params *params;
  CCH__RETURN_FAILURE(CCH__IN_CONTEXT(context, cch__kernel_params(&params, kernel)));
  *out = params->param;
  *count = params->count;
  return 0;
}

void cch__kernel_unref_held(cch_kernel *kernel) {
  free(atomic_load_explicit(&kernel->params, memory_order_acquire));
  free(atomic_load_explicit(&kernel->layout, memory_order_acquire));
  if (kernel->library == NULL)
    atomic_fetch_sub_explicit(&cch__printing, 1, memory_order_relaxed);
  cch_library_unref(kernel->library);
}
