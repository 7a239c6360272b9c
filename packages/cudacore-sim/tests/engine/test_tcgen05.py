# SPDX-License-Identifier: Apache-2.0
"""Tensor memory (tcgen05), compared with the layouts and the arithmetic that the PTX manual describes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from harness import CompileError, Engine, Fault
from test_block_scale import decode, random_codes

F32 = np.float32
LANES, COLUMNS = 128, 512
D, A, SCALE_A, SCALE_B = 0, 256, 384, 448  # the first columns of the matrices in tensor memory
VALUES = ", ".join(f"%r{i}" for i in range(32))
RETURN = """bar.sync 0; @%w0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %taddr, 512;
  @%w0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"""


def launch(
    engine: Engine,
    middle: str,
    memory: np.ndarray,
    shared: np.ndarray | None = None,
    arguments: tuple[int, ...] = (),
) -> tuple[np.ndarray, Fault]:
    """Fill tensor memory and shared memory, run `middle`, and return the tensor memory.

    In `middle`, %taddr is the first address, %addr that of the warp's lanes, %u0 is the address of shared memory, %d1
    and so on are arguments, %p0 is true for the first thread. %t is the number of the thread.
    """
    image = np.zeros(16, np.uint8) if shared is None else shared
    size = (image.nbytes + 2047) // 2048 * 2048
    image = np.concatenate([image, np.zeros(size - image.nbytes, np.uint8)])
    column_sets = range(0, COLUMNS, 32)
    fill = "".join(
        "".join(f"ld.global.b32 %r{i}, [%row+{4 * (first + i)}];" for i in range(32))
        + f"tcgen05.st.sync.aligned.32x32b.x32.b32 [%addr+{first}], {{{VALUES}}};\n"
        for first in column_sets
    )
    dump = "".join(
        f"tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{VALUES}}}, [%addr+{first}];"
        "tcgen05.wait::ld.sync.aligned;"
        + "".join(f"st.global.b32 [%row+{4 * (first + i)}], %r{i};" for i in range(32))
        + "\n"
        for first in column_sets
    )
    names = [f"d{i + 1}" for i in range(len(arguments))]
    takes = "".join(f"ld.param.u64 %{name}, [{name}];" for name in names)
    body = f"""
      .shared .align 1024 .b8 smem[{size}]; .shared .align 8 .b64 mbar; .shared .b32 slot;
      .reg .pred %p0, %w0, %done, %more; .reg .b32 %t, %warp, %addr, %taddr, %r<40>, %u<8>;
      .reg .b64 %row, %from, %d<8>;
      ld.param.u64 %row, [memory]; ld.param.u64 %from, [image]; {takes}
      mov.u32 %t, %tid.x; shr.u32 %warp, %t, 5; setp.eq.u32 %w0, %warp, 0; setp.eq.u32 %p0, %t, 0;
      mad.wide.u32 %row, %t, {4 * COLUMNS}, %row; mov.u32 %u0, smem;
      mad.wide.u32 %from, %t, 16, %from; mad.lo.u32 %u1, %t, 16, %u0; mov.u32 %u2, 0;
    copy:
      ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%from]; st.shared.v4.b32 [%u1], {{%r0, %r1, %r2, %r3}};
      add.u64 %from, %from, 2048; add.u32 %u1, %u1, 2048; add.u32 %u2, %u2, 2048;
      setp.lt.u32 %more, %u2, {size}; @%more bra copy;
      @%w0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
      @%p0 mbarrier.init.shared::cta.b64 [mbar], 1;
      bar.sync 0; ld.shared.b32 %taddr, [slot]; shl.b32 %addr, %warp, 21; add.u32 %addr, %addr, %taddr;
      {fill} tcgen05.wait::st.sync.aligned; fence.proxy.async.shared::cta; bar.sync 0;
      {middle}
      {dump} {RETURN}"""
    parameters = ", ".join(f".param .u64 {name}" for name in ["memory", "image", *names])
    module = engine.body(body, parameters=parameters, target="sm_100a", version="8.8")
    out = module.buffer(memory.astype(np.uint32))
    fault = module.run("k", 1, 128, out, module.buffer(image), *arguments)
    return out.array.reshape(LANES, COLUMNS), fault


def started(instruction: str) -> str:
    """Return PTX that starts an operation in one thread, and waits for it in all."""
    return f"""@%p0 {instruction}
      @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [mbar];
    poll: mbarrier.try_wait.parity.shared::cta.b64 %done, [mbar], 0; @!%done bra poll;
      tcgen05.fence::after_thread_sync;"""


def random_words(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 2**32, (LANES, COLUMNS), dtype=np.uint32)


# The lane and the column of a thread's register.
SHAPES = {
    "32x32b": (1, lambda t, i: (t, i)),
    "16x64b": (1, lambda t, i: (t >> 2 | (t & 1) << 3, 2 * i + (t >> 1 & 1))),
    "16x128b": (2, lambda t, i: ((t >> 2) + 8 * (i & 1), 4 * (i >> 1) + (t & 3))),
    "16x256b": (4, lambda t, i: ((t >> 2) + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * (t & 3) + (i & 1))),
    "16x32bx2": (1, lambda t, i: (t & 15, i + 100 * (t >> 4))),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_loads_and_stores(engine: Engine, rng: np.random.Generator, shape: str, packed: bool) -> None:
    """A thread would get the cell of another one, or the halves of packed cells in the wrong order."""
    each, place = SHAPES[shape]
    count, before = 8, random_words(rng)
    registers = ", ".join(f"%r{i}" for i in range(each * count))
    half = ", 100" if shape == "16x32bx2" else ""
    unpack, pack = (".unpack::16b", ".pack::16b") if packed else ("", "")
    top = 0 if shape == "32x32b" else 16
    # Loads from some columns, and stores the same registers to others.
    middle = f"""add.u32 %u3, %addr, {top << 16 | 4};
      tcgen05.ld.sync.aligned.{shape}.x{count}{pack}.b32 {{{registers}}}, [%u3+16]{half};
      tcgen05.wait::ld.sync.aligned;
      {"".join(f"add.u32 %r{i}, %r{i}, {i};" for i in range(each * count))}
      tcgen05.st.sync.aligned.{shape}.x{count}{unpack}.b32 [%u3+256]{half}, {{{registers}}};
      tcgen05.wait::st.sync.aligned; bar.sync 0;"""
    after, fault = launch(engine, middle, before)
    assert fault.kind == "none", fault
    expected = before.copy()
    for warp in range(4):
        for thread in range(32):
            for i in range(each * count):
                lane, column = place(thread, i)
                lane += 32 * warp + top
                if not packed:
                    expected[lane, 260 + column] = before[lane, 20 + column] + np.uint32(i)
                    continue
                # The columns of a packed access are pairs; the distance of the halves is in pairs, too.
                low, high = before[lane, 20 + 2 * column : 22 + 2 * column].tolist()
                value = ((low & 0xFFFF) | high << 16 & 0xFFFF0000) + i
                expected[lane, 260 + 2 * column] = value & 0xFFFF
                expected[lane, 261 + 2 * column] = value >> 16 & 0xFFFF
    np.testing.assert_array_equal(after, expected)


def swizzled(offset: np.ndarray, width: int) -> np.ndarray:
    """Return offsets in shared memory with the bits of the piece combined with those of the line."""
    return offset ^ (offset >> 3 & {16: 0, 32: 0x10, 64: 0x30, 128: 0x70}[width])


def in_shared(matrix: np.ndarray, width: int, transposed: bool) -> tuple[np.ndarray, int]:
    """Return the bytes of a matrix whose lines are along K, and the descriptor without the address."""
    lines, k = matrix.shape
    size = matrix.itemsize
    line, t = np.meshgrid(np.arange(lines), np.arange(k), indexing="ij")
    if not transposed:
        byte = t * size
        leading, stride = (lines * 16 + 128, 128) if width == 16 else (0, 8 * width)
        offset = line % 8 * width + line // 8 * stride + byte % width + byte // width * leading
    else:
        byte = line * size
        along, groups = 8 * width * (k // 8) + (128 if width == 16 else 0), 8 * width
        offset = t % 8 * width + t // 8 * groups + byte % width + byte // width * along
        leading, stride = (groups, along) if width == 16 else (along, groups)
    image = np.zeros((int(offset.max()) + 1024) // 1024 * 1024, np.uint8)
    offset = swizzled(offset, width)
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(lines, k, size)
    for i in range(size):
        image[offset + i] = raw[:, :, i]
    mode = {16: 0, 32: 6, 64: 4, 128: 2}[width]
    return image, leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | mode << 61


def rows_of(m: int) -> np.ndarray:
    """Return the lane of each row of a matrix."""
    row = np.arange(m)
    return row if m == 128 else row // 16 * 32 + row % 16


def to_tf32(values: np.ndarray) -> np.ndarray:
    return (values.astype(F32).view(np.uint32) & 0xFFFFE000).view(F32)


def to_bf16(values: np.ndarray) -> np.ndarray:
    return (values.astype(F32).view(np.uint32) >> 16).astype(np.uint16)


def operands(rng: np.random.Generator, kind: str, lines: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Return a random matrix as it is stored, its numbers, and the code of its type."""
    if kind == "f16":
        values = rng.normal(0, 2, (lines, 16)).astype(np.float16)
        return values, values.astype(np.float64), 0
    if kind == "bf16":
        bits = to_bf16(rng.normal(0, 2, (lines, 16)))
        return bits, (bits.astype(np.uint32) << 16).view(F32).astype(np.float64), 1
    if kind == "tf32":
        values = to_tf32(rng.normal(0, 2, (lines, 8)))
        return values, values.astype(np.float64), 2
    if kind == "s8":
        values = rng.integers(-128, 128, (lines, 32)).astype(np.int8)
        return values, values.astype(np.float64), 1
    codes = random_codes(rng, (lines, 32), kind)
    return codes.astype(np.uint8), decode(codes, kind), {"e4m3": 0, "e5m2": 1}[kind]


