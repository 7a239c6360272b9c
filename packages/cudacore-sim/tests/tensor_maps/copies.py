# SPDX-License-Identifier: Apache-2.0
"""Cases of copies by tensor maps, and functions that run them on a given driver."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from corpus.machine import CUDAError, LaunchAttribute, LaunchConfig, Machine

from tensor_maps.kernels import IMMEDIATE, TILE, replacement, text

Case = dict[str, Any]
Bytes = npt.NDArray[np.uint8]

SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)  # the size of an element in bytes, by CUtensorMapDataType
BASE, MEMORY, ROOM, ARENA = 8192, 65536, 1 << 18, 1 << 20
_CLUSTER_DIMENSION = 4

# Bits of special floating-point numbers, by their size in bytes.
_SPECIALS = {
    2: (0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFE12, 1, 0x83FF, 0x0400, 0x7BFF, 0x3E00, 0x3555,
        0xC123, 0x7F80, 0xFF80, 0x7F7F, 0x0080),
    4: (0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345, 1,
        0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x3FC00000, 0x3EAAAAAB, 0xC1234567, 0x3F801000, 0x3F801001, 0x3F802FFF,
        0x3F803000),
    8: (0, 1 << 63, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
        0x7FF0000000000001, 0xFFF8123456789ABC, 1, 0x800FFFFFFFFFFFFF, 0x10000000000000, 0x7FEFFFFFFFFFFFFF,
        0x3FF8000000000000, 0x3FD5555555555555, 0xC021234567890123, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF,
        0x8000000080000000),
}  # fmt: skip
_SPECIALS[1] = tuple(x & 0xFF for x in _SPECIALS[4]) + tuple(x >> 24 for x in _SPECIALS[4])


def specials(size: int, width: int, step: int) -> Bytes:
    """Return bytes that repeat the special numbers. With `step` 1, each repetition begins with another number."""
    values = np.array(_SPECIALS[width], dtype=f"<u{width}")
    i = np.arange(size // width)
    return values[(i // len(values) * step + i) % len(values)].view(np.uint8)


def pattern(size: int, seed: int = 0) -> Bytes:
    """Return bytes whose 32-bit words are all different."""
    i = np.arange(size // 4, dtype=np.uint32) + seed
    words = (i & 0xFF) | ((i >> 8) & 0xFF) << 8 | ((i * 7 + 3) & 0xFF) << 16 | ((i * 31 >> 3) & 0x7F) << 24
    return words.astype("<u4").view(np.uint8)


class Copier:
    """A device with memory and kernels for copies, which `close` frees."""

    def __init__(self, machine: Machine) -> None:
        self._call = machine.call
        self._functions: dict[str, ctypes.c_void_p] = {}
        self._modules: list[ctypes.c_void_p] = []
        # One allocation, because some recorded copies read beyond MEMORY: the other parts, and zeros after them.
        self._memory = self._allocate(ARENA)
        self._source = self._memory + MEMORY
        self._to = self._source + ROOM
        self._status = self._to + ROOM
        self._write(self._memory, np.zeros(ARENA, np.uint8))

    def close(self) -> None:
        """Free the memory, and unload the kernels."""
        self._call("cuMemFree_v2", ctypes.c_uint64(self._memory))
        for module in self._modules:
            self._call("cuModuleUnload", module)

    def encode(self, case: Case, address: int) -> tuple[int, bytes]:
        """Encode a tensor map. Return the driver's result code, and the 128 bytes of the map."""
        room = ctypes.create_string_buffer(256)
        at = -(-ctypes.addressof(room) // 128) * 128
        rank = case.get("rank", len(case["dims"]))
        head = (
            ctypes.c_void_p(at), case["type"], ctypes.c_uint32(rank), ctypes.c_void_p(address),
            (ctypes.c_uint64 * 5)(*case["dims"]), (ctypes.c_uint64 * 5)(*case["strides"]),
        )  # fmt: skip
        steps = (ctypes.c_uint32 * 5)(*(case["es"] or [1] * 5))
        tail = (steps, case["il"], case["sw"], case.get("l2", 0), case["fill"])
        try:
            if "box" in case:
                self._call("cuTensorMapEncodeTiled", *head, (ctypes.c_uint32 * 5)(*case["box"]), *tail)
            else:
                corners = ((ctypes.c_int * 3)(*case[name]) for name in ("lo", "hi"))
                counts = (ctypes.c_uint32(case["chan"]), ctypes.c_uint32(case["pix"]))
                self._call("cuTensorMapEncodeIm2col", *head, *corners, *counts, *tail)
        except CUDAError as error:
            return error.code, b""
        return 0, ctypes.string_at(at, 128)

    def run(self, case: Case) -> tuple[dict[str, Any], Bytes]:
        """Make a copy. Return the results to compare: facts such as codes, and bytes of shared or global memory."""
        width, op, rank = SIZES[case["type"]], case["op"], len(case["dims"])
        special = case["data"] == "special"
        code, tensor_map = self.encode(case, self._memory + BASE)
        if code:
            return {"code": code}, np.empty(0, np.uint8)
        self._write(self._memory, specials(MEMORY, width, 0) if special else pattern(MEMORY))
        self._write(self._status, np.zeros(4096, np.uint8))
        self._write(self._to, np.zeros(ROOM, np.uint8))
        name = f"{op}_{case['mode']}_{rank}"
        if op in ("load", "multicast"):
            self._write(self._source, np.full(TILE, 0xA5, np.uint8))
            count = self._bytes(case)
            shift = case["off"][0] if case["mode"] == "shifted" else 0
            size = min(-(-count // 4) * 4 + 64 + shift, TILE)
            blocks = case.get("cluster", 1)
            off = (0, case["sender"], 0) if op == "multicast" else case["off"]
            self._launch(name, tensor_map, case["at"], off, count, size, case.get("mask", 0), blocks)
            done = self._read(self._status, 16 * blocks).view("<u4")[2::4]
            wanted = [block for block in range(blocks) if op == "load" or case["mask"] >> block & 1]
            return {"done": all(int(done[b]) == 0xFFFFFFFF for b in wanted)}, self._read(self._to, blocks * size)
        self._write(self._source, specials(TILE, width, 1) if special else pattern(TILE, 0x10000))
        before = self._read(self._memory, MEMORY)
        self._launch(name, tensor_map, case["at"], case["off"], 0, 32768, 0, 1)
        after = self._read(self._memory, MEMORY)
        changed = np.nonzero(before != after)[0]
        low, high = (int(changed[0]), int(changed[-1]) + 1) if len(changed) else (0, 0)
        return {"start": low}, after[low:high]

    def replace(self, field: str, dimension: int | None, value: int, before: bytes) -> bytes:
        """Make a warp replace a field of a tensor map, and return the new map."""
        name = f"replace_{field}_{dimension}_{value if field in IMMEDIATE else ''}"
        function = self._function(name, replacement(field, dimension, value), "replace")
        self._write(self._to, np.zeros(128, np.uint8))
        values = (ctypes.c_char * 128).from_buffer_copy(before), ctypes.c_uint64(value), ctypes.c_uint64(self._to)
        self._start(function, values, 1, 32)
        return self._read(self._to, 128).tobytes()

    @staticmethod
    def _bytes(case: Case) -> int:
        """Return how many bytes a load moves."""
        size = SIZES[case["type"]]
        if "box" not in case:
            return int(case["chan"] * case["pix"]) * size
        steps = list(case["es"] or [1] * 5)
        box = list(case["box"])
        if case["il"]:  # interleaved layout: one slice of channels, in units of 16 or 32 bytes
            box[-2], size = 1, 16 * case["il"]
        else:
            steps[0] = 1
        return int(np.prod([-(-extent // step) for extent, step in zip(box, steps, strict=False)])) * size

    def _allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def _write(self, address: int, data: Bytes) -> None:
        data = np.ascontiguousarray(data)
        place = data.ctypes.data_as(ctypes.c_void_p)
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), place, ctypes.c_size_t(data.nbytes))

    def _read(self, address: int, size: int) -> Bytes:
        data = np.empty(size, np.uint8)
        place = data.ctypes.data_as(ctypes.c_void_p)
        self._call("cuMemcpyDtoH_v2", place, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data

    def _function(self, name: str, source: str = "", kernel: str = "") -> ctypes.c_void_p:
        if name not in self._functions:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            self._call("cuModuleLoadData", ctypes.byref(module), (source or text(name)).encode() + b"\0")
            self._call("cuModuleGetFunction", ctypes.byref(function), module, (kernel or name).encode())
            self._functions[name] = function
            self._modules.append(module)
        return self._functions[name]

    def _launch(
        self, name: str, tensor_map: bytes, at: Any, off: Any, count: int, size: int, mask: int, blocks: int
    ) -> None:
        values: list[Any] = [
            (ctypes.c_char * 128).from_buffer_copy(tensor_map), (ctypes.c_int * 5)(*at), (ctypes.c_uint * 3)(*off),
            ctypes.c_uint(count), ctypes.c_uint(size), ctypes.c_uint64(self._source), ctypes.c_uint64(self._to),
            ctypes.c_uint64(self._status), ctypes.c_uint(mask),
        ]  # fmt: skip
        self._start(self._function(name), values, blocks, 128)

    def _start(self, function: ctypes.c_void_p, values: Sequence[Any], blocks: int, threads: int) -> None:
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        attribute = LaunchAttribute(_CLUSTER_DIMENSION, 0, (blocks, 1, 1))
        config = LaunchConfig((blocks, 1, 1), (threads, 1, 1), 0, None, ctypes.pointer(attribute), int(blocks > 1))
        self._call("cuLaunchKernelEx", ctypes.byref(config), function, places, None)
        self._call("cuCtxSynchronize")
