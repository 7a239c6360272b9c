# SPDX-License-Identifier: Apache-2.0
"""cuGetProcAddress returns exactly the requested version."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from facts import H200

TABLE = Path(__file__).parents[3] / "src" / "sim" / "driver" / "base" / "entry_points.inc"
ROWS = [
    (name, int(version), symbol, threaded == "true")
    for name, version, symbol, threaded in re.findall(r"SIM_VERSION\((\w+), (\d+), (\w+), (\w+)\)", TABLE.read_text())
]
SUCCESS, NOT_FOUND, TOO_OLD = 0, 1, 2


def look_up(driver: Any, name: str, version: int, flags: int = 0) -> tuple[int, int, int | None]:
    entry, status = ctypes.c_void_p(), ctypes.c_int(-1)
    wide = ctypes.c_uint64(flags)
    code = driver.code("cuGetProcAddress_v2", name.encode(), ctypes.byref(entry), version, wide, ctypes.byref(status))
    return code, status.value, entry.value


def test_all_versions(driver: Any) -> None:
    """A program would get another version of a function than it requests, and call it with wrong parameters."""
    newest: dict[tuple[str, bool], list[tuple[int, str]]] = defaultdict(list)
    for name, version, symbol, threaded in ROWS:
        newest[name, threaded].append((max(version, 7000) if threaded else version, symbol))
    for (name, threaded), versions in newest.items():
        for version, _ in versions:
            if version > 13000:
                continue
            symbol = [candidate for since, candidate in versions if since <= version][-1]
            address = ctypes.cast(getattr(driver.library, symbol), ctypes.c_void_p).value
            assert look_up(driver, name, version, 2 if threaded else 1) == (0, SUCCESS, address), (name, version)


def test_versions_before_the_first(driver: Any) -> None:
    """A program would get a function that is newer than the CUDA version that it requests."""
    for name, version, code, status in H200["proc_address_below"]:
        assert look_up(driver, name, version)[:2] == (code, status), name


@pytest.mark.parametrize("name", ["cuFoo", "cuMemAlloc_v2", "cuStreamSynchronize_ptsz", ""])
def test_unknown_names(driver: Any, name: str) -> None:
    """A name that is not the base name of a function would be resolved."""
    assert look_up(driver, name, 13000) == (0, NOT_FOUND, None)


def test_newer_than_the_driver(driver: Any) -> None:
    """Functions of a newer driver would be found, or a CUDA version newer than the driver would be accepted."""
    assert look_up(driver, "cuKernelGetParamCount", 13000)[1] == NOT_FOUND
    assert look_up(driver, "cuMemAlloc", 13010)[0] == 1


def test_legacy_name(driver: Any) -> None:
    """A program for CUDA 11, which calls the old cuGetProcAddress, would not find its functions."""
    entry = ctypes.c_void_p()
    assert driver.code("cuGetProcAddress", b"cuInit", ctypes.byref(entry), 11030, ctypes.c_uint64(0)) == 0
    assert driver.code("cuGetProcAddress", b"cuFoo", ctypes.byref(entry), 11030, ctypes.c_uint64(0)) == 500


def test_what_is_not_simulated(cuda: Any) -> None:
    """An entry point that is not simulated would return success, or its calls would be missing in the log."""
    import cudacore_sim

    with cudacore_sim.logging() as calls:
        assert cuda.code("cuMulticastCreate", None, None) == 801
    assert [(call.name, call.result) for call in calls] == [("cuMulticastCreate", 801)]


@pytest.mark.parametrize(("kind", "place", "first"), [(1, 1, "12.0"), (1, 3, "12.2"), (1, 2, "12.6"), (2, 1, "13.0")])
def test_pools_of_older_drivers(kind: int, place: int, first: str) -> None:
    """A driver that is too old for pools of host memory or managed memory would create such a pool."""
    code = f"""
import ctypes, cudacore_sim
cuda = cudacore_sim.load()
properties, pool = (ctypes.c_uint8 * 88)(), ctypes.c_void_p()
ctypes.memmove(properties, (ctypes.c_int * 4)({kind}, 0, {place}, 0), 16)
assert cuda.cuInit(0) == 0
print(cuda.cuMemPoolCreate(ctypes.byref(pool), properties))
"""
    for driver in ("12.0", "12.2", "12.6", "13.0"):
        env = os.environ | {"CUDACORE_SIM_DRIVER_VERSION": driver}
        result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert result.stdout == ("0\n" if float(driver) >= float(first) else "1\n"), driver