def multiply(
    engine: Engine,
    kind: str,
    a: Any,
    b: Any,
    memory: np.ndarray,
    description: int,
    *,
    width: int = 128,
    transposed: tuple[bool, bool] = (False, False),
    a_in_memory: bool = False,
    after: str = ", 1",
    scales: str = "",
    modifiers: str = "",
) -> np.ndarray:
    b_image, b_bits = in_shared(b, width, transposed[1])
    a_image, a_bits = in_shared(a, width, transposed[0]) if not a_in_memory else (np.zeros(0, np.uint8), 0)
    left = f"[%taddr+{A}]" if a_in_memory else "%d1"
    middle = f"""shr.u32 %u1, %u0, 4; cvt.u64.u32 %d4, %u1; add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4;
      cvt.u32.u64 %u2, %d3;
      {started(f"tcgen05.mma.cta_group::1.kind::{kind}{modifiers} [%taddr+{D}], {left}, %d2, %u2{scales}{after};")}"""
    image = np.concatenate([a_image, b_image])
    result, fault = launch(engine, middle, memory, image, (a_bits, b_bits + (a_image.nbytes >> 4), description))
    assert fault.kind == "none", fault
    return result


KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "s8": "i8"}


def describe(m: int, n: int, a: int, b: int, d: int, *, more: int = 0) -> int:
    return d << 4 | a << 7 | b << 10 | n // 8 << 17 | m // 16 << 24 | more


