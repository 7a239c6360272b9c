/* SPDX-License-Identifier: Apache-2.0 */
/* The double's libraries, kernels and launches. */
#include "double/fakecuda_internal.h"

#include "double/fakecuda_image.h"

#include <stdio.h>

/* ---- libraries --------------------------------------------------------------------------------------------------- */

static void end_kernels(object *library) {
  for (unsigned i = library->u.library.count; i-- > 0;) { /* so that the next load finds them in order */
    object *kernel = library->u.library.kernels[i];
    free(kernel->u.kernel.name);
    free(kernel->u.kernel.signature);
    end_object(kernel);
  }
  free(library->u.library.kernels);
}

static CUresult add_kernel(object *library, const char *name, size_t length, const char *parameters) {
  object **kernels = realloc(library->u.library.kernels, (library->u.library.count + 1) * sizeof *kernels);
  if (!kernels)
    return CUDA_ERROR_OUT_OF_MEMORY;
  library->u.library.kernels = kernels;
  object *kernel = new_object(FAKE_KERNEL);
  if (!kernel)
    return CUDA_ERROR_OUT_OF_MEMORY;
  kernels[library->u.library.count++] = kernel;
  kernel->u.kernel.library = library;
  kernel->u.kernel.name = strndup(name, length);
  kernel->u.kernel.signature = ptx_signature(parameters);
  return kernel->u.kernel.name && kernel->u.kernel.signature ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult load_ptx(object *library, const char *text) {
  char *ptx = ptx_copy(text);
  if (!ptx)
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = CUDA_SUCCESS;
  size_t length;
  const char *cursor = ptx, *name;
  while (result == CUDA_SUCCESS && (name = ptx_next_kernel(&cursor, &length)))
    result = add_kernel(library, name, length, cursor);
  free(ptx);
  return result;
}

static void write_log(const char *text, CUjit_option *options, void **values, unsigned count) {
  char *log = NULL;
  size_t size = 0;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
      log = values[i];
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      size = (size_t)(uintptr_t)values[i];
  }
  if (log && size)
    snprintf(log, size, "%s", text);
}

/* Compilation is lazy: a bad image leaves a log and loads, and its kernels cannot be had. */
CUresult CUDAAPI cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *options, void **values,
                                   unsigned option_count, CUlibraryOption *library_options, void **library_values,
                                   unsigned library_option_count) {
  (void)library_options, (void)library_values, (void)library_option_count;
  ENTER(cuLibraryLoadData);
  if (!code)
    return leave(CUDA_ERROR_INVALID_VALUE);
  object *library = new_object(FAKE_LIBRARY);
  if (!library)
    return leave(CUDA_ERROR_OUT_OF_MEMORY);
  uint32_t magic = 0;
  memcpy(&magic, code, strnlen(code, sizeof magic));
  CUresult result = CUDA_SUCCESS;
  if (memcmp(&magic, ELFMAG, SELFMAG) == 0) {
    image_read_elf(code);
  } else if (magic == FATBIN_MAGIC) {
    image_read_fatbin(code);
  } else if (strstr(code, ".version")) {
    result = load_ptx(library, code);
  } else {
    library->u.library.broken = CUDA_ERROR_INVALID_IMAGE;
    write_log("fakecuda: the image has no .version directive", options, values, option_count);
  }
  if (result != CUDA_SUCCESS) {
    end_kernels(library);
    end_object(library);
    return leave(result);
  }
  *out = (CUlibrary)library;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary handle) {
  ENTER(cuLibraryUnload);
  object *library;
  TRY(find_object(&library, FAKE_LIBRARY, handle));
  TRY(check_captures());
  end_kernels(library);
  end_object(library);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name) {
  ENTER(cuLibraryGetKernel);
  object *library;
  TRY(find_object(&library, FAKE_LIBRARY, handle));
  TRY(library->u.library.broken);
  for (unsigned i = 0; i < library->u.library.count; i++)
    if (strcmp(library->u.library.kernels[i]->u.kernel.name, name) == 0) {
      *out = (CUkernel)library->u.library.kernels[i];
      return leave(CUDA_SUCCESS);
    }
  return leave(CUDA_ERROR_NOT_FOUND);
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned *count, CUlibrary handle) {
  ENTER(cuLibraryGetKernelCount);
  object *library;
  TRY(find_object(&library, FAKE_LIBRARY, handle));
  *count = library->u.library.count;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel *kernels, unsigned count, CUlibrary handle) {
  ENTER(cuLibraryEnumerateKernels);
  object *library;
  TRY(find_object(&library, FAKE_LIBRARY, handle));
  for (unsigned i = 0; i < count && i < library->u.library.count; i++)
    kernels[i] = (CUkernel)library->u.library.kernels[i];
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *out, CUkernel handle) {
  ENTER(cuKernelGetLibrary);
  object *kernel;
  TRY(find_object(&kernel, FAKE_KERNEL, handle));
  *out = (CUlibrary)kernel->u.kernel.library;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuKernelGetName(const char **out, CUkernel handle) {
  ENTER(cuKernelGetName);
  object *kernel;
  TRY(find_object(&kernel, FAKE_KERNEL, handle));
  *out = kernel->u.kernel.name;
  return leave(CUDA_SUCCESS);
}

/* The kernel is loaded into the current context for this. */
CUresult CUDAAPI cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset, size_t *size) {
  ENTER(cuKernelGetParamInfo);
  object *kernel, *context;
  TRY(find_object(&kernel, FAKE_KERNEL, handle));
  TRY(current_context(&context));
  const struct signature *signature = kernel->u.kernel.signature;
  if (!offset || index >= signature->count)
    return leave(CUDA_ERROR_INVALID_VALUE);
  *offset = signature->params[index].offset;
  if (size)
    *size = signature->params[index].size;
  return leave(CUDA_SUCCESS);
}

