# SPDX-License-Identifier: Apache-2.0
"""PTX that the sequences load."""

from __future__ import annotations

HEADER = """
.version 8.0
.target sm_90
.address_size 64
"""

KERNELS = (
    HEADER
    + """
.visible .global .align 4 .u32 counter = 7;
.visible .global .align 8 .b8 table[40];
.visible .const .align 4 .u32 factor = 3;
.extern .shared .align 16 .b8 dynamic[];
.extern .func (.param .b32 result) vprintf (.param .b64 text, .param .b64 values);
.extern .func __assertfail (.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function,
                            .param .b64 size);
.global .align 1 .b8 format[7] = {98, 108, 111, 99, 107, 10, 0};
.global .align 1 .b8 text[6] = {102, 97, 108, 115, 101, 0};

.visible .entry nothing() { ret; }

.visible .entry store(.param .u64 where, .param .u32 value)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [where];
  ld.param.u32 %r1, [value];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry load(.param .u64 where, .param .u64 result)
{
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [where];
  ld.param.u64 %rd2, [result];
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd2], %r1;
  ret;
}
.visible .entry increase(.param .u64 where, .param .u32 value)
{
  .reg .b64 %rd<3>; .reg .b32 %r<7>;
  ld.param.u64 %rd1, [where];
  ld.param.u32 %r1, [value];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  mul.wide.u32 %rd2, %r5, 4;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.u32 %r6, [%rd1];
  add.u32 %r6, %r6, %r1;
  st.global.u32 [%rd1], %r6;
  ret;
}
.visible .entry where_am_i(.param .u64 out)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %nctaid.x; st.global.u32 [%rd1], %r1;
  mov.u32 %r1, %nctaid.y; st.global.u32 [%rd1+4], %r1;
  mov.u32 %r1, %nctaid.z; st.global.u32 [%rd1+8], %r1;
  mov.u32 %r1, %ntid.x; st.global.u32 [%rd1+12], %r1;
  mov.u32 %r1, %ntid.y; st.global.u32 [%rd1+16], %r1;
  mov.u32 %r1, %ntid.z; st.global.u32 [%rd1+20], %r1;
  mov.u32 %r1, %nclusterid.x; st.global.u32 [%rd1+24], %r1;
  mov.u32 %r1, %cluster_nctaid.x; st.global.u32 [%rd1+28], %r1;
  mov.u32 %r1, %dynamic_smem_size; st.global.u32 [%rd1+32], %r1;
  ret;
}
.visible .entry count()
{
  .reg .b32 %r<2>;
  atom.global.add.u32 %r1, [counter], 1;
  ret;
}
.visible .entry scale(.param .u64 out)
{
  .reg .b64 %rd<2>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [out];
  ld.const.u32 %r1, [factor];
  ld.global.u32 %r2, [counter];
  mul.lo.u32 %r1, %r1, %r2;
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry parameters(.param .u64 a, .param .u8 b, .param .align 8 .b8 c[24], .param .f32 d, .param .u16 e)
{ ret; }
.visible .entry static_shared(.param .u64 out)
{
  .shared .align 4 .b8 area[100];
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out];
  st.shared.u32 [area+96], 5;
  ld.shared.u32 %r1, [area+96];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry dynamic_shared(.param .u64 out)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out];
  st.shared.u32 [dynamic], 6;
  ld.shared.u32 %r1, [dynamic];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry at_most_64() .maxntid 64, 1, 1 { ret; }
.visible .entry just_96() .reqntid 96, 1, 1 { ret; }
.visible .entry cluster_of_2() .explicitcluster .reqnctapercluster 2, 1, 1 { ret; }
.visible .entry any_cluster() .explicitcluster { ret; }
.visible .entry stop() { trap; }
.visible .entry print()
{
  .reg .b64 %rd<3>;
  mov.u64 %rd1, format;
  cvta.global.u64 %rd2, %rd1;
  { .param .b64 p0; .param .b64 p1; .param .b32 result;
    st.param.b64 [p0], %rd2; st.param.b64 [p1], 0;
    call.uni (result), vprintf, (p0, p1); }
  ret;
}
.visible .entry fail_assertion()
{
  .reg .b64 %rd<3>;
  mov.u64 %rd1, text;
  cvta.global.u64 %rd2, %rd1;
  { .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
    st.param.b64 [p0], %rd2; st.param.b64 [p1], %rd2; st.param.b32 [p2], 1; st.param.b64 [p3], %rd2;
    st.param.b64 [p4], 1;
    call.uni __assertfail, (p0, p1, p2, p3, p4); }
  ret;
}
"""
).encode()

EMPTY_MODULE = HEADER.encode()
SYNTAX_ERROR = (HEADER + ".visible .entry broken() { this is no instruction; }").encode()
UNKNOWN_REGISTER = (HEADER + ".visible .entry broken() { mov.u32 %r1, 0; ret; }").encode()
UNRESOLVED = (HEADER + ".extern .func nowhere(); .visible .entry broken() { call.uni nowhere; ret; }").encode()
TWICE = (HEADER + ".visible .entry same() { ret; } .visible .entry same() { ret; }").encode()
NO_VERSION = b".target sm_90\n.address_size 64\n.visible .entry k() { ret; }"
NO_TARGET = b".version 8.0\n.address_size 64\n.visible .entry k() { ret; }"
TOO_NEW = b".version 99.9\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }"
OTHER_DEVICE = b".version 8.8\n.target sm_120\n.address_size 64\n.visible .entry k() { ret; }"
OLD_DEVICE = b".version 6.0\n.target sm_52\n.address_size 64\n.visible .entry k() { ret; }"
JUST_THIS_DEVICE = b".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }"
OTHER_FEATURES = b".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k() { ret; }"
TOO_MUCH_SHARED = (
    HEADER + ".visible .entry k() { .shared .align 4 .b8 s[65536]; st.shared.u32 [s], 0; ret; }"
).encode()

CONDITIONS = (
    HEADER.replace(".version 8.0", ".version 8.3")
    + """
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);

.visible .entry set_from(.param .u64 handle, .param .u64 where)
{
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [handle];
  ld.param.u64 %rd2, [where];
  ld.global.u32 %r1, [%rd2];
  { .param .b64 p0; .param .b32 p1;
    st.param.b64 [p0], %rd1; st.param.b32 [p1], %r1;
    call.uni cudaGraphSetConditional, (p0, p1); }
  ret;
}
.visible .entry count_down(.param .u64 handle, .param .u64 where)
{
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [handle];
  ld.param.u64 %rd2, [where];
  ld.global.u32 %r1, [%rd2];
  sub.u32 %r1, %r1, 1;
  st.global.u32 [%rd2], %r1;
  { .param .b64 p0; .param .b32 p1;
    st.param.b64 [p0], %rd1; st.param.b32 [p1], %r1;
    call.uni cudaGraphSetConditional, (p0, p1); }
  ret;
}
"""
).encode()
