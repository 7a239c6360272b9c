# SPDX-License-Identifier: Apache-2.0
"""Programs in several languages that the tests compile, link and run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np

from cudacore_compile import Program, ProgramOptions
from cudacore_handles import Device, LaunchConfig, LegacyPinnedMemoryResource, ObjectCode, launch

Python = Callable[..., subprocess.CompletedProcess[str]]  # the fixtures `python` and `process`
Run = Callable[..., tuple[int, str, str]]  # the fixture `run`
Build = Callable[..., Any]  # the fixture `build`

LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-"
    "v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
HEAD = f"""
target triple = "nvptx64-nvidia-cuda"
target datalayout = "{LAYOUT}"
"""
VERSION = """
!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0}
"""

# C++: a kernel that calls a function of another program.
KERNEL = """
extern "C" __device__ float f(float x);
extern "C" __global__ void map(float *p, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = f(p[i]);
}
"""
FUNCTION = 'extern "C" __device__ float f(float x) { return 2.0f * x + 1.0f; }'
# The kernel and the function as one program.
WHOLE = KERNEL.replace('extern "C" __device__ float f(float x);', FUNCTION)
# The same function as NVVM IR: text that all versions of NVVM accept.
FUNCTION_IR = f"""{HEAD}
define float @f(float %x) {{
  %y = fmul float %x, 2.0
  %z = fadd float %y, 1.0
  ret float %z
}}
{VERSION}"""
# A function that needs libdevice.
SINE_IR = f"""{HEAD}
declare float @__nv_sinf(float)
define float @f(float %x) {{
  %y = call float @__nv_sinf(float %x)
  ret float %y
}}
{VERSION}"""
# A kernel in NVVM IR: link-time optimization removes kernels that are not in @llvm.used.
KERNEL_IR = f"""{HEAD}
declare float @f(float)
define void @map(float addrspace(1)* %p) {{
  %x = load float, float addrspace(1)* %p
  %y = call float @f(float %x)
  store float %y, float addrspace(1)* %p
  ret void
}}
@llvm.used = appending global [1 x i8*] [i8* bitcast (void (float addrspace(1)*)* @map to i8*)], section "llvm.metadata"
!nvvm.annotations = !{{!1}}
!1 = !{{void (float addrspace(1)*)* @map, !"kernel", i32 1}}
{VERSION}"""
TEMPLATES = """
template <typename T, int N = 1> __global__ void f(T *p) { *p = N; }
namespace n {
__device__ int variable;
__constant__ float constant;
}
"""
# Takes many seconds to compile.
SLOW = "".join(
    ["template <int N> __device__ float f(float x) { return f<N - 1>(x) * x + __sinf(x) * N; }\n"]
    + ["template <> __device__ float f<0>(float x) { return x; }\n"]
    + [f"__global__ void k{n}(float *p) {{ *p = f<{n % 150 + 1}>(*p); }}\n" for n in range(400)]
)


def build_part(source: str, target: str, code_type: str = "c++", arch: str = "sm_90", **options: Any) -> ObjectCode:
    """Compile a part of a program, to be linked with others."""
    if target != "ltoir" and code_type == "c++":
        options["relocatable_device_code"] = True
    return Program(source, code_type, ProgramOptions(arch=arch, **options)).compile(target)


def run_map(device: Device, code: ObjectCode, values: Any, *, count: bool = True) -> np.ndarray[Any, Any]:
    """Return the results of the kernel ``map`` for some floats. With `count`, the kernel also gets their number."""
    stream, buffer = device.create_stream(), LegacyPinnedMemoryResource().allocate(4 * len(values))
    numbers = np.frombuffer(buffer.__buffer__(), np.float32)
    numbers[:] = values
    config = LaunchConfig(grid=(len(values) + 31) // 32, block=32 if count else 1)
    launch(stream, config, code.get_kernel("map"), buffer, *([len(values)] if count else []))
    stream.sync()
    return numbers.copy()
