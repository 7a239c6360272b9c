# SPDX-License-Identifier: Apache-2.0
"""What compiled code can say of its kernels and variables; see _code_contents.py, which is imported to read it."""

from __future__ import annotations

from typing import NamedTuple

from cudacore_handles._code.kernel import ParamInfo


class KernelInfo(NamedTuple):
    """Describe a kernel of compiled code.

    Parameters
    ----------
    symbol : str
        Its (mangled) name in the code.
    name : str
        Its C++ name, with its parameters; the symbol where that is not mangled.
    parameters : tuple of ParamInfo
        Offset, size and kind of each parameter.
    registers : int or None
        Registers that a thread uses; None for PTX, which the driver is still to compile, as for all below.
    shared_bytes : int or None
        Static shared memory of a block, without what the system reserves.
    local_bytes : int or None
        Local memory of a thread, its stack.
    max_threads : int or None
        The most threads of a block that ``__launch_bounds__`` allows; None too where it says nothing.
    """

    symbol: str
    name: str
    parameters: tuple[ParamInfo, ...]
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    max_threads: int | None = None


class GlobalInfo(NamedTuple):
    """Describe a variable of compiled code.

    Parameters
    ----------
    symbol : str
        Its (mangled) name in the code.
    name : str
        Its C++ name.
    size : int
        Bytes.
    space : str
        ``"global"`` or ``"constant"``.
    """

    symbol: str
    name: str
    size: int
    space: str


class CodeContents(NamedTuple):
    """What is in code."""

    kernels: tuple[KernelInfo, ...]
    globals: tuple[GlobalInfo, ...]
    arch: str
