# SPDX-License-Identifier: Apache-2.0
"""DeviceProperties: each property reads the right attribute, with the right type, and no more often than necessary."""

from __future__ import annotations

import copy
import pickle
import pydoc
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from attribute_tables import attributes_of
from cuda.bindings import driver

from cudacore_handles import CUDAError, Device, DeviceProperties
from cudacore_handles._driver import device_properties

TABLE = attributes_of(DeviceProperties)
NEWEST = 147  # the newest attribute that has a property
# Attributes without a property, because CUDA has withdrawn the interfaces that they describe.
WITHDRAWN = {
    "CAN_USE_STREAM_MEM_OPS_V1",
    "CAN_USE_64_BIT_STREAM_MEM_OPS_V1",
    "CAN_USE_STREAM_WAIT_VALUE_NOR_V1",
    "COOPERATIVE_MULTI_DEVICE_LAUNCH",
}
# Attributes whose properties are named for an alias: the attribute's own name in cuda.bindings, and the alias.
RENAMED = {"VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED": "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"}


def cuda_attributes() -> dict[str, int]:
    """Return a dict from the names of properties to the attributes' numbers in cuda.bindings, without aliases."""
    names = {
        member.name.removeprefix("CU_DEVICE_ATTRIBUTE_"): member.value
        for member in driver.CUdevice_attribute
        if member.value <= NEWEST and not member.name.endswith("_MAX")
    }
    return {RENAMED.get(name, name).lower(): number for name, number in names.items() if name not in WITHDRAWN}


def ask(number: int, device: int) -> tuple[int, int]:
    """Return the driver's result code and the value of an attribute, which cuda.bindings may not have."""
    import ctypes

    out = ctypes.c_int(-99)
    code = ctypes.CDLL("libcuda.so.1").cuDeviceGetAttribute(ctypes.byref(out), number, device)
    return code, out.value


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[int, int]]]:
    """Give a function that replaces the driver's query, and returns a list of the queries: (attribute, device)."""

    def install(value: int = 7, status: int = 0) -> list[tuple[int, int]]:
        asked = []

        def cch_device_attribute(out: list[int], attribute: int, device: int) -> int:
            asked.append((attribute, device))
            if status == 0:
                out[0] = value + len(asked) - 1
            return status

        stand_in = SimpleNamespace(cch_device_attribute=cch_device_attribute)
        monkeypatch.setattr(device_properties, "lib", stand_in)
        return asked

    return install


def test_numbers_are_cudas() -> None:
    """A property would return the value of another attribute."""
    known = cuda_attributes()
    assert known["warp_size"] == 10
    # Older bindings also have names that CUDA withdrew: their numbers are reused or undefined.
    assert set(known) - set(TABLE) <= {
        "maximum_texture2d_array_height",
        "maximum_texture2d_array_numslices",
        "maximum_texture2d_array_width",
        "registers_per_block",
        "shared_memory_per_block",
    }
    assert {name: TABLE[name].number for name in known if name in TABLE} == {
        name: number for name, number in known.items() if name in TABLE
    }


def test_table_is_complete() -> None:
    """An attribute of CUDA would have no property. (cuda.bindings for CUDA 12 lacks some attributes.)"""
    assert sorted(attribute.number for attribute in TABLE.values()) == sorted(
        set(range(1, NEWEST + 1)) - {92, 93, 94, 96}
    )


def test_flags_are_bools() -> None:
    """A flag would be printed as a number, or a number would become True."""
    for name, attribute in TABLE.items():
        flag = name.endswith(("_supported", "_enabled")) or name.startswith("can_")
        assert attribute.kind in (int, bool)
        assert attribute.kind is bool or not flag, name
    others = {name for name, attribute in TABLE.items() if attribute.kind is bool}
    others -= {name for name in others if name.endswith(("_supported", "_enabled")) or name.startswith("can_")}
    assert others == {
        "gpu_overlap", "kernel_exec_timeout", "integrated", "concurrent_kernels", "tcc_driver", "unified_addressing",
        "managed_memory", "multi_gpu_board", "pageable_memory_access", "concurrent_managed_access",
        "cooperative_launch", "pageable_memory_access_uses_host_page_tables", "direct_managed_mem_access_from_host",
        "cluster_launch", "unified_function_pointers",
    }  # fmt: skip


