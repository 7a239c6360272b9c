# SPDX-License-Identifier: Apache-2.0
"""Numbers and structure layouts that the Python code repeats from C headers."""

from __future__ import annotations

import pytest
from cuda.bindings import driver

from cudacore_handles import ParamKind, _native
from cudacore_handles._base import results
from cudacore_handles._base.declarations import struct_of
from cudacore_handles._cffi import ffi


def test_results_are_those_of_cuda() -> None:
    """A result code of the driver would be mistaken for another one."""
    ours = {name: value for name, value in vars(results).items() if name.isupper()}
    assert len(ours) > 5
    assert ours == {name: int(getattr(driver.CUresult, f"CUDA_ERROR_{name}")) for name in ours}


@pytest.mark.parametrize("name", ["cch_copy_shape", "cch_copy_attributes"])
def test_structures_are_packed_as_c_has_them(name: str) -> None:
    """After a field of a structure is added or moved, values would be written into the wrong fields."""
    made = struct_of(name)
    fields = ffi.typeof(name).fields
    filled = ffi.from_buffer(f"{name} *", made.pack(*range(1, len(fields) + 1)))
    assert [getattr(filled, field) for field, _ in fields] == list(range(1, len(fields) + 1))


def test_kinds_of_parameters_are_those_of_c() -> None:
    """An argument would be converted for another kind of parameter than the kernel has."""
    assert {name for name, _ in _native.PARAM_KINDS} == {kind.value for kind in ParamKind}