@pytest.mark.parametrize("width", [16, 32, 64, 128])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("m", "n"), [(64, 24), (128, 48)])
def test_products(engine: Engine, rng: np.random.Generator, name: str, m: int, n: int, width: int) -> None:
    """A product would take elements from the wrong place, or put sums in the wrong lanes."""
    a, left, a_code = operands(rng, name, m)
    b, right, b_code = operands(rng, name, n)
    memory = random_words(rng)
    lanes = rows_of(m)
    integral = name == "s8"
    before = rng.integers(-1000, 1000, (m, n)).astype(np.int32) if integral else rng.normal(0, 9, (m, n)).astype(F32)
    memory[lanes, D : D + n] = before.view(np.uint32)
    description = describe(m, n, a_code, b_code, 2 if integral else 1)
    after = multiply(engine, KINDS[name], a, b, memory, description, width=width)
    sums = after[lanes, D : D + n]
    expected = left @ right.T + before
    if integral:
        np.testing.assert_array_equal(sums.view(np.int32), expected)
    else:
        largest = np.maximum(np.abs(left[:, None, :] * right[None]).max(axis=2), np.abs(before))
        assert (np.abs(sums.view(F32) - expected) <= largest * left.shape[1] * 2.0**-22).all()
    memory[lanes, D : D + n] = sums  # nothing else changes
    np.testing.assert_array_equal(after, memory)


@pytest.mark.parametrize("width", [16, 32, 64, 128])
@pytest.mark.parametrize("name", ["f16", "bf16", "e4m3", "s8"])
@pytest.mark.parametrize("which", [(True, False), (False, True), (True, True)])
def test_transposed_matrices(
    engine: Engine, rng: np.random.Generator, name: str, which: tuple[bool, bool], width: int
) -> None:
    """A matrix that is stored along M or N would be read along K."""
    m, n = 128, 128
    a, left, a_code = operands(rng, name, m)
    b, right, b_code = operands(rng, name, n)
    d = 2 if name == "s8" else 1
    description = describe(m, n, a_code, b_code, d, more=which[0] << 15 | which[1] << 16)
    after = multiply(
        engine, KINDS[name], a, b, random_words(rng), description, width=width, transposed=which, after=", 0"
    )
    sums = after[:, D : D + n].view(np.int32 if name == "s8" else F32)
    largest = np.abs(left[:, None, :] * right[None]).max(axis=2)
    assert (np.abs(sums - left @ right.T) <= largest * left.shape[1] * 2.0**-22).all()


