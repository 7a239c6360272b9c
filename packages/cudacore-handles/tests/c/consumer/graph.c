/* SPDX-License-Identifier: Apache-2.0 */
/* A C program that uses only the installed headers: builds a graph, runs it, changes it and runs it again. */
#include <cudacore/cudacore.h>

#include <stdio.h>
#include <string.h>

enum { COUNT = 256 };

static const char ptx[] = ".version 7.0\n"
                          ".target sm_50\n"
                          ".address_size 64\n"
                          ".visible .entry add(.param .u64 where, .param .u32 value)\n"
                          "{\n"
                          "  .reg .b32 %r<4>;\n"
                          "  .reg .b64 %rd<4>;\n"
                          "  ld.param.u64 %rd1, [where];\n"
                          "  ld.param.u32 %r1, [value];\n"
                          "  mov.u32 %r2, %tid.x;\n"
                          "  mul.wide.u32 %rd2, %r2, 4;\n"
                          "  add.s64 %rd3, %rd1, %rd2;\n"
                          "  ld.global.u32 %r3, [%rd3];\n"
                          "  add.s32 %r3, %r3, %r1;\n"
                          "  st.global.u32 [%rd3], %r3;\n"
                          "  ret;\n"
                          "}\n";

/* The arguments of the kernel. The fields have the offsets of its parameters. */
typedef struct arguments {
  CUdeviceptr where;
  uint32_t value;
} arguments;
enum { ARGUMENTS_SIZE = offsetof(arguments, value) + sizeof(uint32_t) };

static int calls;
static void count_calls(void *data) { calls += *(int *)data; }

/* Fills memory, adds to it with a kernel, copies it to the host and calls a function, in this order. */
static int build(cch_graph_node **nodes, cch_graph *graph, cch_context *context, cch_kernel *kernel, cch_bundle *used,
                 CUdeviceptr device, CUdeviceptr host) {
  static int one = 1;
  static const cch_launch_config config = {sizeof(cch_launch_config), 0, {1, 1, 1}, {COUNT, 1, 1}, {0, 0, 0}, 0, 0};
  static const uint32_t before[] = {0, 1, 2};
  arguments args = {0, 2};
  cch_memset_node fill;
  cch_kernel_node add;
  cch_memcpy_node copy;
  cch_host_node call;
  cch_node_spec specs[4];
  const void *params[4];
  static const int types[] = {CCH_NODE_MEMSET, CCH_NODE_KERNEL, CCH_NODE_MEMCPY, CCH_NODE_HOST};
  size_t i;
  args.where = device;
  memset(&fill, 0, sizeof fill);
  fill.size = sizeof fill;
  fill.dst = device;
  fill.value = 40;
  fill.element_size = 4;
  fill.width = COUNT;
  memset(&add, 0, sizeof add);
  add.size = sizeof add;
  add.config = &config;
  add.kernel = kernel;
  add.args = &args;
  add.args_size = ARGUMENTS_SIZE;
  memset(&copy, 0, sizeof copy);
  copy.size = sizeof copy;
  copy.dst = host;
  copy.src = device;
  copy.width = COUNT * sizeof(uint32_t);
  memset(&call, 0, sizeof call);
  call.size = sizeof call;
  call.function = count_calls;
  call.data = &one;
  params[0] = &fill;
  params[1] = &add;
  params[2] = &copy;
  params[3] = &call;
  memset(specs, 0, sizeof specs);
  for (i = 0; i < 4; i++) {
    specs[i].size = sizeof specs[i];
    specs[i].type = types[i];
    specs[i].params = params[i];
    specs[i].bundle = used;
    specs[i].context = context;
    specs[i].earlier = &before[i > 0 ? i - 1 : 0];
    specs[i].earlier_count = i > 0;
  }
  return cch_graph_add_batch(nodes, graph, specs, 4, NULL);
}

