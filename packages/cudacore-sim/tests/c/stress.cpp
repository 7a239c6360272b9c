/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads launch, copy, allocate, record, wait, capture and run graphs at the same time. ThreadSanitizer reports
 * data races in the driver. Work that runs before its dependencies gives wrong numbers.
 */
#include "cudacore_sim.h"

#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int threads = 8, rounds = 50;
constexpr unsigned count = 256;

const char ptx[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry increment(.param .u64 where)
{
  .reg .b64 %rd<3>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [where];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  ld.global.u32 %r2, [%rd2];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd2], %r2;
  ret;
}
)";

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    int status = static_cast<int>(call);                                                                               \
    if (status != 0) {                                                                                                 \
      std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, status);                                      \
      std::exit(1);                                                                                                    \
    }                                                                                                                  \
  } while (0)

void CUDA_CB add_one(void *number) { ++*static_cast<unsigned *>(number); }

std::atomic<int> destroyed{0};

void CUDA_CB count_destroyed(void *) { destroyed++; }

/* Does the same work in a graph, whose handles are destroyed while the graph runs. */
void work_in_graph(CUkernel kernel, CUstream first, CUstream second, CUevent event) {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CUuserObject object = nullptr;
  CUdeviceptr memory = 0;
  std::vector<unsigned> numbers(count);
  unsigned callbacks = 0;
  CHECK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemAllocAsync(&memory, count * sizeof(unsigned), first));
  CHECK(cuMemsetD32Async(memory, 5, count, first));
  void *arguments[] = {&memory};
  for (int i = 0; i < 3; i++)
    CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, count, 1, 1, 0, first, arguments, nullptr));
  CHECK(cuEventRecord(event, first));
  CHECK(cuStreamWaitEvent(second, event, 0));
  CHECK(cuMemcpyDtoHAsync(numbers.data(), memory, count * sizeof(unsigned), second));
  CHECK(cuLaunchHostFunc(first, add_one, &callbacks));
  CHECK(cuEventRecord(event, second));
  CHECK(cuStreamWaitEvent(first, event, 0));
  CHECK(cuMemFreeAsync(memory, first));
  CHECK(cuStreamEndCapture(first, &graph));
  CHECK(cuUserObjectCreate(&object, nullptr, count_destroyed, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  CHECK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CHECK(cuGraphInstantiate(&executable, graph, 0));
  CHECK(cuGraphDestroy(graph));
  for (int i = 0; i < 3; i++)
    CHECK(cuGraphLaunch(executable, first));
  CHECK(cuGraphExecDestroy(executable));
  CHECK(cuStreamSynchronize(first));
  for (unsigned number : numbers)
    CHECK(number != 8);
  CHECK(callbacks != 3);
}

void work(CUcontext context, CUlibrary library) {
  CUkernel kernel = nullptr;
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuLibraryGetKernel(&kernel, library, "increment"));
  for (int round = 0; round < rounds; round++) {
    CUstream first = nullptr, second = nullptr;
    CUevent event = nullptr;
    CUdeviceptr memory = 0;
    std::vector<unsigned> numbers(count);
    unsigned callbacks = 0;
    CHECK(cuStreamCreate(&first, round % 2));
    CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, round % 2 == 0 ? 0 : CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAllocAsync(&memory, (count + 1) * sizeof(unsigned), first));
    CHECK(cuMemsetD32Async(memory, 5, count + 1, first));
    CUdeviceptr signal = memory + count * sizeof(unsigned);
    void *arguments[] = {&memory};
    for (int i = 0; i < 3; i++)
      CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, count, 1, 1, 0, first, arguments, nullptr));
    CHECK(cuLaunchHostFunc(first, add_one, &callbacks));
    CHECK(cuEventRecord(event, first));
    CHECK(cuStreamWriteValue32(first, signal, 7, 0));
    CHECK(cuStreamWaitEvent(second, event, 0));
    CHECK(cuStreamWaitValue32(second, signal, 7, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuMemcpyDtoHAsync(numbers.data(), memory, count * sizeof(unsigned), second));
    CHECK(cuMemFreeAsync(memory, second));
    CHECK(cuStreamSynchronize(second));
    for (unsigned number : numbers)
      CHECK(number != 8);
    CHECK(callbacks != 1);
    work_in_graph(kernel, first, second, event);
    CHECK(cuStreamDestroy(first));
    CHECK(cuStreamDestroy(second));
    CHECK(cuEventDestroy(event));
  }
}

} // namespace

int main() {
  CUcontext context = nullptr;
  CUlibrary library = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; i++)
    workers.emplace_back(work, context, library);
  for (std::thread &worker : workers)
    worker.join();
  CHECK(cuLibraryUnload(library));
  CHECK(cuDevicePrimaryCtxRelease(0));
  for (int kind = 0; kind < CUDASIM_KIND_COUNT; kind++)
    CHECK(cudasim_live(kind) != 0);
  CHECK(cudasim_reports() != 0);
  while (destroyed != threads * rounds)
    std::this_thread::yield();
  return 0;
}