@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("name", ["f16", "tf32", "e4m3"])
def test_left_matrix_in_tensor_memory(engine: Engine, rng: np.random.Generator, name: str, m: int) -> None:
    """A matrix A in tensor memory would be read from other lanes or columns."""
    a, left, a_code = operands(rng, name, m)
    b, right, b_code = operands(rng, name, 32)
    memory = random_words(rng)
    columns = np.ascontiguousarray(a).view(np.uint32)
    memory[rows_of(m), A : A + 8] = columns
    after = multiply(
        engine, KINDS[name], a, b, memory, describe(m, 32, a_code, b_code, 1), a_in_memory=True, after=", 0"
    )
    largest = np.abs(left[:, None, :] * right[None]).max(axis=2)
    sums = after[rows_of(m), D : D + 32].view(F32)
    assert (np.abs(sums - left @ right.T) <= largest * left.shape[1] * 2.0**-22).all()


def test_signs_masks_and_sums_of_f16(engine: Engine, rng: np.random.Generator) -> None:
    """A sign, a mask of lanes or the scale of D would be ignored, or a sum of f16 be stored as f32."""
    a, left, _ = operands(rng, "f16", 128)
    b, right, _ = operands(rng, "f16", 16)
    memory = random_words(rng)
    description = describe(128, 16, 0, 0, 0, more=1 << 13)  # D is f16, A is negated
    after = multiply(engine, "f16", a, b, memory, description, after=", {1, 0, -1, 0}, 0")
    kept = np.arange(128) == 0
    kept[64:96] = True
    np.testing.assert_array_equal(after[kept], memory[kept])
    sums = after[~kept, D : D + 16]
    assert (sums >> 16 == 0).all()
    expected = -(left @ right.T)[~kept]
    np.testing.assert_allclose(sums.astype(np.uint16).view(np.float16), expected, rtol=2e-3, atol=2e-2)
    before = rng.normal(0, 9, (128, 16)).astype(F32)
    memory[:, D : D + 16] = before.view(np.uint32)
    after = multiply(engine, "f16", a, b, memory, describe(128, 16, 0, 0, 1), after=", 1, 3")
    np.testing.assert_allclose(after[:, D : D + 16].view(F32), left @ right.T + before / 8, rtol=1e-5, atol=1e-4)


def packed_codes(codes: np.ndarray) -> np.ndarray:
    return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)