/* Makes the kernel add another value from now on. */
static int change(cch_graph_exec *exec, cch_graph_node *node, cch_context *context, uint32_t value) {
  cch_launch_config config;
  cch_kernel_node params;
  arguments args;
  cch_bundle *used = cch_graph_node_bundle(node);
  int status;
  memset(&config, 0, sizeof config);
  config.size = sizeof config;
  memset(&params, 0, sizeof params);
  params.size = sizeof params;
  params.config = &config;
  status = cch_graph_node_get(&params, node);
  if (status == 0) {
    memcpy(&args, params.args, ARGUMENTS_SIZE);
    args.value = value;
    params.args = &args;
    status = cch_graph_exec_set(exec, node, &params, used, context);
    cch_kernel_unref(params.kernel);
  }
  cch_bundle_unref(used);
  return status;
}

static int run(cch_graph_exec *exec, cch_stream *stream, CUdeviceptr host, uint32_t expected) {
  const uint32_t *numbers = (const uint32_t *)(uintptr_t)host;
  int status = cch_graph_launch(exec, stream), i;
  if (status == 0)
    status = cch_stream_synchronize(stream);
  for (i = 0; status == 0 && i < COUNT; i++)
    if (numbers[i] != expected) {
      fprintf(stderr, "number %d is %u and not %u\n", i, numbers[i], expected);
      return CCH_EINVAL;
    }
  return status;
}

int main(void) {
  cch_context *context = NULL;
  cch_stream *stream = NULL;
  cch_deviceptr *device = NULL, *host = NULL;
  cch_library *library = NULL;
  cch_kernel *kernel = NULL;
  cch_bundle *used = NULL;
  cch_graph *graph = NULL;
  cch_graph_node *nodes[4] = {NULL, NULL, NULL, NULL};
  cch_graph_exec *exec = NULL;
  CUdeviceptr raw_host = 0;
  int status, i;

  /* Graphs are instantiated in the context that is current. */
  if ((status = cch_context_primary(&context, 0)) == 0 && (status = cch_context_set_current(context)) == 0 &&
      (status = cch_stream_create(&stream, context, CCH_STREAM_NON_BLOCKING, 0)) == 0 &&
      (status = cch_deviceptr_alloc(&device, context, COUNT * sizeof(uint32_t))) == 0 &&
      (status = cch_deviceptr_alloc_host(&host, context, COUNT * sizeof(uint32_t), 0)) == 0 &&
      (status = cch_library_load(&library, ptx, sizeof ptx)) == 0 &&
      (status = cch_kernel_get(&kernel, library, "add")) == 0 && (status = cch_bundle_create(&used, 2)) == 0 &&
      (status = cch_bundle_add(used, device)) == 0 && (status = cch_bundle_add(used, host)) == 0 &&
      (status = cch_graph_create(&graph)) == 0 &&
      (status = build(nodes, graph, context, kernel, used, cch_deviceptr_raw(device), cch_deviceptr_raw(host))) == 0)
    status = cch_graph_instantiate(&exec, graph, NULL);
  raw_host = cch_deviceptr_raw(host);
  /* The graph keeps its kernel and, through the bundle, its memory, so the program can release them. */
  cch_deviceptr_unref(device);
  cch_deviceptr_unref(host);
  cch_kernel_unref(kernel);
  cch_library_unref(library);
  cch_bundle_unref(used);
  if (status == 0)
    status = run(exec, stream, raw_host, 42);
  if (status == 0)
    status = change(exec, nodes[1], context, 60);
  for (i = 0; i < 4; i++)
    cch_graph_node_unref(nodes[i]);
  cch_graph_unref(graph);
  /* The executable graph no longer needs the graph. */
  if (status == 0)
    status = run(exec, stream, raw_host, 100);
  if (status != 0) {
    const cch_error *error = cch_error_last();
    fprintf(stderr, "%s: %s: %s\n", error->operation, cch_error_name(status), error->message);
  }
  cch_graph_exec_unref(exec);
  cch_stream_unref(stream);
  cch_context_unref(context);
  cch_reclaim_drain(); /* destroys objects that CUDA released on its own thread */
  if (status == 0 && calls == 2)
    puts("right");
  return status != 0 || calls != 2;
}