def test_every_property_is_documented() -> None:
    """help() and the manual would show a property without a description."""
    for name, attribute in TABLE.items():
        assert attribute.name == name
        assert attribute.__doc__.startswith(f"{attribute.kind.__name__}: "), name
        assert attribute.__doc__.endswith("."), name
    assert DeviceProperties.clock_rate.__doc__ == "int: Typical clock frequency, in kilohertz."


def test_help_shows_properties() -> None:
    """help() would list the properties of a device without their descriptions."""
    text = pydoc.plain(pydoc.render_doc(DeviceProperties))
    assert "warp_size\n |      int: Number of threads in a warp." in text
    assert "int: Number of threads in a warp." in pydoc.plain(pydoc.render_doc(DeviceProperties.warp_size))


def test_properties_are_read_only(answers: Callable[..., list[tuple[int, int]]]) -> None:
    """An assignment would be accepted silently, and hide the device's value."""
    answers(value=32)
    properties = DeviceProperties._with(_device_id=0)
    for _ in range(2):  # before and after the first use
        with pytest.raises(AttributeError, match="warp_size is read-only"):
            properties.warp_size = 64
        assert properties.warp_size == 32
    with pytest.raises(AttributeError, match="'DeviceProperties' object has no attribute 'warp_sizes'"):
        properties.warp_sizes = 64


def test_properties_can_be_copied(device: Device) -> None:
    """A copy, or an object in another process, would have no values, or accept assignments."""
    for made in (copy.copy(device.properties), pickle.loads(pickle.dumps(device.properties))):
        assert made.warp_size == device.properties.warp_size
        assert made.max_block_dim_x == device.properties.max_block_dim_x
        with pytest.raises(AttributeError, match="warp_size is read-only"):
            made.warp_size = 64


def test_constant_attributes_are_asked_once(answers: Callable[..., list[tuple[int, int]]]) -> None:
    """A constant property would call the driver each time it is read, or devices would share its value."""
    asked = answers(value=32)
    first, second = DeviceProperties._with(_device_id=0), DeviceProperties._with(_device_id=1)
    assert [first.warp_size, first.warp_size, second.warp_size] == [32, 32, 33]
    assert asked == [(10, 0), (10, 1)]


def test_compute_mode_is_asked_each_time(answers: Callable[..., list[tuple[int, int]]]) -> None:
    """A property would never show a change of the compute mode."""
    answers(value=2)
    properties = DeviceProperties._with(_device_id=0)
    assert [properties.compute_mode, properties.compute_mode] == [2, 3]


def test_an_attribute_that_the_driver_does_not_know(answers: Callable[..., list[tuple[int, int]]]) -> None:
    """For an attribute that an old driver lacks, the error would be INVALID_VALUE, or False would be returned."""
    asked = answers(status=1)
    properties = DeviceProperties._with(_device_id=0)
    for _ in range(2):
        with pytest.raises(CUDAError, match="does not have the property 'host_memory_pools_supported'") as info:
            _ = properties.host_memory_pools_supported
        assert info.value.code == 1
    assert len(asked) == 2


def test_other_errors_have_no_such_hint(answers: Callable[..., list[tuple[int, int]]]) -> None:
    """The error for a missing device would be about the driver's version."""
    answers(status=101)
    with pytest.raises(CUDAError) as info:
        _ = DeviceProperties._with(_device_id=9).warp_size
    assert info.value.code == 101
    assert "too old" not in str(info.value)


def test_values_are_the_drivers(device: Device) -> None:
    """A property would differ from the driver's attribute."""
    properties = DeviceProperties._with(_device_id=device.device_id)
    for name, attribute in TABLE.items():
        code, value = ask(attribute.number, device.device_id)
        if code:
            with pytest.raises(CUDAError, match=f"does not have the property '{name}'"):
                getattr(properties, name)
            continue
        got = getattr(properties, name)
        assert type(got) is attribute.kind, name
        assert got == (value if attribute.kind is int else bool(value)), name
        assert attribute.kind is int or value in (0, 1), name
