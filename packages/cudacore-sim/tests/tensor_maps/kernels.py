# SPDX-License-Identifier: Apache-2.0
"""PTX of the kernels: each fills shared memory, makes one copy by a tensor map in one thread, and writes a result."""

from __future__ import annotations

TILE = 40960
_PARAMETERS = (
    ".param .align 64 .b8 map[128], .param .align 4 .b8 at[20], .param .align 4 .b8 off[12], .param .u32 bytes, "
    ".param .u32 size, .param .u64 from, .param .u64 to, .param .u64 status, .param .u32 mask"
)
# %r10 to %r14 are the coordinates, %h0 to %h2 the offsets, %rd1 the tensor map, %r4 the tile, %r5 the mbarrier.
_START = f"""
  .shared .align 1024 .b8 tile[{TILE}];
  .shared .align 16 .b64 bar;
  .reg .b64 %rd<40>; .reg .b32 %r<40>; .reg .pred %p<10>; .reg .b16 %h<8>;
  mov.u32 %r1, %tid.x;
  ld.param.u32 %r2, [bytes]; ld.param.u32 %r3, [size]; ld.param.u32 %r28, [mask]; cvt.u16.u32 %h4, %r28;
  ld.param.u64 %rd2, [from]; ld.param.u64 %rd3, [to]; ld.param.u64 %rd4, [status];
  ld.param.s32 %r10, [at]; ld.param.s32 %r11, [at+4]; ld.param.s32 %r12, [at+8]; ld.param.s32 %r13, [at+12];
  ld.param.s32 %r14, [at+16];
  ld.param.u32 %r20, [off]; ld.param.u32 %r21, [off+4]; ld.param.u32 %r22, [off+8];
  cvt.u16.u32 %h0, %r20; cvt.u16.u32 %h1, %r21; cvt.u16.u32 %h2, %r22;
  mov.u32 %r30, %ctaid.x; mul.lo.u32 %r31, %r30, %r3; cvt.u64.u32 %rd30, %r31; add.u64 %rd3, %rd3, %rd30;
  mul.wide.u32 %rd31, %r30, 16; add.u64 %rd4, %rd4, %rd31;
  mov.b64 %rd10, map; cvta.param.u64 %rd1, %rd10;
  mov.u32 %r4, tile; mov.u32 %r5, bar; shl.b32 %r6, %r1, 2;
FILL: setp.ge.u32 %p1, %r6, %r3; @%p1 bra FILLED;
  cvt.u64.u32 %rd5, %r6; add.u64 %rd6, %rd2, %rd5; ld.global.u32 %r7, [%rd6]; add.u32 %r8, %r4, %r6;
  st.shared.u32 [%r8], %r7; add.u32 %r6, %r6, 512; bra FILL;
FILLED:
  fence.proxy.async.shared::cta;
  bar.sync 0;
  setp.ne.u32 %p2, %r1, 0;
"""
_BARRIER = """
  mbarrier.init.shared::cta.b64 [%r5], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], %r2;
"""
_WAIT = """
  mov.u32 %r16, 0;
POLL: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0; @%p3 bra READY;
  add.u32 %r16, %r16, 1; setp.lt.u32 %p5, %r16, 5000; @%p5 bra POLL;
  bra UNREADY;
READY: mov.u32 %r16, 0xFFFFFFFF;
UNREADY: st.global.u32 [%rd4+8], %r16;
"""
_DUMP = """
  bar.sync 0;
  shl.b32 %r6, %r1, 2;
DUMP: setp.ge.u32 %p1, %r6, %r3; @%p1 bra DUMPED;
  cvt.u64.u32 %rd5, %r6; add.u64 %rd6, %rd3, %rd5; add.u32 %r8, %r4, %r6; ld.shared.u32 %r7, [%r8];
  st.global.u32 [%rd6], %r7; add.u32 %r6, %r6, 512; bra DUMP;
DUMPED:
"""
_MEET = "  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"


def text(name: str) -> str:
    """Return the PTX of a kernel, such as ``load_tile_2``."""
    op, mode, number = name.split("_")
    rank = int(number)
    at = f"[%rd1, {{{', '.join(f'%r{10 + i}' for i in range(rank))}}}]"
    offsets = f", {{{', '.join(f'%h{i}' for i in range(rank - 2))}}}" if mode == "im2col" else ""
    way = mode if offsets else "tile"
    load = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.{way}.mbarrier::complete_tx::bytes"
    if op == "multicast":
        body = (
            f"  @%p2 bra BEGUN;\n{_BARRIER}BEGUN:\n{_MEET}  @%p2 bra LOADED;\n"
            "  mov.u32 %r29, %cluster_ctarank; setp.ne.u32 %p6, %r29, %r21; @%p6 bra SENT;\n"
            f"  {load}.multicast::cluster [%r4], {at}, [%r5], %h4;\nSENT:\n"
            "  shr.u32 %r27, %r28, %r29; and.b32 %r27, %r27, 1; setp.eq.u32 %p7, %r27, 0; @%p7 bra LOADED;\n"
            f"{_WAIT}LOADED:\n{_MEET}{_DUMP}"
        )
    elif op == "load":
        move = "  add.u32 %r4, %r4, %r20;\n", "  sub.u32 %r4, %r4, %r20;\n"
        before, after = move if mode == "shifted" else ("", "")
        copy = f"{before}  {load} [%r4], {at}, [%r5]{offsets};\n{after}"
        body = f"  @%p2 bra LOADED;\n{_BARRIER}{copy}{_WAIT}LOADED:\n{_DUMP}"
    else:
        where = "tile" if mode != "im2col" else "im2col_no_offs"
        what = "cp.async.bulk.tensor" if op == "store" else "cp.reduce.async.bulk.tensor"
        of = "" if op == "store" else f".{op}"
        before = "  add.u32 %r4, %r4, %r20;\n" if mode == "shifted" else ""
        body = (
            f"  @%p2 bra STORED;\n{before}  {what}.{rank}d.global.shared::cta{of}.{where}.bulk_group {at}, [%r4];\n"
            "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\nSTORED:\n"
        )
    return (
        f".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry {name}({_PARAMETERS})\n{{\n{_START}{body}\n"
        "  ret;\n}\n"
    )


IMMEDIATE = ("elemtype", "interleave_layout", "swizzle_mode", "fill_mode")
_WIDE = ("global_address", "global_stride")


def replacement(field: str, dimension: int | None, value: int) -> str:
    """Return the PTX of a kernel that changes a field of its tensor map in shared memory, and then copies the map."""
    kind = "b64" if field in _WIDE else "b32"
    place = "" if dimension is None else f" {dimension},"
    register = "%rd20" if kind == "b64" else "%r10"
    new = str(value) if field in IMMEDIATE else register
    return (
        ".version 8.6\n.target sm_90a\n.address_size 64\n"
        ".visible .entry replace(.param .align 64 .b8 map[128], .param .u64 value, .param .u64 to)\n{\n"
        "  .shared .align 128 .b64 copy[16];\n  .reg .b64 %rd<24>; .reg .b32 %r<12>;\n"
        "  ld.param.u64 %rd20, [value]; cvt.u32.u64 %r10, %rd20; ld.param.u64 %rd1, [to]; mov.u32 %r4, copy;\n"
        + "".join(f"  ld.param.u64 %rd2, [map+{at}]; st.shared.u64 [%r4+{at}], %rd2;\n" for at in range(0, 128, 8))
        + f"  tensormap.replace.tile.{field}.shared::cta.b1024.{kind} [%r4],{place} {new};\n"
        "  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r4], 128;\n"
        "  ret;\n}\n"
    )
