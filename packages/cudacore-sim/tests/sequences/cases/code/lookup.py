# SPDX-License-Identifier: Apache-2.0
"""Looking up entry points by cuGetProcAddress."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_void_p

from recorder import Recorder, bare


def look_up(cu: Recorder, name: bytes, version: int, flags: int = 0, symbols: tuple[str, ...] = ()) -> int:
    """Look up an entry point, and list which of `symbols` it is. Return its address."""
    status = c_int(99)
    address = int(cu.new("cuGetProcAddress_v2", name, c_void_p, version, flags, status))
    known = [symbol for symbol in symbols if address and address == cu.address_of(symbol)]
    found = " ".join(["found" if address else "none", *known])
    cu.see(f"{name.decode()} {version}", f"status {status.value} {found}")
    return address


@bare
def versions(cu: Recorder) -> None:
    """The requested CUDA version determines the version of the function that is found for a name."""
    cu.prepare("cuInit", 0)
    symbols: tuple[str, ...] = ("cuMemAlloc", "cuMemAlloc_v2")
    for version in (2000, 3000, 3010, 3020, 4000, 12000, 13000):
        look_up(cu, b"cuMemAlloc", version, 0, symbols)
    symbols = ("cuCtxCreate", "cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4")
    for version in (3000, 3020, 11030, 11040, 12040, 12050, 13000):
        look_up(cu, b"cuCtxCreate", version, 0, symbols)
    symbols = ("cuGetProcAddress", "cuGetProcAddress_v2")
    for version in (11020, 11030, 11080, 12000, 13000):
        look_up(cu, b"cuGetProcAddress", version, 0, symbols)


@bare
def newer_versions(cu: Recorder) -> None:
    """A function that is newer than the requested CUDA version is not found."""
    cu.prepare("cuInit", 0)
    for name, before, since in (
        (b"cuLibraryLoadData", 11080, 12000), (b"cuMemAllocAsync", 11010, 11020), (b"cuLaunchKernelEx", 11070, 11080),
    ):  # fmt: skip
        look_up(cu, name, before)
        look_up(cu, name, since)
    for version in (12070, 12080):
        look_up(cu, b"cuEventElapsedTime", version, 0, ("cuEventElapsedTime", "cuEventElapsedTime_v2"))


@bare
def unknown(cu: Recorder) -> None:
    """Looking up a name that does not exist, and a name that contains a version."""
    cu.prepare("cuInit", 0)
    for name, version in (
        (b"cuNothingAtAll", 13000), (b"", 13000), (b"cuMemAlloc_v2", 13000), (b"cuMemAlloc_v2", 3000),
        (b"CUMEMALLOC", 13000), (b"cuMemAlloc", 0), (b"cuMemAlloc", 99000),
    ):  # fmt: skip
        look_up(cu, name, version)


@bare
def per_thread(cu: Recorder) -> None:
    """A flag selects the functions that use the per-thread stream."""
    cu.prepare("cuInit", 0)
    legacy = look_up(cu, b"cuMemcpyHtoDAsync", 13000, 1)
    cu.see("the same without flags", legacy == look_up(cu, b"cuMemcpyHtoDAsync", 13000, 0))
    own = look_up(cu, b"cuMemcpyHtoDAsync", 13000, 2, ("cuMemcpyHtoDAsync_v2_ptsz",))
    cu.see("another", own != legacy)
    cu.see("the same for what has no stream", look_up(cu, b"cuMemAlloc", 13000, 2) == look_up(cu, b"cuMemAlloc", 13000))
    look_up(cu, b"cuMemcpy", 13000, 2, ("cuMemcpy_ptds", "cuMemcpy"))
    for flags in (3, 4, -1):
        look_up(cu, b"cuMemcpy", 13000, flags)


@bare
def without_status(cu: Recorder) -> None:
    """The status pointer may be NULL. The older version of cuGetProcAddress has no status."""
    cu.prepare("cuInit", 0)
    cu.call("cuGetProcAddress_v2", b"cuInit", c_void_p, 13000, 0, None)
    cu.call("cuGetProcAddress_v2", b"cuNothing", c_void_p, 13000, 0, None)
    cu.call("cuGetProcAddress", b"cuInit", c_void_p, 13000, 0)
    cu.call("cuGetProcAddress", b"cuNothing", c_void_p, 13000, 0)


@bare
def before_init(cu: Recorder) -> None:
    """Entry points can be looked up before cuInit, and the result can be called."""
    address = look_up(cu, b"cuDriverGetVersion", 13000)
    version = c_int()
    cu.see("code", ctypes.CFUNCTYPE(c_int, c_void_p)(address)(ctypes.addressof(version)))
    look_up(cu, b"cuMemAlloc", 13000)
    look_up(cu, b"cuNothing", 13000)
