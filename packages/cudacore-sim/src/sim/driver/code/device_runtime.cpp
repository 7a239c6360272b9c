/* SPDX-License-Identifier: Apache-2.0 */
/* The barrier of a cooperative grid, in PTX, because libcudadevrt.a has it only in machine code. */
#include "sim/driver/code/image.h"

namespace sim {
namespace {

/* Blocks increment a counter in the workspace, and wait until it is the next multiple of the number of blocks. */
constexpr char barrier[] = R"(
{
  .reg .pred %p<2>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<5>;
  mov.u32 %r0, %envreg1;
  mov.u32 %r1, %envreg2;
  mov.b64 %rd0, {%r1, %r0};
  ld.param.b64 %rd1, [handle];
  setp.ne.u64 %p0, %rd1, 1;
  mov.u32 %r2, 1; // cudaErrorInvalidValue
  @%p0 bra $end;
  setp.eq.u64 %p0, %rd0, 0;
  @%p0 trap; // no cooperative launch
  barrier.sync 0;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %tid.y;
  mov.u32 %r5, %tid.z;
  or.b32 %r3, %r3, %r4;
  or.b32 %r3, %r3, %r5;
  setp.ne.u32 %p0, %r3, 0;
  @%p0 bra $all;
  mov.u32 %r6, %nctaid.x;
  mov.u32 %r7, %nctaid.y;
  mul.lo.u32 %r6, %r6, %r7;
  mov.u32 %r7, %nctaid.z;
  mul.lo.u32 %r6, %r6, %r7;
  atom.add.acq_rel.gpu.u32 %r8, [%rd0 + 8], 1;
  div.u32 %r9, %r8, %r6;
  mad.lo.u32 %r9, %r9, %r6, %r6;
$wait:
  ld.acquire.gpu.u32 %r10, [%rd0 + 8];
  sub.u32 %r11, %r10, %r9;
  setp.lt.s32 %p1, %r11, 0;
  @%p1 bra $wait;
$all:
  barrier.sync 0;
  mov.u32 %r2, 0;
$end:
  st.param.b32 [result], %r2;
  ret;
}
)";

constexpr char handle[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
  .reg .pred %p;
  .reg .b32 %r;
  .reg .b64 %rd;
  ld.param.b32 %r, [scope];
  setp.eq.u32 %p, %r, 1; // cudaCGScopeGrid; other scopes do not exist here
  selp.u64 %rd, 1, 0, %p;
  st.param.b64 [result], %rd;
  ret;
}
)";

} // namespace

bool is_device_runtime(const std::string &name) { return name.find("libcudadevrt") != std::string::npos; }

PtxText device_runtime() {
  const std::string head = ".visible .func (.param .b32 result) ", formals = "(.param .b64 handle, .param .b32 flags)";
  return {"libcudadevrt",
          handle + head + "cudaCGSynchronize" + formals + barrier + head + "cudaCGSynchronizeGrid" + formals + barrier};
}

} // namespace sim
