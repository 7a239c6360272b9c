# SPDX-License-Identifier: Apache-2.0
"""Arguments of nodes that the extension module does not read itself."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from cudacore_graph.typing import GraphMemoryType
from cudacore_handles import LEGACY_DEFAULT_STREAM, Device, Kernel, ParamInfo
from cudacore_handles._sdk import as_address, as_integer, lib
from cudacore_handles._sdk.graph import (
    ParamKind,
    check_kernel,
    fill_pattern,
    has_protocol,
    pack,
    pack_layout,
    why_no_array,
)

# Location and type of the allocation, by the type of memory.
_MEMORY = {
    GraphMemoryType.DEVICE: (lib.CCH_LOCATION_DEVICE, lib.CCH_ALLOCATION_PINNED),
    GraphMemoryType.HOST: (lib.CCH_LOCATION_HOST, lib.CCH_ALLOCATION_PINNED),
    GraphMemoryType.MANAGED: (lib.CCH_LOCATION_DEVICE, lib.CCH_ALLOCATION_MANAGED),
}
# The layout of one pointer parameter. Packing an operand with this layout converts it to its address.
_ONE_POINTER = pack_layout([ParamInfo(0, 8, ParamKind.POINTER)])
# An argument of a kernel that is read from a node.
KernelValue: TypeAlias = int | float | bool | bytes
_FLOATS = {2: "e", 4: "f", 8: "d"}  # formats of `struct`, by size
_INTEGERS = {ParamKind.INT, ParamKind.UINT, ParamKind.BITS, ParamKind.POINTER, ParamKind.ADDRESS}


def check_node_kernel(config: object, kernel: object, kernel_args: tuple[object, ...]) -> Kernel:
    """Prepare a kernel for a node: find its layout, and allow the shared memory that the configuration needs.

    Raise an error if the kernel is unusable.

    Return the kernel with its layout.
    """
    settings, code = check_kernel(config, kernel)
    device = Device()
    if settings.shmem_size:
        code._allow_shared(settings.shmem_size, device)
    return code._ready(device.context, kernel_args, stacklevel=2)


def node_memory(value: Any, name: str) -> int:
    """Return the address of an operand that is not a Buffer or int: an array, or an object of ``cuda.bindings``."""
    if value is None or isinstance(value, (bool, float, str, bytes, bytearray, memoryview)):
        raise TypeError(f"{name} must be a Buffer, a device array or an int, not {type(value).__name__}")
    number = as_integer(value)
    if number is not None:  # tried first, because NumPy's integers also have array interfaces
        return as_address(number, f"{name} must be a Buffer, a device array or an int")
    if has_protocol(value, "__array_interface__"):
        if name == "dptr":
            raise TypeError("dptr is an array in host memory; it must be the address from an allocation node")
        raise TypeError(
            f"{name} is an array in the host's memory: give its address, array.ctypes.data, and {name}_owner=array"
        )
    if not has_protocol(value, "__cuda_array_interface__") and not has_protocol(value, "__dlpack__"):
        text, cause = why_no_array(value)
        if text:
            raise TypeError(f"{name} must be a Buffer, a device array or an int{text}") from cause
        return as_address(value, f"{name} must be a Buffer, a device array or an int")
    try:
        return int.from_bytes(pack(_ONE_POINTER, (value,)), "little")
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


def fill_value(value: object) -> tuple[int, int]:
    """Return the pattern of a fill and its size in bytes."""
    return fill_pattern(value, LEGACY_DEFAULT_STREAM, max_size=4)


def alloc_place(
    device: Device | int | None, memory_type: GraphMemoryType | str | None, peers: Iterable[Device | int] | None
) -> tuple[int, int, int, tuple[int, ...]]:
    """Return where memory is allocated: location type, location id, allocation type, and devices that can use it."""
    try:
        kind = GraphMemoryType.DEVICE if memory_type is None else GraphMemoryType(memory_type)
    except ValueError:
        names = ", ".join(repr(str(member)) for member in GraphMemoryType)
        raise ValueError(f"memory_type is {memory_type!r}; it must be one of {names}") from None
    ordinal = Device(device).device_id
    if peers is None:
        peers = ()
    elif not isinstance(peers, Iterable) or isinstance(peers, (str, bytes)):
        raise TypeError(f"peer_access must be a list of Device or int, not {type(peers).__name__}")
    others = tuple(dict.fromkeys(Device(peer).device_id for peer in peers))
    location, allocation = _MEMORY[kind]
    if kind is GraphMemoryType.HOST:
        # For host memory, the driver requires at least one device that uses the memory.
        return location, 0, allocation, tuple(dict.fromkeys((ordinal, *others)))
    return location, ordinal, allocation, tuple(other for other in others if other != ordinal)


def check_args(kernel: Kernel, args: object) -> tuple[Any, ...]:
    """Return a kernel's arguments as a tuple, or raise an exception that explains what is wrong."""
    if isinstance(args, (str, bytes)) or not isinstance(args, Iterable):
        raise TypeError(f"args must be a tuple with all arguments of {kernel!r}, not {type(args).__name__}")
    return tuple(args)


def check_owner(name: str, memory: object, owner: object) -> None:
    """Raise an error if an owner is given without its address."""
    if memory is None and owner is not None:
        raise ValueError(f"{name}_owner comes with {name}: it keeps an address alive")


def unpack_args(block: bytes, parameters: Sequence[ParamInfo]) -> tuple[KernelValue, ...]:
    """Return the values in an argument block."""
    if len(block) < max((offset + size for offset, size in parameters), default=0):
        raise RuntimeError(
            "another library added this node, and only a driver for CUDA 12.4 or later can read its arguments"
        )
    return tuple(
        _unpack(block[parameter.offset : parameter.offset + parameter.size], parameter.kind) for parameter in parameters
    )


def _unpack(data: bytes, kind: ParamKind) -> KernelValue:
    if kind in _INTEGERS:
        return int.from_bytes(data, "little", signed=kind is ParamKind.INT)
    if kind is ParamKind.BOOL:
        return any(data)
    if kind is ParamKind.FLOAT and len(data) in _FLOATS:
        return float(struct.unpack(_FLOATS[len(data)], data)[0])
    if kind is ParamKind.BFLOAT:
        return float(struct.unpack("f", b"\0\0" + data)[0])
    return data
