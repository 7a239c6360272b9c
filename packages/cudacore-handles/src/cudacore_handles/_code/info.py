# SPDX-License-Identifier: Apache-2.0
"""Information about kernels and variables in compiled code; contents.py reads it."""

from __future__ import annotations

from typing import NamedTuple

from cudacore_handles._base.module_attributes import public
from cudacore_handles._code.param_kinds import ParamInfo


@public
class KernelInfo(NamedTuple):
    """A kernel of compiled code.

    Parameters
    ----------
    symbol : str
        The kernel's (mangled) name in the code.
    name : str
        The kernel's C++ name with its parameters; the symbol if that is not mangled.
    parameters : tuple of ParamInfo
        Offset, size and kind of each parameter.
    registers : int or None
        Registers per thread. None for PTX, because the driver compiles it later; the fields below are None then, too.
    shared_bytes : int or None
        Static shared memory of a block, without the part that the system reserves.
    local_bytes : int or None
        Local memory of a thread: its stack.
    max_threads : int or None
        The maximum number of threads of a block, from ``__launch_bounds__``; None if the kernel has no such bound.
    """

    symbol: str
    name: str
    parameters: tuple[ParamInfo, ...]
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    max_threads: int | None = None


@public
class GlobalInfo(NamedTuple):
    """A variable of compiled code.

    Parameters
    ----------
    symbol : str
        The variable's (mangled) name in the code.
    name : str
        The variable's C++ name.
    size : int
        Size in bytes.
    space : str
        ``"global"`` or ``"constant"``.
    """

    symbol: str
    name: str
    size: int
    space: str


class CodeContents(NamedTuple):
    """The kernels and variables of some code."""

    kernels: tuple[KernelInfo, ...]
    globals: tuple[GlobalInfo, ...]
    arch: str
