# SPDX-License-Identifier: Apache-2.0
"""The types of options that are given as dicts, for type checkers. A test compares them with the dataclasses."""

import os
from collections.abc import Mapping, Sequence
from typing import TypedDict

from cudacore_compile.typing import MacroType

class LinkerOptionsDict(TypedDict, total=False):
    """The fields of :class:`LinkerOptions`."""

    name: str | None
    arch: str | int | None
    max_register_count: int | None
    time: bool | None
    verbose: bool | None
    link_time_optimization: bool | None
    ptx: bool | None
    optimization_level: int | None
    debug: bool | None
    lineinfo: bool | None
    ftz: bool | None
    prec_div: bool | None
    prec_sqrt: bool | None
    fma: bool | None
    kernels_used: str | list[str] | tuple[str, ...] | None
    variables_used: str | list[str] | tuple[str, ...] | None
    optimize_unused_variables: bool | None
    ptxas_options: str | list[str] | tuple[str, ...] | None
    split_compile: int | bool | None
    split_compile_extended: int | bool | None
    no_cache: bool | None
    numba_debug: bool | None

class ProgramOptionsDict(TypedDict, total=False):
    """The fields of :class:`ProgramOptions`."""

    name: str | None
    arch: str | int | None
    relocatable_device_code: bool | None
    extensible_whole_program: bool | None
    debug: bool | None
    lineinfo: bool | None
    device_code_optimize: bool | None
    ptxas_options: str | list[str] | tuple[str, ...] | None
    max_register_count: int | None
    ftz: bool | None
    prec_sqrt: bool | None
    prec_div: bool | None
    fma: bool | None
    use_fast_math: bool | None
    extra_device_vectorization: bool | None
    link_time_optimization: bool | None
    gen_opt_lto: bool | None
    define_macro: MacroType | Sequence[MacroType] | Mapping[str, str | float | None] | None
    undefine_macro: str | list[str] | tuple[str, ...] | None
    include_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
    use_bundled_headers: bool | None
    pre_include: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
    no_source_include: bool | None
    std: str | None
    builtin_move_forward: bool | None
    builtin_initializer_list: bool | None
    disable_warnings: bool | None
    restrict: bool | None
    device_as_default_execution_space: bool | None
    device_int128: bool | None
    optimization_info: str | None
    no_display_error_number: bool | None
    diag_error: int | list[int] | tuple[int, ...] | None
    diag_suppress: int | list[int] | tuple[int, ...] | None
    diag_warn: int | list[int] | tuple[int, ...] | None
    brief_diagnostics: bool | None
    time: str | os.PathLike[str] | bool | None
    split_compile: int | bool | None
    fdevice_syntax_only: bool | None
    minimal: bool | None
    no_cache: bool | None
    fdevice_time_trace: str | os.PathLike[str] | None
    device_float128: bool | None
    frandom_seed: str | int | None
    ofast_compile: str | None
    pch: bool | None
    create_pch: str | os.PathLike[str] | None
    use_pch: str | os.PathLike[str] | None
    pch_dir: str | os.PathLike[str] | None
    pch_verbose: bool | None
    pch_messages: bool | None
    instantiate_templates_in_pch: bool | None
    extra_sources: Sequence[tuple[str, str | bytes | bytearray]] | None
    use_libdevice: bool | None
    numba_debug: bool | None
    raw_options: str | list[str] | tuple[str, ...] | None
