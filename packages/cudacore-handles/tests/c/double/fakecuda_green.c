/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The double's green contexts. Each device has 132 multiprocessors, which are split by eights, as those of an H200 are;
 * which of them a resource means is not kept.
 */
#include "double/fakecuda_internal.h"

enum { MULTIPROCESSORS = 132, TOGETHER = 8 };

/* A resource, in the place of a CUdevResource: the first fields of what may be read are those of multiprocessors. */
typedef struct resource {
  int32_t kind, device; /* the device is among what only the driver reads */
  bool is_part;         /* it came of a split */
  unsigned char internal[87];
  uint32_t count, least, together, flags;
  unsigned char unused[32];
} resource;
_Static_assert(sizeof(resource) == sizeof(CUdevResource) && offsetof(resource, count) == offsetof(CUdevResource, sm),
               "a resource of the double has the driver's form");

/* What was described; for the life of the process, as the driver has it. */
static resource described[256];
static size_t description_count;

static resource read(const CUdevResource *given) {
  resource value;
  memcpy(&value, given, sizeof value);
  return value;
}

static CUresult write(CUdevResource *out, int device, uint32_t count, bool is_part, CUdevResourceType kind) {
  resource value = {.kind = (int32_t)kind, .device = device, .is_part = is_part};
  if (kind == CU_DEV_RESOURCE_TYPE_SM) {
    value.count = count;
    value.least = value.together = TOGETHER;
  } else if ((int)kind == 1000) { /* work queues: the device, how many, how they are shared */
    value.count = (uint32_t)device;
    value.least = 8;
  } else {
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  }
  memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

static void write_rest(CUdevResource *out, int device, uint32_t count) {
  memset(out, 0, sizeof *out);
  if (count != 0)
    write(out, device, count, true, CU_DEV_RESOURCE_TYPE_SM);
}

static CUresult find_green(object **out, CUgreenCtx handle) {
  CUresult result = find_object(out, FAKE_CONTEXT, handle);
  return result != CUDA_SUCCESS || (*out)->context ? result : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device, CUdevResource *out, CUdevResourceType kind) {
  ENTER(cuDeviceGetDevResource);
  TRY(check_device(device));
  return leave(write(out, device, MULTIPROCESSORS, false, kind));
}

CUresult CUDAAPI cuCtxGetDevResource(CUcontext handle, CUdevResource *out, CUdevResourceType kind) {
  ENTER(cuCtxGetDevResource);
  object *context;
  TRY(find_object(&context, FAKE_CONTEXT, handle));
  uint32_t count = context->context ? context->u.ctx.multiprocessors : MULTIPROCESSORS;
  return leave(write(out, context->u.ctx.device, count, false, kind));
}

CUresult CUDAAPI cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *out, CUdevResourceType kind) {
  ENTER(cuGreenCtxGetDevResource);
  object *green;
  TRY(find_green(&green, handle));
  return leave(write(out, green->u.ctx.device, green->u.ctx.multiprocessors, false, kind));
}

CUresult CUDAAPI cuDevSmResourceSplitByCount(CUdevResource *out, unsigned *count, const CUdevResource *given,
                                             CUdevResource *rest, unsigned flags, unsigned least) {
  ENTER(cuDevSmResourceSplitByCount);
  resource all = read(given);
  if (all.kind != CU_DEV_RESOURCE_TYPE_SM)
    return leave(CUDA_ERROR_INVALID_RESOURCE_TYPE);
  if (flags != 0 || least > all.count)
    return leave(CUDA_ERROR_INVALID_VALUE);
  unsigned size = least == 0 ? TOGETHER : (least + TOGETHER - 1) / TOGETHER * TOGETHER;
  unsigned groups = all.count / size;
  if (all.is_part || groups == 0)
    return leave(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  if (groups > *count)
    groups = *count;
  for (unsigned i = 0; i < groups; i++)
    write(&out[i], all.device, size, true, CU_DEV_RESOURCE_TYPE_SM);
  write_rest(rest, all.device, all.count - groups * size);
  *count = groups;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDevSmResourceSplit(CUdevResource *out, unsigned count, const CUdevResource *given,
                                      CUdevResource *rest, unsigned flags, CU_DEV_SM_RESOURCE_GROUP_PARAMS *groups) {
  ENTER(cuDevSmResourceSplit);
  resource all = read(given);
  uint32_t left = all.count;
  if (all.kind != CU_DEV_RESOURCE_TYPE_SM)
    return leave(CUDA_ERROR_INVALID_RESOURCE_TYPE);
  if (flags != 0)
    return leave(CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < count; i++) {
    unsigned together = groups[i].coscheduledSmCount ? groups[i].coscheduledSmCount : TOGETHER;
    if (groups[i].smCount == 0)
      groups[i].smCount = left / together * together;
    if (groups[i].smCount > left || (groups[i].smCount == 0 && out != NULL) ||
        (groups[i].smCount % together != 0 && groups[i].flags == 0))
      return leave(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    if (out != NULL)
      write(&out[i], all.device, groups[i].smCount, true, CU_DEV_RESOURCE_TYPE_SM);
    left -= groups[i].smCount;
  }
  if (rest != NULL)
    write_rest(rest, all.device, left);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *given, unsigned count) {
  ENTER(cuDevResourceGenerateDesc);
  resource all = {.count = 0};
  for (unsigned i = 0; i < count; i++) {
    resource one = read(&given[i]);
    if (i > 0 && one.device != all.device)
      return leave(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    all.device = one.device;
    all.count += one.kind == CU_DEV_RESOURCE_TYPE_SM ? one.count : 0;
  }
  resource *description = &described[description_count++ % (sizeof described / sizeof *described)];
  *description = all;
  *out = (CUdevResourceDesc)description;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc handle, CUdevice device, unsigned flags) {
  ENTER(cuGreenCtxCreate);
  const resource *description = (const resource *)handle;
  TRY(check_device(device));
  if (flags != CU_GREEN_CTX_DEFAULT_STREAM || description->device != device)
    return leave(CUDA_ERROR_INVALID_VALUE);
  object *green = new_object(FAKE_CONTEXT);
  if (!green)
    return leave(CUDA_ERROR_OUT_OF_MEMORY);
  object *home = &state.contexts[device];
  home->u.ctx.retains++;
  bind_to_context(green, home);
  green->u.ctx.device = device;
  green->u.ctx.retains = 1;
  green->u.ctx.multiprocessors = description->count ? description->count : MULTIPROCESSORS;
  *out = (CUgreenCtx)green;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx handle) {
  ENTER(cuGreenCtxDestroy);
  object *green;
  TRY(find_green(&green, handle));
  if (green->u.ctx.residents)
    violate("the green context goes with %zu objects alive in it", green->u.ctx.residents);
  green->u.ctx.retains = 0;
  green->context->u.ctx.retains--;
  end_object(green);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx handle) {
  ENTER(cuCtxFromGreenCtx);
  object *green;
  TRY(find_green(&green, handle));
  *out = (CUcontext)green;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream *out, CUgreenCtx handle, unsigned flags, int priority) {
  ENTER(cuGreenCtxStreamCreate);
  object *green;
  TRY(find_green(&green, handle));
  return leave(flags == CU_STREAM_NON_BLOCKING ? make_stream(out, green, flags, priority) : CUDA_ERROR_INVALID_VALUE);
}

CUresult CUDAAPI cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *out) {
  ENTER(cuStreamGetGreenCtx);
  object *stream, *context;
  TRY(find_stream(&stream, &context, handle));
  *out = context->context ? (CUgreenCtx)context : NULL;
  return leave(CUDA_SUCCESS);
}
