# SPDX-License-Identifier: Apache-2.0
"""Options of the linker."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields

from cudacore_compile._compilers import option_values as values
from cudacore_compile._compilers.option_values import encode
from cudacore_compile._compilers.option_values import flag_field as _flag
from cudacore_compile._compilers.targets import check_backend
from cudacore_compile.typing import CompilerBackendName, CompilerBackendType
from cudacore_handles._sdk import constructor_level, public


def _level(field: str, value: object) -> list[str]:
    level = values.integer(field, value, 0, 3)
    if level not in (0, 3):
        raise ValueError(f"{field}={level}: nvJitLink has the levels 0 and 3")
    return [str(level)]


@public
@dataclass(repr=False)
class LinkerOptions(values.FlagOptions):
    """Options of the linker.

    Options that are None are not passed to the linker, which has its own defaults. All values are checked when the
    object is created, and again when it is used. The flags below are nvJitLink's. The driver's linker supports `arch`,
    `max_register_count`, `time`, `verbose`, `optimization_level`, `debug`, `lineinfo` and `no_cache`. When the driver's
    linker is used, any other option is an error that explains why nvJitLink was not used.

    Parameters
    ----------
    name : str, optional
        The name of the linked code. Default ``"<default linker>"``.
    arch : str or int, optional
        The GPU architecture, as :attr:`ProgramOptions.arch`. Default: the current device's. ``-arch=``.
    max_register_count : int, optional
        Maximum number of registers per thread. ``-maxrregcount=``.
    time : bool, optional
        Write the times of the phases to the info log. ``-time``.
    verbose : bool, optional
        Write the linker's steps to the info log. ``-verbose``.
    link_time_optimization : bool, optional
        Optimize LTO-IR as a whole. Default: True if there is LTO-IR. ``-lto``.
    ptx : bool, optional
        Link to PTX, which is possible only for LTO-IR. The target ``"ptx"`` implies it. ``-ptx``.
    optimization_level : int, optional
        0 or 3. ``-O``.
    debug : bool, optional
        Generate debug information. ``-g``.
    lineinfo : bool, optional
        Generate line numbers. ``-lineinfo``.
    ftz, prec_div, prec_sqrt, fma : bool, optional
        Arithmetic of LTO-IR, as in :class:`ProgramOptions`. Other code is compiled already: without LTO-IR, these have
        no effect, and a RuntimeWarning is given. ``-ftz={1|0}`` and so on.
    kernels_used, variables_used : str or list of str, optional
        Lowered names of the kernels and variables that are used: with link-time optimization, others can be removed.
        ``-kernels-used=``, ``-variables-used=``.
    optimize_unused_variables : bool, optional
        Remove variables that no device code refers to. ``-optimize-unused-variables``.
    ptxas_options : str or list of str, optional
        Options of the assembler, one per item. ``-Xptxas=``.
    split_compile, split_compile_extended : int or bool, optional
        Maximum number of threads to optimize with; 0 or True for the number of processors. ``-split-compile=``,
        ``-split-compile-extended=``.
    no_cache : bool, optional
        Do not use the linker's own cache. ``-no-cache``.
    numba_debug : bool, optional
        Ignored with a DeprecationWarning, because no linker has such an option.

    Raises
    ------
    TypeError, ValueError
        If an option has an invalid value; the error names the option.
    """

    name: str | None = "<default linker>"
    arch: str | int | None = None
    max_register_count: int | None = _flag("-maxrregcount", values.register_count)
    time: bool | None = _flag("-time", values.switch)
    verbose: bool | None = _flag("-verbose", values.switch)
    link_time_optimization: bool | None = _flag("-lto", values.switch)
    ptx: bool | None = _flag("-ptx", values.switch)
    optimization_level: int | None = _flag("-O", _level)
    debug: bool | None = _flag("-g", values.switch)
    lineinfo: bool | None = _flag("-lineinfo", values.switch)
    ftz: bool | None = _flag("-ftz", values.one_or_zero)
    prec_div: bool | None = _flag("-prec-div", values.one_or_zero)
    prec_sqrt: bool | None = _flag("-prec-sqrt", values.one_or_zero)
    fma: bool | None = _flag("-fma", values.one_or_zero)
    kernels_used: str | list[str] | tuple[str, ...] | None = _flag("-kernels-used", values.texts)
    variables_used: str | list[str] | tuple[str, ...] | None = _flag("-variables-used", values.texts)
    optimize_unused_variables: bool | None = _flag("-optimize-unused-variables", values.switch)
    ptxas_options: str | list[str] | tuple[str, ...] | None = _flag("-Xptxas", values.texts)
    split_compile: int | bool | None = _flag("-split-compile", values.thread_count, since="12.3")
    split_compile_extended: int | bool | None = _flag("-split-compile-extended", values.thread_count, since="12.3")
    no_cache: bool | None = _flag("-no-cache", values.switch, since="12.5")
    numba_debug: bool | None = _flag("", values.only_checked)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.numba_debug:
            warnings.warn(
                "LinkerOptions.numba_debug is without effect, because no linker has it: set ProgramOptions.numba_debug",
                DeprecationWarning,
                stacklevel=constructor_level(),
            )

    def as_bytes(self, backend: CompilerBackendType | CompilerBackendName = "nvjitlink") -> list[bytes]:
        """Return the options for nvJitLink, one per item.

        Raises
        ------
        ValueError
            For a linker other than nvJitLink: the driver's linker takes numbers instead of flags.
        CUDAError
            If `arch` is not set and there is no device.
        """
        if check_backend(backend) is not CompilerBackendType.NVJITLINK:
            raise ValueError(f"only nvJitLink has flags to be returned as bytes, not {str(backend)!r}")
        return [encode(flag) for flag in (f"-arch={self._arch()}", *self._flags())]

    def _arch(self) -> str:
        if self.arch is None:
            return f"sm_{values.current_arch()}"
        return "_".join(values.architecture("LinkerOptions.arch", self.arch))

    def _of_nvjitlink_only(self) -> list[str]:
        """Return the fields that are set, and that the driver's linker does not support."""
        return [
            field
            for field in values.flags_in(LinkerOptions)
            if field not in _OF_DRIVER and getattr(self, field) is not None and getattr(self, field) is not False
        ]

    def _without_effect(self) -> list[str]:
        """Return the fields that are set, and that have no effect without LTO-IR."""
        return [field for field in ("ftz", "prec_div", "prec_sqrt", "fma") if getattr(self, field) is not None]


_OF_DRIVER = {"max_register_count", "time", "verbose", "optimization_level", "debug", "lineinfo", "no_cache"}


def newer_fields(flags: Sequence[bytes], version: tuple[int, int]) -> dict[str, str]:
    """Return the fields of LinkerOptions that an nvJitLink is too old for, with the first version that has the flag."""
    given = {flag.partition(b"=")[0].decode() for flag in flags}
    named = {field.name: field.metadata for field in fields(LinkerOptions) if field.metadata.get("flag") in given}
    return {
        name: about["since"] for name, about in named.items() if version < tuple(map(int, about["since"].split(".")))
    }
