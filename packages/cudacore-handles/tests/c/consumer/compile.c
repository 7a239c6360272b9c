/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C program that compiles two sources to LTO-IR, links them, loads the result, launches its kernel and checks what
 * the kernel wrote. The paths of NVRTC and nvJitLink may be given; otherwise the dynamic linker finds them.
 */
#include <cudacore/cudacore.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000 };

static const char kernel_source[] = "extern __device__ float f(float x);\n"
                                    "extern \"C\" __global__ void map(float *p, unsigned n) {\n"
                                    "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                    "  if (i < n) p[i] = f(p[i]);\n"
                                    "}\n";
static const char function_source[] = "__device__ float f(float x) { return 2.0f * x + 1.0f; }\n";

static int fail(const char *what, int status) {
  const cch_error *error = cch_error_last();
  fprintf(stderr, "%s: %s (%s: %s)\n", what, cch_error_name(status), error->operation, error->message);
  return status;
}

/* Compiles a source to LTO-IR. The caller must free the result. */
static int compile(void **out, size_t *size, cch_nvrtc *nvrtc, const char *source, const char *name, const char *arch) {
  const char *options[2];
  cch_nvrtc_program *program = NULL;
  int status;
  options[0] = arch;
  options[1] = "-dlto";
  status = cch_nvrtc_program_create(&program, nvrtc, source, name, 0, NULL, NULL);
  if (status == 0)
    status = cch_nvrtc_program_compile(program, 2, options);
  if (status == 0)
    status = cch_nvrtc_program_get(NULL, size, program, CCH_NVRTC_LTOIR);
  if (status == 0) {
    *out = malloc(*size);
    status = cch_nvrtc_program_get(*out, size, program, CCH_NVRTC_LTOIR);
  }
  cch_nvrtc_program_unref(program);
  return status;
}

/* Links two pieces of LTO-IR to PTX. */
static int link_to_ptx(void **out, size_t *size, cch_nvjitlink *nvjitlink, void *const *code, const size_t *sizes,
                       const char *arch) {
  const char *options[3];
  cch_nvjitlink_linker *linker = NULL;
  int status, i;
  options[0] = arch;
  options[1] = "-lto";
  options[2] = "-ptx";
  status = cch_nvjitlink_linker_create(&linker, nvjitlink, 3, options);
  for (i = 0; i < 2 && status == 0; i++)
    status = cch_nvjitlink_linker_add(linker, CCH_NVJITLINK_LTOIR, code[i], sizes[i], NULL);
  if (status == 0)
    status = cch_nvjitlink_linker_link(linker);
  if (status == 0)
    status = cch_nvjitlink_linker_get(NULL, size, linker, CCH_NVJITLINK_LINKED_PTX);
  if (status == 0) {
    *out = malloc(*size);
    status = cch_nvjitlink_linker_get(*out, size, linker, CCH_NVJITLINK_LINKED_PTX);
  }
  cch_nvjitlink_linker_unref(linker);
  return status;
}

static int run(const void *ptx, size_t size) {
  cch_context *context = NULL;
  cch_stream *stream = NULL;
  cch_library *library = NULL;
  cch_kernel *kernel = NULL;
  cch_deviceptr *memory = NULL;
  cch_launch_config config;
  struct {
    CUdeviceptr p;
    unsigned n, padding;
  } arguments;
  int status, i;

  memset(&config, 0, sizeof config);
  config.size = sizeof config;
  config.grid[0] = (COUNT + 127) / 128;
  config.block[0] = 128;
  config.grid[1] = config.grid[2] = config.block[1] = config.block[2] = 1;
  status = cch_context_primary(&context, 0);
  if (status == 0)
    status = cch_stream_create(&stream, context, CCH_STREAM_NON_BLOCKING, 0);
  if (status == 0)
    status = cch_library_load(&library, ptx, size);
  if (status == 0)
    status = cch_kernel_get(&kernel, library, "map");
  if (status == 0)
    status = cch_deviceptr_alloc_host(&memory, context, COUNT * sizeof(float), 0);
  if (status == 0) {
    float *numbers = (float *)(uintptr_t)cch_deviceptr_raw(memory);
    for (i = 0; i < COUNT; i++)
      numbers[i] = (float)i;
    arguments.p = cch_deviceptr_raw(memory);
    arguments.n = COUNT;
    status = cch_launch(stream, &config, kernel, &arguments, sizeof arguments.p + sizeof arguments.n);
    if (status == 0)
      status = cch_stream_synchronize(stream);
    for (i = 0; i < COUNT && status == 0; i++)
      if (numbers[i] != 2.0f * (float)i + 1.0f)
        status = fprintf(stderr, "number %d is %g\n", i, (double)numbers[i]);
  }
  cch_context_unref(context);
  cch_stream_unref(stream);
  cch_library_unref(library);
  cch_kernel_unref(kernel);
  cch_deviceptr_unref(memory);
  return status;
}

int main(int argc, char **argv) {
  cch_nvrtc *nvrtc;
  cch_nvjitlink *nvjitlink;
  char arch[32];
  void *code[2] = {NULL, NULL}, *ptx = NULL;
  size_t sizes[2], size = 0;
  int status, major = 0, minor = 0, i;

  /* The attributes are CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR. */
  if ((status = cch_device_attribute(&major, 75, 0)) != 0 || (status = cch_device_attribute(&minor, 76, 0)) != 0)
    return fail("there is no device", status) != 0;
  sprintf(arch, "-arch=sm_%d%d", major, minor);
  if ((status = cch_nvrtc_load(&nvrtc, argc > 1 ? argv[1] : NULL)) != 0 ||
      (status = cch_nvjitlink_load(&nvjitlink, argc > 2 ? argv[2] : NULL)) != 0)
    return fail("there is no compiler", status) != 0;
  status = compile(&code[0], &sizes[0], nvrtc, kernel_source, "kernel.cu", arch);
  if (status == 0)
    status = compile(&code[1], &sizes[1], nvrtc, function_source, "function.cu", arch);
  if (status == 0)
    status = link_to_ptx(&ptx, &size, nvjitlink, code, sizes, arch);
  if (status == 0)
    status = run(ptx, size);
  if (status != 0)
    fail("cannot run what was linked", status);
  else
    printf("right\n");
  free(code[0]);
  free(code[1]);
  free(ptx);
  for (i = 0; i < CCH_KIND_COUNT; i++)
    if (cch_live_count(i) != 0)
      status = fprintf(stderr, "%d boxes of kind %d are alive\n", (int)cch_live_count(i), i);
  return status != 0;
}