@pytest.mark.parametrize(
    ("kind", "block", "count", "powers", "first"),
    [
        ("mxf8f6f4", "", 1, True, 2),
        ("mxf4", ".block32", 2, True, 2),
        ("mxf4nvf4", ".block32", 2, True, 0),
        ("mxf4nvf4", ".block16", 4, False, 0),
    ],
)
def test_scales_of_blocks(
    engine: Engine, rng: np.random.Generator, kind: str, block: str, count: int, powers: bool, first: int
) -> None:
    """A block would be multiplied by the scale of another one."""
    m, n, packed = 128, 144, kind != "mxf8f6f4"
    k, name = (64, "e2m1") if packed else (32, "e4m3")
    codes = random_codes(rng, (m, k), name), random_codes(rng, (n, k), name)
    left, right = (decode(one, name) for one in codes)
    a, b = (packed_codes(one) if packed else one.astype(np.uint8) for one in codes)
    low, high = (120, 135) if powers else (0, 0x7F)
    memory = random_words(rng)
    scales = []
    for lines, start in ((m, SCALE_A), (n, SCALE_B)):
        given = rng.integers(low, high, (lines, 4)).astype(np.uint32)
        word = np.bitwise_or.reduce(given << (np.arange(4, dtype=np.uint32) * 8), axis=1)
        line = np.arange(lines)
        for group in range(4):
            memory[group * 32 + line % 32, start + line // 32] = word
        used = given[:, first : first + count]
        value = np.ldexp(1.0, used.astype(int) - 127) if powers else decode(used, "e4m3")
        scales.append(np.repeat(value, k // count, axis=1))
    code = 1 if packed else 0
    description = code << 7 | code << 10 | n // 8 << 17 | powers << 23 | m // 128 << 27 | first << 29 | first << 4
    after = multiply(
        engine,
        kind,
        a,
        b,
        memory,
        description,
        scales=f", [%taddr+{SCALE_A}], [%taddr+{SCALE_B}]",
        after=", 0",
        modifiers=f".block_scale{block}",
    )
    expected = (left * scales[0]) @ (right * scales[1]).T
    largest = np.abs((left * scales[0])[:, None] * (right * scales[1])[None]).max(axis=2)
    assert (np.abs(after[:, D : D + n].view(F32) - expected) <= largest * k * 2.0**-22).all()


@pytest.mark.parametrize(
    ("form", "rows", "words", "lanes"),
    [
        ("128x256b", 128, 8, lambda row: [row]),
        ("128x128b", 128, 4, lambda row: [row]),
        ("32x128b.warpx4", 32, 4, lambda row: [row, row + 32, row + 64, row + 96]),
        ("64x128b.warpx2::02_13", 64, 4, lambda row: [row, row + 64]),
        ("64x128b.warpx2::01_23", 64, 4, lambda row: [row + row // 32 * 32, row + row // 32 * 32 + 32]),
    ],
)
def test_copies(engine: Engine, rng: np.random.Generator, form: str, rows: int, words: int, lanes: Any) -> None:
    """A row would go to the lanes of another warp."""
    matrix = rng.integers(0, 2**32, (rows, words), dtype=np.uint32)
    image, bits = in_shared(matrix, 16, False)
    memory = random_words(rng)
    middle = f"""shr.u32 %u1, %u0, 4; cvt.u64.u32 %d2, %u1; add.u64 %d1, %d1, %d2;
      {started(f"tcgen05.cp.cta_group::1.{form} [%taddr+40], %d1;")}"""
    after, fault = launch(engine, middle, memory, image, (bits,))
    assert fault.kind == "none", fault
    for row in range(rows):
        for lane in lanes(row):
            memory[lane, 40 : 40 + words] = matrix[row]
    np.testing.assert_array_equal(after, memory)


DEFECTS = {
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%taddr];": r"warp [123] can access lanes from \d+ to \d+",
    "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0, %r1}, [%addr+511];": "column 512 are not allocated",
    "@%w0 tcgen05.alloc.cta_group::1.sync.aligned.b32 [slot], 32;": "never become free",
    "@%w0 tcgen05.alloc.cta_group::1.sync.aligned.b32 [slot], 48;": "a power of two from 32 to 512",
    "@%w0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %taddr, 256;": "512 were allocated there",
    "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%taddr], %d1, %d1, 0x08000000, 0;": "a shape that there is not",
    "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%taddr], %d1, %d1, 0x08040100, 0;": "types that this kind",
    "@%w0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %taddr, 512; bar.sync 0; "
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%addr];": "column 0 are not allocated",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; "
    "@%w0 tcgen05.alloc.cta_group::1.sync.aligned.b32 [slot], 32;": "given up its right to allocate",
    "@%w0 bra freed; ret; freed: tcgen05.dealloc.cta_group::1.sync.aligned.b32 %taddr, 512; "
    "tcgen05.alloc.cta_group::1.sync.aligned.b32 [slot], 64; ret;": "has not freed the 64 columns",
}


@pytest.mark.parametrize("line", DEFECTS)
def test_misuse_is_a_fault(engine: Engine, line: str) -> None:
    """A program that hangs or computes nonsense on a GPU would seem to work."""
    text = "mov.u64 %d2, slot; cvta.shared.u64 %d2, %d2; " + line.replace("[slot]", "[%d2]")
    _, fault = launch(engine, text, np.zeros((LANES, COLUMNS), np.uint32), arguments=(0,))
    assert fault.kind != "none"
    assert re.search(DEFECTS[line], fault.detail), fault


@pytest.mark.parametrize(
    "line",
    [
        "tcgen05.alloc.cta_group::2.sync.aligned.b32 [%r1], 64;",
        "tcgen05.mma.sp.cta_group::1.kind::f16 [%r1], %d1, %d2, [%r7], %r3, %p1;",
        "tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %d1, %d2, %r3, %p1;",
        "tcgen05.mma.cta_group::1.kind::f16.ashift [%r1], [%r2], %d2, %r3, %p1;",
        "tcgen05.shift.cta_group::1.down [%r1];",
        "tcgen05.cp.cta_group::1.4x256b [%r1], %d1;",
        "tcgen05.cp.cta_group::1.128x256b.b8x16.b4x16_p64 [%r1], %d1;",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%r1, %r3}, %r4, [%r2];",
    ],
)
def test_what_is_not_simulated_is_named(engine: Engine, line: str) -> None:
    """An instruction that is not simulated would be executed as some other one."""
    registers = ".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;"
    with pytest.raises(CompileError, match=r"unknown instruction 'tcgen05.*is not simulated"):
        engine.body(f"{registers}\n{line}", target="sm_103a", version="8.8")