CUresult take_attributes(fake_launch *launch, const CUlaunchConfig *config) {
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const CUlaunchAttributeValue *value = &config->attrs[i].value;
    switch (config->attrs[i].id) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      launch->cluster[0] = value->clusterDim.x;
      launch->cluster[1] = value->clusterDim.y;
      launch->cluster[2] = value->clusterDim.z;
      for (int d = 0; d < 3; d++)
        if (!launch->cluster[d] || launch->grid[d] % launch->cluster[d])
          return CUDA_ERROR_INVALID_CLUSTER_SIZE;
      if ((uint64_t)launch->cluster[0] * launch->cluster[1] * launch->cluster[2] > 8)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
      break;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      launch->cooperative = (uint32_t)value->cooperative;
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      launch->programmatic = (uint32_t)value->programmaticStreamSerializationAllowed;
      break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      launch->priority = value->priority;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

/* A block that is too small passes, as it does with the driver; one that is too large does not. */
CUresult take_arguments(fake_launch *launch, const struct signature *signature, void **params, void **extra) {
  size_t end = signature->end;
  if (!end && !extra)
    return CUDA_SUCCESS;
  if (end > sizeof launch->args || (!params && !extra))
    return CUDA_ERROR_INVALID_VALUE;
  if (params) {
    for (size_t i = 0; i < signature->count; i++)
      memcpy(launch->args + signature->params[i].offset, params[i], signature->params[i].size);
    launch->args_size = end;
    return CUDA_SUCCESS;
  }
  const void *block = NULL;
  size_t size = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      block = extra[1];
    else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
      size = *(size_t *)extra[1];
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (size > end)
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (end && (!size || !block))
    return CUDA_ERROR_INVALID_VALUE;
  if (size)
    memcpy(launch->args, block, size);
  launch->args_size = size;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
  ENTER(cuLaunchKernelEx);
  object *kernel, *stream, *context;
  TRY(find_object(&kernel, FAKE_KERNEL, function));
  TRY(find_stream(&stream, &context, config->hStream));
  fake_launch *launch = &state.last_launch;
  state.launched = false;
  memset(launch, 0, offsetof(fake_launch, args)); /* large enough to matter: the arguments stay */
  launch->kernel = kernel;
  launch->stream = config->hStream;
  launch->context = context;
  memcpy(launch->grid, &config->gridDimX, sizeof launch->grid);
  memcpy(launch->block, &config->blockDimX, sizeof launch->block);
  launch->shared_bytes = config->sharedMemBytes;
  for (int d = 0; d < 3; d++)
    if (!launch->grid[d] || !launch->block[d])
      return leave(CUDA_ERROR_INVALID_VALUE);
  if ((uint64_t)launch->block[0] * launch->block[1] * launch->block[2] > 1024 || launch->grid[1] > 65535 ||
      launch->grid[2] > 65535 || launch->shared_bytes > 232448)
    return leave(CUDA_ERROR_INVALID_VALUE);
  TRY(take_attributes(launch, config));
  TRY(take_arguments(launch, kernel->u.kernel.signature, params, extra));
  object *captured;
  TRY(find_capture(&captured, stream, config->hStream));
  if (captured)
    return leave(capture_launch(captured, config, kernel, launch));
  state.launched = true;
  return leave(CUDA_SUCCESS);
}
