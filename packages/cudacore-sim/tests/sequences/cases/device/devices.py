# SPDX-License-Identifier: Apache-2.0
"""Initialisation and devices."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

from recorder import Recorder, bare


@bare
def before_init(cu: Recorder) -> None:
    """Before cuInit, only functions that need no device succeed."""
    cu.read("cuDriverGetVersion", c_int)
    cu.read("cuGetErrorName", 2, c_char_p)
    cu.call("cuDeviceGetCount", c_int)
    cu.call("cuDeviceGet", c_int, 0)
    cu.call("cuDeviceGetAttribute", c_int, 1, 0)
    cu.call("cuDevicePrimaryCtxRetain", c_void_p, 0)
    cu.call("cuDevicePrimaryCtxRelease_v2", 0)
    cu.call("cuCtxGetCurrent", c_void_p)
    cu.call("cuCtxSetCurrent", None)
    cu.call("cuCtxPopCurrent_v2", c_void_p)
    cu.call("cuCtxGetDevice", c_int)
    cu.call("cuCtxSynchronize")
    cu.call("cuMemAlloc_v2", c_uint64, 16)
    cu.call("cuMemFree_v2", 0)
    cu.call("cuStreamCreate", c_void_p, 0)
    cu.call("cuStreamSynchronize", None)
    cu.call("cuEventCreate", c_void_p, 0)
    cu.call("cuModuleLoadData", c_void_p, b"")
    cu.call("cuLibraryLoadData", c_void_p, b"", None, None, 0, None, None, 0)
    cu.call("cuPointerGetAttribute", c_uint, 2, 4096)
    cu.call("cuMemPoolCreate", c_void_p, None)
    cu.call("cuInit", 0)
    cu.read("cuDeviceGetCount", c_int)


@bare
def init_arguments(cu: Recorder) -> None:
    """cuInit refuses flags, and can be called again."""
    cu.call("cuInit", 1)
    cu.call("cuDeviceGetCount", c_int)
    cu.call("cuInit", 0)
    cu.call("cuInit", 0)
    cu.call("cuInit", 1)
    cu.call("cuDeviceGetCount", c_int)
    cu.call("cuDeviceGetCount", None)
    cu.call("cuDriverGetVersion", None)


@bare
def ordinals(cu: Recorder) -> None:
    """Each function with a device parameter is called with a device that does not exist."""
    cu.prepare("cuInit", 0)
    cu.read("cuDeviceGet", c_int, 0)
    cu.call("cuDeviceGet", None, 0)
    for ordinal in (64, -1):
        cu.call("cuDeviceGet", c_int, ordinal)
        cu.call("cuDeviceGetAttribute", c_int, 1, ordinal)
        cu.call("cuDeviceGetName", ctypes.create_string_buffer(8), 8, ordinal)
        cu.call("cuDeviceTotalMem_v2", c_size_t, ordinal)
        cu.call("cuDeviceComputeCapability", c_int, c_int, ordinal)
        cu.call("cuDeviceGetPCIBusId", ctypes.create_string_buffer(16), 16, ordinal)
        cu.call("cuDeviceGetUuid_v2", ctypes.create_string_buffer(16), ordinal)
        cu.call("cuDevicePrimaryCtxRetain", c_void_p, ordinal)
        cu.call("cuDevicePrimaryCtxRelease_v2", ordinal)
        cu.call("cuDevicePrimaryCtxReset_v2", ordinal)
        cu.call("cuDevicePrimaryCtxSetFlags_v2", ordinal, 0)
        cu.call("cuDevicePrimaryCtxGetState", ordinal, c_uint, c_int)
        cu.call("cuCtxCreate_v2", c_void_p, 0, ordinal)
        cu.call("cuDeviceGetDefaultMemPool", c_void_p, ordinal)
        cu.call("cuDeviceGetMemPool", c_void_p, ordinal)
        cu.call("cuDeviceCanAccessPeer", c_int, 0, ordinal)
        cu.call("cuDeviceCanAccessPeer", c_int, ordinal, 0)


@bare
def names(cu: Recorder) -> None:
    """The name of a device is truncated to the size of the buffer, and ends with a NUL."""
    cu.prepare("cuInit", 0)
    for size in (64, 12, 5, 1):
        buffer = ctypes.create_string_buffer(b"?" * 70)
        if cu.call("cuDeviceGetName", buffer, size, 0) == 0:
            cu.see("name", buffer.value)


@bare
def identities(cu: Recorder) -> None:
    """Both functions for the UUID of a device return the same one, and a device is found by its bus address."""
    cu.prepare("cuInit", 0)
    old, new = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16)
    cu.call("cuDeviceGetUuid", old, 0)
    cu.call("cuDeviceGetUuid_v2", new, 0)
    cu.see("the same", old.raw == new.raw)
    cu.see("zero", not any(new.raw))
    cu.call("cuDeviceGetUuid_v2", None, 0)
    cu.call("cuDeviceGetLuid", ctypes.create_string_buffer(8), c_uint, 0)
    bus = ctypes.create_string_buffer(32)
    cu.call("cuDeviceGetPCIBusId", bus, 32, 0)
    cu.see("length", len(bus.value))
    cu.see("form", "".join("x" if character in b"0123456789ABCDEF" else chr(character) for character in bus.value))
    cu.read("cuDeviceGetByPCIBusId", c_int, bus.value)
    cu.read("cuDeviceGetByPCIBusId", c_int, bus.value.lower())
    cu.read("cuDeviceGetByPCIBusId", c_int, bus.value[5:])
    cu.call("cuDeviceGetByPCIBusId", c_int, b"00ff:ff:1f.0")
    cu.call("cuDeviceGetByPCIBusId", c_int, b"no address")
    cu.call("cuDeviceGetByPCIBusId", c_int, b"")
    cu.call("cuDeviceGetByPCIBusId", c_int, None)
    cu.call("cuDeviceGetByPCIBusId", None, bus.value)
    cu.call("cuDeviceGetPCIBusId", None, 32, 0)
    for size in (13, 12, 5, 0, -1):
        cu.call("cuDeviceGetPCIBusId", ctypes.create_string_buffer(32), size, 0)


@bare
def attribute_arguments(cu: Recorder) -> None:
    """Queries of device attributes that do not exist, and with NULL for the result."""
    cu.prepare("cuInit", 0)
    cu.read("cuDeviceGetAttribute", c_int, 1, 0)
    for attribute in (0, -1, 148, 1000, 10_000):
        cu.call("cuDeviceGetAttribute", c_int, attribute, 0)
    cu.call("cuDeviceGetAttribute", None, 1, 0)
    cu.call("cuDeviceGetAttribute", None, 1, 99)


@bare
def capability(cu: Recorder) -> None:
    """Old functions for values that are also attributes of a device, and NULL for their results."""
    cu.prepare("cuInit", 0)
    cu.read("cuDeviceComputeCapability", c_int, c_int, 0)
    cu.call("cuDeviceComputeCapability", None, c_int, 0)
    cu.call("cuDeviceComputeCapability", c_int, None, 0)
    cu.call("cuDeviceTotalMem_v2", None, 0)
    total = cu.new("cuDeviceTotalMem_v2", c_size_t, 0)
    cu.see("of pages", total % 65536 == 0)
    properties = (c_int * 14)()
    cu.call("cuDeviceGetProperties", properties, 0)
    cu.see("properties", list(properties))
    cu.call("cuDeviceGetProperties", None, 0)
    for kind in (0, 1, -1):
        cu.read("cuDeviceGetExecAffinitySupport", c_int, kind, 0)
    cu.call("cuDeviceGetExecAffinitySupport", None, 0, 0)


@bare
def peers(cu: Recorder) -> None:
    """A device is not its own peer."""
    cu.prepare("cuInit", 0)
    cu.read("cuDeviceCanAccessPeer", c_int, 0, 0)
    cu.call("cuDeviceCanAccessPeer", None, 0, 0)
    for attribute in (1, 2, 3, 4, 0, 99):
        cu.call("cuDeviceGetP2PAttribute", c_int, attribute, 0, 0)
    cu.call("cuDeviceGetP2PAttribute", None, 1, 0, 0)


@bare
def error_texts(cu: Recorder) -> None:
    """The names and descriptions of error codes, and the results for unknown codes."""
    for code in (0, 1, 700, 999, 98, -1):
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p(b"before")
            cu.call(name, code, text)
            cu.see("text", text.value)
