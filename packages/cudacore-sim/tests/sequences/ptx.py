# SPDX-License-Identifier: Apache-2.0
"""PTX that the sequences load."""

from __future__ import annotations

HEADER = """
.version 8.0
.target sm_90
.address_size 64
"""


def entry(name: str, parameters: str, body: str) -> str:
    """Return the PTX of a kernel. In `body`, u64 parameters are in %rd1 to %rd3, and u32 parameters in %r1 to %r7."""
    given = [parameter.split() for parameter in parameters.split(", ")]
    used = {"u64": 0, "u32": 0}
    loads = ""
    for kind, parameter in given:
        used[kind] += 1
        register = f"%{'rd' if kind == 'u64' else 'r'}{used[kind]}"
        loads += f"  ld.param.{kind} {register}, [{parameter}];\n"
    declared = ", ".join(f".param .{kind} {parameter}" for kind, parameter in given)
    return (
        f".visible .entry {name}({declared})\n{{\n  .reg .b64 %rd<4>; .reg .b32 %r<8>;\n{loads}"
        f"  {body.strip()}\n  ret;\n}}\n"
    )


SET_CONDITION = """
  { .param .b64 p0; .param .b32 p1;
    st.param.b64 [p0], %rd1; st.param.b32 [p1], %r1;
    call.uni cudaGraphSetConditional, (p0, p1); }
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

.visible .entry count()
{
  .reg .b32 %r<2>;
  atom.global.add.u32 %r1, [counter], 1;
  ret;
}
.visible .entry parameters(.param .u64 a, .param .u8 b, .param .align 8 .b8 c[24], .param .f32 d, .param .u16 e)
{ ret; }
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
    + entry("store", "u64 where, u32 value", "st.global.u32 [%rd1], %r1;")
    + entry("load", "u64 where, u64 result", "ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd2], %r1;")
    + entry(
        "increase",
        "u64 where, u32 value",
        """
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  mul.wide.u32 %rd2, %r5, 4;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.u32 %r6, [%rd1];
  add.u32 %r6, %r6, %r1;
  st.global.u32 [%rd1], %r6;
""",
    )
    + entry(
        "where_am_i",
        "u64 out",
        "\n  ".join(
            f"mov.u32 %r1, %{register}; st.global.u32 [%rd1+{4 * place}], %r1;"
            for place, register in enumerate(
                "nctaid.x nctaid.y nctaid.z ntid.x ntid.y ntid.z nclusterid.x cluster_nctaid.x "
                "dynamic_smem_size".split()
            )
        ),
    )
    + entry(
        "scale",
        "u64 out",
        """
  ld.const.u32 %r1, [factor];
  ld.global.u32 %r2, [counter];
  mul.lo.u32 %r1, %r1, %r2;
  st.global.u32 [%rd1], %r1;
""",
    )
    + entry(
        "static_shared",
        "u64 out",
        """
  .shared .align 4 .b8 area[100];
  st.shared.u32 [area+96], 5;
  ld.shared.u32 %r1, [area+96];
  st.global.u32 [%rd1], %r1;
""",
    )
    + entry(
        "dynamic_shared",
        "u64 out",
        "st.shared.u32 [dynamic], 6; ld.shared.u32 %r1, [dynamic]; st.global.u32 [%rd1], %r1;",
    )
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
"""
    + entry("set_from", "u64 handle, u64 where", "ld.global.u32 %r1, [%rd2];" + SET_CONDITION)
    + entry(
        "count_down",
        "u64 handle, u64 where",
        "ld.global.u32 %r1, [%rd2]; sub.u32 %r1, %r1, 1; st.global.u32 [%rd2], %r1;" + SET_CONDITION,
    )
).encode()
