# SPDX-License-Identifier: Apache-2.0
"""The kernel that copies between layouts. Each thread moves a few units of 1 to 16 bytes.

The kernel is PTX for the oldest architecture that drivers for CUDA 12 support, so that only the driver's compiler is
needed. Each variant is loaded at its first use, and kept.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from cudacore_handles._code.kernel import Kernel
from cudacore_handles._code.object_code import ObjectCode
from cudacore_handles._launch.launch import launch
from cudacore_handles._launch.launch_config import LaunchConfig
from cudacore_handles._views.copy_plan import Axis

_THREADS = 256
_EACH = 4  # units per thread, so that enough loads are in flight
_NARROW = 2**31  # up to this number of units, indices have 32 bits
_ROOMS = (4, 64)  # numbers of axes for which there are variants of the kernel

# The load and store instructions of a unit, and the type of its registers.
_UNITS = {1: ("u8", "u16"), 2: ("u16", "u16"), 4: ("u32", "u32"), 8: ("u64", "u64"), 16: ("v2.u64", "u64")}

_kernels: dict[tuple[int, bool, int], Kernel] = {}


def copy_units(dst: Any, src: Any, unit: int, axes: tuple[Axis, ...], stream: Any) -> None:
    """Copy units of bytes along axes, in the order of a stream.

    Parameters
    ----------
    dst, src : Buffer
        The memory, beginning at the first unit.
    unit : int
        Size of a unit in bytes: 1, 2, 4, 8 or 16. All addresses are multiples of it.
    axes : tuple of Axis
        The axes. Neighbouring threads are along the last one.
    stream : Stream
        The stream. Its device must be able to access both buffers.
    """
    count = math.prod(axis.extent for axis in axes)
    room = next(room for room in _ROOMS if len(axes) <= room)
    described = b"".join(struct.pack("=Qqq", *axis) for axis in axes).ljust(24 * room, b"\0")
    config = LaunchConfig(grid=-(-count // (_THREADS * _EACH)), block=_THREADS)
    launch(stream, config, _kernel(unit, count > _NARROW, room), dst, src, count, len(axes), described)


def count_loaded() -> int:
    """Return the number of variants of the kernel that are loaded. Each is a library of the driver."""
    return len(_kernels)


def _kernel(unit: int, wide: bool, room: int) -> Kernel:
    kernel = _kernels.get((unit, wide, room))
    if kernel is None:
        code = ObjectCode.from_ptx(_ptx(unit, wide, room).encode(), name="cudacore_copy")
        kernel = _kernels.setdefault((unit, wide, room), code.get_kernel("cudacore_copy"))
    return kernel


def _ptx(unit: int, wide: bool, room: int) -> str:
    """Return the PTX of the kernel for units of `unit` bytes.

    Thread i of a block copies units i, i + 256, ... of the block's 1024. An index is split axis by axis, from the last
    to the first: it is divided by the extent of the axis, the remainder is multiplied by the steps, and the quotient is
    the index for the next axis.
    """
    kind, register = _UNITS[unit]
    number = "u64" if wide else "u32"
    lines = [
        f"""\
.version 6.0
.target sm_50
.address_size 64
.visible .entry cudacore_copy(
  .param .u64 dst, .param .u64 src, .param .u64 count, .param .u32 ndim, .param .align 8 .b8 axes[{24 * room}])
{{
  .reg .pred %last, %in<{_EACH}>;
  .reg .u32 %block, %thread, %axis;
  .reg .u64 %first, %count, %at, %dst0, %src0, %step_to, %step_from, %long, %to<{_EACH}>, %from<{_EACH}>, %i<{_EACH}>;
  .reg .{number} %extent, %rest<{_EACH}>, %next, %index;
  .reg .{register} %low<{_EACH}>, %high<{_EACH}>;
  ld.param.u64 %dst0, [dst];
  ld.param.u64 %src0, [src];
  ld.param.u64 %count, [count];
  ld.param.u32 %axis, [ndim];
  mov.u32 %block, %ctaid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %first, %block, {_THREADS * _EACH};
  cvt.u64.u32 %long, %thread;
  add.u64 %first, %first, %long;
  mov.u64 %at, axes;
  sub.u32 %axis, %axis, 1;
  mul.wide.u32 %long, %axis, 24;
  add.u64 %at, %at, %long;"""
    ]

    def each(text: str) -> None:
        lines.extend(text.replace("#", str(k)).replace("@skip", str(k * _THREADS)) for k in range(_EACH))

    widen = "mov.u64 %long, {};" if wide else "cvt.u64.u32 %long, {};"
    step = """\
  mad.lo.u64 %to#, %long, %step_to, %to#;
  mad.lo.u64 %from#, %long, %step_from, %from#;"""
    each(f"""\
  add.u64 %i#, %first, @skip;
  setp.lt.u64 %in#, %i#, %count;
  mov.u64 %to#, %dst0;
  mov.u64 %from#, %src0;
  {"mov.u64" if wide else "cvt.u32.u64"} %rest#, %i#;""")
    lines.append(f"""\
more:
  ld.param.{number} %extent, [%at];
  ld.param.u64 %step_to, [%at+8];
  ld.param.u64 %step_from, [%at+16];
  setp.eq.u32 %last, %axis, 0;
  @%last bra done;""")
    each(f"""\
  div.{number} %next, %rest#, %extent;
  mul.lo.{number} %index, %next, %extent;
  sub.{number} %index, %rest#, %index;
  mov.{number} %rest#, %next;
  {widen.format("%index")}
{step}""")
    lines.append("""\
  sub.u32 %axis, %axis, 1;
  sub.u64 %at, %at, 24;
  bra more;
done:""")
    each(f"""\
  {widen.format("%rest#")}
{step}""")
    value = "{%low#, %high#}" if unit == 16 else "%low#"
    each(f"  @%in# ld.global.{kind} {value}, [%from#];")
    each(f"  @%in# st.global.{kind} [%to#], {value};")
    lines.append("  ret;\n}\n")
    return "\n".join(lines)
