# SPDX-License-Identifier: Apache-2.0
"""Closed sets of names that cudacore's functions take and return, and the types of their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cudacore_compile.typing as _compile
import cudacore_graph.typing as _graph
import cudacore_handles.typing as _handles
from cudacore_compile.typing import *  # noqa: F403
from cudacore_graph.typing import *  # noqa: F403
from cudacore_handles import DeviceResourcesType, IsStreamType, ParamKind
from cudacore_handles._sdk import finish_module as _finish_module
from cudacore_handles.typing import *  # noqa: F403

if TYPE_CHECKING:
    from typing import SupportsInt, TypeAlias

    # For type checkers, this stands for ``CUdeviceptr | int | None``, because cuda.bindings has no types.
    DevicePointerType: TypeAlias = SupportsInt | None

__all__ = ["DevicePointerType", "DeviceResourcesType", "IsStreamType", "ParamKind"]
__all__ += _compile.__all__
__all__ += _graph.__all__
__all__ += _handles.__all__
_finish_module(globals())


if not TYPE_CHECKING:  # otherwise, type checkers would accept any name
    _get = globals()["__getattr__"]

    def __getattr__(name: str) -> object:
        if name == "DevicePointerType":  # importing cudacore does not import cuda.bindings
            from cuda.bindings import driver

            globals()[name] = driver.CUdeviceptr | int | None
            return globals()[name]
        return _get(name)
