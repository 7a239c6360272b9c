# SPDX-License-Identifier: Apache-2.0
"""The simulated NVML, as programs load it."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cudacore_sim

NOT_SUPPORTED = 3
Python = Callable[..., Any]


class Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64))


@pytest.fixture(scope="module")
def library(driver: Any) -> ctypes.CDLL:
    """Return NVML, loaded by its usual name, after the driver was loaded."""
    found = ctypes.CDLL("libnvidia-ml.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    assert found.nvmlInit_v2() == 0
    return found


def test_all_functions_of_the_bindings(library: ctypes.CDLL) -> None:
    """A function that cuda.bindings looks up would be missing, instead of returning "not supported"."""
    internal = pytest.importorskip("cuda.bindings._internal.nvml", reason="this cuda.bindings has no NVML")
    names = set(re.findall(rb"\0(nvml[A-Z]\w+)(?=\0)", Path(internal.__file__).read_bytes()))
    assert len(names) > 300
    assert [name for name in sorted(names) if not hasattr(library, name.decode())] == []


def test_structures() -> None:
    """A structure would differ in size from NVML's, so that a call writes beyond the caller's memory."""
    nvml = pytest.importorskip("cuda.bindings.nvml", reason="this cuda.bindings has no NVML")
    sizes = {"memory": 24, "memory_v2": 40, "pci_info": 68, "pci_info_ext_v1": 64, "process_info": 24}
    assert {name: getattr(nvml, f"{name}_dtype").itemsize for name in sizes} == sizes
    assert int(nvml.BrandType.NVIDIA) == 14
    assert int(nvml.Return.ERROR_ARGUMENT_VERSION_MISMATCH) == 25


def test_devices(library: ctypes.CDLL, cuda: Any) -> None:
    """A device would have a name or an address that differs from the driver's."""
    handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
    assert library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
    assert library.nvmlDeviceGetName(handle, text, len(text)) == 0
    name = ctypes.create_string_buffer(96)
    cuda.cuDeviceGetName(name, len(name), 0)
    assert text.value == name.value
    bus = ctypes.create_string_buffer(32)
    cuda.cuDeviceGetPCIBusId(bus, len(bus), 0)
    same = ctypes.c_void_p()
    assert library.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(same)) == 0
    assert same.value == handle.value
    assert library.nvmlDeviceGetName(handle, text, 3) == 7  # insufficient size
    assert library.nvmlDeviceGetName(ctypes.c_void_p(8), text, len(text)) == 2  # not a handle of this library


def test_memory(library: ctypes.CDLL, cuda: Any) -> None:
    """Memory that the program allocates would not count as used."""
    handle, before, after = ctypes.c_void_p(), Memory(), Memory()
    assert library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
    assert library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(before)) == 0
    address = cuda.malloc(8 << 20)
    assert library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(after)) == 0
    assert (after.used - before.used, after.total - after.free) == (8 << 20, after.used)
    cuda.cuMemFree_v2(address)


@pytest.mark.parametrize("name", ["nvmlDeviceGetUtilizationRates", "nvmlDeviceGetClock", "nvmlEventSetCreate"])
def test_all_else(library: ctypes.CDLL, name: str) -> None:
    """A query for a value that is not simulated would return some number instead of an error."""
    out = ctypes.create_string_buffer(64)
    assert getattr(library, name)(None, out, out, out) == NOT_SUPPORTED


def test_hidden_devices_and_use_before_init(run_python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML would apply CUDA_VISIBLE_DEVICES, which the real one ignores, or would work before nvmlInit."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    result = run_python(
        f"""
        nvml = ctypes.CDLL({str(Path(cudacore_sim.get_library()).with_name("libnvidia-ml.so.1"))!r})
        count, text = ctypes.c_uint(), ctypes.create_string_buffer(80)
        codes = [nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), nvml.nvmlDeviceGetClock(), nvml.nvmlShutdown()]
        assert codes == [1, 1, 1], codes
        assert nvml.nvmlInit_v2() == 0
        assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
        assert nvml.nvmlSystemGetDriverVersion(text, len(text)) == 0
        assert nvml.nvmlShutdown() == 0
        assert nvml.nvmlShutdown() == 1
        print(count.value, text.value.decode())
        """,
        DEVICES=3,
        DRIVER_VERSION="12.4",
    )
    assert (result.returncode, result.stdout) == (0, "3 550.00\n"), result.stderr
