# SPDX-License-Identifier: Apache-2.0
"""Options of the compilers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from cudacore_compile._compilers import option_values as values
from cudacore_compile._compilers.option_values import encode
from cudacore_compile._compilers.option_values import flag_field as _flag
from cudacore_compile._compilers.targets import BACKENDS, check_backend, check_target
from cudacore_compile.typing import (
    CompilerBackendName,
    CompilerBackendType,
    CompileTargetName,
    MacroType,
    ObjectCodeFormatType,
    SourceCodeType,
)
from cudacore_handles._sdk import public

if TYPE_CHECKING:
    from cudacore_compile._compilers.linker_options import LinkerOptions

_LTO = "--dlink-time-opt"
_BUNDLED_HEADERS = "--use-bundled-headers"
LETTERS = {"-D": "define_macro", "-U": "undefine_macro", "-I": "include_path"}
"""dict: Fields by options whose value can follow without a space."""


@public
@dataclass(repr=False)
class ProgramOptions(values.FlagOptions):
    """Options of a compilation.

    Options that are None are not passed to the compiler, which has its own defaults. All values are checked when the
    object is created, and again when it is used. A bool either turns a switch on (then False is the same as None), or
    is passed as a value, which is shown below as ``{true|false}``.

    The flags are NVRTC's. NVVM programs support `name`, `arch`, `debug` (``-g``), `device_code_optimize` (``-opt=3``,
    False is ``-opt=0``), `ftz`, `prec_sqrt`, `prec_div`, `fma`, `link_time_optimization`, `numba_debug`, `no_cache`
    (which NVVM does not have), `extra_sources`, `use_libdevice` and `raw_options`. PTX programs support `name`, `arch`,
    `max_register_count`, `debug`, `lineinfo`, `device_code_optimize`, `ptxas_options`, `split_compile`, `no_cache` and
    `time` (True), which are passed to the linker; `ftz`, `prec_sqrt`, `prec_div` and `fma` have no effect there. So
    that one set of options can be used for programs of all types, some options are ignored, and one RuntimeWarning
    names them: for PTX programs all other options except `extra_sources` and `raw_options`; for C++ `use_libdevice`;
    for NVVM programs the options for precompiled headers, `fdevice_time_trace`, `frandom_seed`, `ofast_compile` and
    `device_float128`. Any other unsupported option is a ValueError.

    Parameters
    ----------
    name : str, optional
        The name of the program in diagnostics and debug information. If it contains a directory, the compiler also
        searches that directory for included files. Default ``"default_program"``.
    arch : str or int, optional
        The GPU architecture to compile for: ``"sm_90"``, ``"compute_90"``, a variant such as ``"sm_90a"`` or
        ``"sm_100f"``, or the number alone, which means ``sm_``. Default: the current device's. ``-arch``.
    relocatable_device_code : bool, optional
        Make code that can be linked with other device code. ``--relocatable-device-code={true|false}``.
    extensible_whole_program : bool, optional
        Compile the program as a whole, open to later linking. ``--extensible-whole-program``.
    debug : bool, optional
        Generate debug information; optimize only if `device_code_optimize` is set, too. ``--device-debug``.
    lineinfo : bool, optional
        Generate line numbers. ``--generate-line-info``.
    device_code_optimize : bool, optional
        Optimize, even with `debug`. ``--dopt=on``.
    ptxas_options : str or list of str, optional
        Options of the assembler, one per item, such as ``["-v", "-O3"]``. ``--ptxas-options=``.
    max_register_count : int, optional
        Maximum number of registers per thread. ``--maxrregcount=``.
    ftz : bool, optional
        Flush single-precision denormals to zero. ``--ftz={true|false}``.
    prec_sqrt : bool, optional
        Round single-precision square roots as IEEE 754 does. ``--prec-sqrt={true|false}``.
    prec_div : bool, optional
        Round single-precision divisions as IEEE 754 does. ``--prec-div={true|false}``.
    fma : bool, optional
        Contract multiplications and additions. ``--fmad={true|false}``.
    use_fast_math : bool, optional
        Use fast, less exact mathematics. In NVRTC 13.5, it also changes some double-precision functions of programs
        that are compiled later in the process for sm_100 and up. ``--use_fast_math``.
    extra_device_vectorization : bool, optional
        Vectorize more aggressively. ``--extra-device-vectorization``.
    link_time_optimization : bool, optional
        Compile to LTO-IR. The target ``"ltoir"`` implies this option; other targets refuse it. ``--dlink-time-opt``.
    gen_opt_lto : bool, optional
        Optimize before generating LTO-IR. ``--gen-opt-lto``.
    define_macro : str or tuple of (str, str or int or float), or list of these, or mapping, optional
        Macros to define: ``"NAME"``, ``"NAME=value"``, ``("NAME", "value")`` or ``{"NAME": value}``, where None means
        no value. ``--define-macro=``.
    undefine_macro : str or list of str, optional
        Macros to undefine. ``--undefine-macro=``.
    include_path : path or list of paths, optional
        Directories to search for headers. CUDA's own headers are found without it if their wheels are installed; for
        those of a toolkit, add :func:`cuda_include_path`. ``--include-path=``.
    use_bundled_headers : bool, optional
        Let the program include the headers of CUDA and of CCCL that are bundled with NVRTC 13.3 and later. They are
        unpacked once into the user's cache directory (``$XDG_CACHE_HOME``, or ``~/.cache``).
        ``--use-bundled-headers=``.
    pre_include : path or list of paths, optional
        Files to include before the program. ``--pre-include=``.
    no_source_include : bool, optional
        Do not search the directory of `name` for included files. ``--no-source-include``.
    std : str, optional
        The language: ``"c++17"``, ``"c++20"``, ... ``--std=``.
    builtin_move_forward : bool, optional
        Provide ``std::move`` and ``std::forward``. ``--builtin-move-forward={true|false}``.
    builtin_initializer_list : bool, optional
        Provide ``std::initializer_list``. ``--builtin-initializer-list={true|false}``.
    disable_warnings : bool, optional
        Keep warnings out of the log. ``--disable-warnings``.
    restrict : bool, optional
        Treat all pointer parameters of kernels as restrict pointers. NVRTC keeps this option for all programs that are
        compiled later in the process, so it gives a RuntimeWarning: write ``__restrict__`` in the source instead.
        ``--restrict``.
    device_as_default_execution_space : bool, optional
        Treat functions and variables without annotation as ``__device__`` ones.
        ``--device-as-default-execution-space``.
    device_int128 : bool, optional
        Allow ``__int128``. ``--device-int128``.
    optimization_info : str, optional
        The kind of optimizations to report in the log: ``"inline"``. NVRTC keeps this option for all programs that are
        compiled later in the process. ``--optimization-info=``.
    no_display_error_number : bool, optional
        Leave the numbers of warnings out of the log. ``--no-display-error-number``.
    diag_error, diag_suppress, diag_warn : int or list of int, optional
        Numbers of diagnostics to turn into errors, to suppress, or to turn into warnings. ``--diag-error=``,
        ``--diag-suppress=``, ``--diag-warn=``.
    brief_diagnostics : bool, optional
        Leave source lines out of diagnostics. ``--brief-diagnostics={true|false}``.
    time : path or bool, optional
        A CSV file to which the times of the compiler's phases are appended; True or ``"-"`` is the log. ``--time=``.
    split_compile : int or bool, optional
        Maximum number of threads to optimize with; 0 or True for the number of processors. ``--split-compile=``.
    fdevice_syntax_only : bool, optional
        Check the syntax only; the output has no kernels. ``--fdevice-syntax-only``.
    minimal : bool, optional
        Leave out textures, surfaces and the runtime's types and functions, to compile faster. ``--minimal``.
    no_cache : bool, optional
        Do not use the compiler's own cache. NVRTC 12.9 and later have one in the driver, and load and initialize the
        driver for it; set this to keep CUDA uninitialized, for example before a fork. The cache is never used
        together with a program cache, because its code can depend on options of other libraries. ``--no-cache``.
    fdevice_time_trace : path, optional
        A JSON file for a profile of the compiler, for chrome://tracing. ``--fdevice-time-trace=``.
    device_float128 : bool, optional
        Allow ``__float128``, on architectures from sm_100 on. ``--device-float128``.
    frandom_seed : str or int, optional
        A seed for generated names, so that they are reproducible. ``--frandom-seed=``.
    ofast_compile : str, optional
        How much speed to trade for compile time: ``"0"``, ``"min"``, ``"mid"`` or ``"max"``. ``--Ofast-compile=``.
    pch : bool, optional
        Make and use precompiled headers automatically; see :attr:`Program.pch_status`. If NVRTC's heap for them is too
        small, it is enlarged. NVRTC does not detect changes of a header within one process: set another `pch_dir` after
        a change, or omit this option. Program caches store no code that was compiled with it. ``--pch``.
    create_pch : path, optional
        The precompiled header to make. ``--create-pch=``.
    use_pch : path, optional
        The precompiled header to use. ``--use-pch=``.
    pch_dir : path, optional
        The directory of precompiled headers. With `pch`, each process uses a folder of its own in this directory, or in
        the one for temporary files, and removes it when it ends. ``--pch-dir=``.
    pch_verbose : bool, optional
        Write to the log why a precompiled header could not be used. ``--pch-verbose={true|false}``.
    pch_messages : bool, optional
        Write to the log when a precompiled header is made or used. ``--pch-messages={true|false}``.
    instantiate_templates_in_pch : bool, optional
        Instantiate templates before a precompiled header is made. ``--instantiate-templates-in-pch={true|false}``.
    extra_sources : list of (str, str or bytes), optional
        Further NVVM modules, by name, text or bitcode, to link the program with. For NVVM IR only.
    use_libdevice : bool, optional
        Link with libdevice, the library of mathematical functions. For NVVM IR only; C++ always has it.
    numba_debug : bool, optional
        Generate the debug information that Numba needs; needs `debug`, and NVRTC 13.2 or the libNVVM of CUDA 13.1.
        ``--numba-debug``.
    raw_options : str or list of str, optional
        Options of the compiler that have no field here, such as ``["--fmax-errors=3"]``. They disable program caches.

    Raises
    ------
    TypeError, ValueError
        If an option has an invalid value; the error names the option.
    """

    name: str | None = "default_program"
    arch: str | int | None = None
    relocatable_device_code: bool | None = _flag("--relocatable-device-code", values.true_or_false, "-rdc")
    extensible_whole_program: bool | None = _flag("--extensible-whole-program", values.switch, "-ewp")
    debug: bool | None = _flag("--device-debug", values.switch, "-G")
    lineinfo: bool | None = _flag("--generate-line-info", values.switch, "-lineinfo")
    device_code_optimize: bool | None = _flag("--dopt=on", values.switch, "-dopt")
    ptxas_options: str | list[str] | tuple[str, ...] | None = _flag("--ptxas-options", values.texts, "-Xptxas")
    max_register_count: int | None = _flag("--maxrregcount", values.register_count, "-maxrregcount")
    ftz: bool | None = _flag("--ftz", values.true_or_false, "-ftz")
    prec_sqrt: bool | None = _flag("--prec-sqrt", values.true_or_false, "-prec-sqrt")
    prec_div: bool | None = _flag("--prec-div", values.true_or_false, "-prec-div")
    fma: bool | None = _flag("--fmad", values.true_or_false, "-fmad")
    use_fast_math: bool | None = _flag("--use_fast_math", values.switch, "-use_fast_math")
    extra_device_vectorization: bool | None = _flag("--extra-device-vectorization", values.switch)
    link_time_optimization: bool | None = _flag(_LTO, values.switch, "-dlto")
    gen_opt_lto: bool | None = _flag("--gen-opt-lto", values.switch)
    define_macro: MacroType | Sequence[MacroType] | Mapping[str, str | float | None] | None = _flag(
        "--define-macro", values.macros
    )
    undefine_macro: str | list[str] | tuple[str, ...] | None = _flag("--undefine-macro", values.texts)
    include_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = _flag(
        "--include-path", values.paths
    )
    use_bundled_headers: bool | None = _flag(_BUNDLED_HEADERS, values.only_checked, since="13.3")
    pre_include: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = _flag(
        "--pre-include", values.paths, "-include"
    )
    no_source_include: bool | None = _flag("--no-source-include", values.switch)
    std: str | None = _flag("--std", values.text, "-std")
    builtin_move_forward: bool | None = _flag("--builtin-move-forward", values.true_or_false)
    builtin_initializer_list: bool | None = _flag("--builtin-initializer-list", values.true_or_false)
    disable_warnings: bool | None = _flag("--disable-warnings", values.switch, "-w")
    restrict: bool | None = _flag("--restrict", values.switch, "-restrict")
    device_as_default_execution_space: bool | None = _flag(
        "--device-as-default-execution-space", values.switch, "-default-device"
    )
    device_int128: bool | None = _flag("--device-int128", values.switch)
    optimization_info: str | None = _flag("--optimization-info", values.text, "-opt-info")
    no_display_error_number: bool | None = _flag("--no-display-error-number", values.switch)
    diag_error: int | list[int] | tuple[int, ...] | None = _flag("--diag-error", values.numbers)
    diag_suppress: int | list[int] | tuple[int, ...] | None = _flag("--diag-suppress", values.numbers)
    diag_warn: int | list[int] | tuple[int, ...] | None = _flag("--diag-warn", values.numbers)
    brief_diagnostics: bool | None = _flag("--brief-diagnostics", values.true_or_false, since="12.1")
    time: str | os.PathLike[str] | bool | None = _flag("--time", values.time_file, "-time", since="12.1")
    split_compile: int | bool | None = _flag("--split-compile", values.thread_count)
    fdevice_syntax_only: bool | None = _flag("--fdevice-syntax-only", values.switch, since="12.4")
    minimal: bool | None = _flag("--minimal", values.switch, "-minimal", since="12.4")
    no_cache: bool | None = _flag("--no-cache", values.switch, since="12.9")
    fdevice_time_trace: str | os.PathLike[str] | None = _flag("--fdevice-time-trace", values.trace, since="12.5")
    device_float128: bool | None = _flag("--device-float128", values.switch, since="12.6")
    frandom_seed: str | int | None = _flag("--frandom-seed", values.seed, since="12.9")
    ofast_compile: str | None = _flag("--Ofast-compile", values.text, since="12.5")
    pch: bool | None = _flag("--pch", values.switch, "-pch", since="12.8")
    create_pch: str | os.PathLike[str] | None = _flag("--create-pch", values.path, since="12.8")
    use_pch: str | os.PathLike[str] | None = _flag("--use-pch", values.path, since="12.8")
    pch_dir: str | os.PathLike[str] | None = _flag("--pch-dir", values.path, since="12.8")
    pch_verbose: bool | None = _flag("--pch-verbose", values.true_or_false, since="12.8")
    pch_messages: bool | None = _flag("--pch-messages", values.true_or_false, since="12.8")
    instantiate_templates_in_pch: bool | None = _flag(
        "--instantiate-templates-in-pch", values.true_or_false, since="12.8"
    )
    extra_sources: Sequence[tuple[str, str | bytes | bytearray]] | None = None
    use_libdevice: bool | None = _flag("", values.only_checked)
    numba_debug: bool | None = _flag("--numba-debug", values.switch, since="13.2")
    raw_options: str | list[str] | tuple[str, ...] | None = None

    def as_bytes(
        self,
        backend: CompilerBackendType | CompilerBackendName,
        target_type: ObjectCodeFormatType | CompileTargetName | None = None,
    ) -> list[bytes]:
        """Return the options in the form for a compiler.

        Parameters
        ----------
        backend : CompilerBackendType or str
            The compiler: ``"NVRTC"``, ``"NVVM"``, or ``"nvJitLink"`` for PTX programs.
        target_type : ObjectCodeFormatType or str, optional
            The format to compile to, which affects some options: ``"ltoir"`` implies link-time optimization. For
            ``"ptx"`` without `ptxas_options`, an ``sm_`` architecture becomes the ``compute_`` one, which gives the
            same PTX without running the assembler. Default: the options are not changed.

        Returns
        -------
        list of bytes
            One option per item.

        Raises
        ------
        ValueError
            If options contradict the target, or are not for this compiler.
        CUDAError
            If `arch` is not set and there is no device.
        NVRTCError
            If `use_bundled_headers` is set and there is no NVRTC, because its version is part of the directory's name.
        """
        found = check_backend(backend)
        code_type = _PROGRAMS.get(found)
        if code_type is None:
            raise ValueError("the driver's linker takes numbers instead of flags, so they cannot be returned as bytes")
        target = None if target_type is None else check_target(code_type, target_type)
        options = self._without_ignored(code_type, stacklevel=3)
        if code_type is SourceCodeType.PTX:
            return options._for_linker().as_bytes(found)
        is_cxx = code_type is SourceCodeType.CXX
        return [encode(flag) for flag in (options._nvrtc_flags(target) if is_cxx else options._nvvm_flags(target))]

    def _nvrtc_flags(self, target: ObjectCodeFormatType | None) -> list[str]:
        flags = self._flags()
        if self._makes_ltoir(target) and not self.link_time_optimization:
            flags.append(_LTO)
        if target is ObjectCodeFormatType.OPTIXIR:
            flags.append("--optix-ir")
        if self.use_bundled_headers:
            flags.append(f"{_BUNDLED_HEADERS}={_headers_directory()}")
        return [self._arch_flag(target), *flags]

    def _nvvm_flags(self, target: ObjectCodeFormatType | None) -> list[str]:
        self._flags()
        number = (
            values.current_arch() if self.arch is None else values.architecture("ProgramOptions.arch", self.arch)[1]
        )
        flags = [f"-arch=compute_{number}", *self._raw_flags(), *values.flags_of(self, _NVVM_FLAGS)]
        if self._makes_ltoir(target):
            flags.append("-gen-lto")
        return flags

    def _makes_ltoir(self, target: ObjectCodeFormatType | None) -> bool:
        """Return whether LTO-IR is made; raise an error if the target is another one and the option is set."""
        if self.link_time_optimization and target not in (None, ObjectCodeFormatType.LTOIR):
            raise ValueError(
                f'ProgramOptions.link_time_optimization makes LTO-IR, not {target}: compile to "ltoir" and link that'
            )
        return target is ObjectCodeFormatType.LTOIR or bool(self.link_time_optimization)

    def _for_linker(self) -> LinkerOptions:
        """Return the options for the linker that assembles PTX."""
        from cudacore_compile._compilers.linker_options import LinkerOptions

        self._flags()
        given = {field: getattr(self, field) for field in _LINKER_FIELDS}
        if self.time not in (None, True, False, "-"):
            raise ValueError(f"ProgramOptions.time={self.time!r}: times of PTX programs go to the log only; set True")
        given["time"] = bool(self.time)
        given["optimization_level"] = 3 if self.device_code_optimize else None
        return LinkerOptions(**given)

    def _without_ignored(self, code_type: SourceCodeType, *, stacklevel: int) -> ProgramOptions:
        """Return the options for programs of this type; warn of ignored options, and raise for unsupported ones."""
        if code_type is SourceCodeType.CXX and self.name is not None and self.name.startswith("-"):
            raise ValueError(f'ProgramOptions.name={self.name!r} is an option to NVRTC: write "./{self.name}"')
        ignored = _IGNORED[code_type]
        given = [field for field, value in self._given().items() if _is_set(value) and field in _ALL]
        for field in given:
            if field not in _SUPPORTED[code_type] and field not in ignored:
                raise ValueError(_unsupported(field, code_type))
        without = sorted(ignored.intersection(given))
        if code_type is SourceCodeType.PTX:
            without += [field for field in _FIXED_IN_PTX if getattr(self, field) is not None]
        if not without:
            return self
        names = ", ".join(f"ProgramOptions.{field}" for field in without)
        warnings.warn(f"{names}: without effect on {_TITLES[code_type]}", RuntimeWarning, stacklevel=stacklevel)
        return replace(self, **dict.fromkeys(without))

    def _check_trace_file(self) -> None:
        """Raise an error if the file of `fdevice_time_trace` cannot be written: NVRTC would abort the process."""
        if self.fdevice_time_trace is None:
            return
        path = values.trace_stem("ProgramOptions.fdevice_time_trace", self.fdevice_time_trace) + values.TRACE_SUFFIX
        try:
            with open(path, "ab"):
                pass
        except OSError as error:
            raise OSError(error.errno, f"ProgramOptions.fdevice_time_trace: {error.strerror}", path) from None

    def _flags(self) -> list[str]:
        if self.extra_sources is not None:
            _check_sources(self.extra_sources)
        return super()._flags() + self._raw_flags()

    def _raw_flags(self) -> list[str]:
        """Return the flags that have no field; raise an error for a flag that has a field."""
        flags = [] if self.raw_options is None else values.texts("ProgramOptions.raw_options", self.raw_options)
        flags = [flag.removeprefix("=") for flag in flags]
        for flag in flags:
            if not flag.startswith("-"):
                raise ValueError(f"ProgramOptions.raw_options: {flag!r} is no option: options begin with a minus sign")
            field = field_of(flag)
            if field is not None:
                raise ValueError(f"ProgramOptions.raw_options: {flag!r} has a field of its own, ProgramOptions.{field}")
        return flags

    def _arch_flag(self, target: ObjectCodeFormatType | None) -> str:
        if self.arch is None:
            kind, number = "sm", values.current_arch()
        else:
            kind, number = values.architecture("ProgramOptions.arch", self.arch, target)
        if target is ObjectCodeFormatType.PTX and self.ptxas_options is None:
            kind = "compute"
        return f"-arch={kind}_{number}"


def field_of(flag: str) -> str | None:
    """Return the field of ProgramOptions for a flag of the compiler."""
    return _FIELDS.get(flag.partition("=")[0]) or LETTERS.get(flag[:2])


def options_of(code_type: str) -> set[str]:
    """Return the fields of ProgramOptions that programs of a type support."""
    return _SUPPORTED[SourceCodeType(code_type)]


def since(field: str) -> str:
    """Return the version of NVRTC that added the option of a field of ProgramOptions."""
    metadata: Mapping[str, str] = ProgramOptions.__dataclass_fields__[field].metadata
    return metadata.get("since", "12.0")


def bundled_headers(flags: Sequence[bytes]) -> str:
    """Return the directory of NVRTC's bundled headers in flags; empty if they have none."""
    prefix = f"{_BUNDLED_HEADERS}=".encode()
    return next((os.fsdecode(flag.removeprefix(prefix)) for flag in flags if flag.startswith(prefix)), "")


def _headers_directory() -> str:
    """Return the directory of the loaded NVRTC's bundled headers. Each version has its own directory."""
    from cudacore_compile._compilers.nvrtc import load

    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):  # the XDG specification requires that relative paths are ignored
        cache = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(cache):
        raise FileNotFoundError("the user has no home directory for the headers: set HOME or XDG_CACHE_HOME")
    return os.path.join(cache, "cudacore", "nvrtc-headers", load().version_text)


def _check_sources(sources: object) -> None:
    expected = "a list of (name, source) pairs of a str and a str, bytes or bytearray"
    if not isinstance(sources, (list, tuple)):
        values.wrong_type("ProgramOptions.extra_sources", expected, sources)
    for item in sources:
        pair = isinstance(item, tuple) and len(item) == 2
        if not pair or not isinstance(item[0], str) or not isinstance(item[1], (str, bytes, bytearray)):
            values.wrong_type("ProgramOptions.extra_sources", expected, item)
        values.string("ProgramOptions.extra_sources", item[0], empty=True)
        if not item[1]:
            raise ValueError(f"ProgramOptions.extra_sources: the module {item[0]!r} is empty")


_FIELDS = values.fields_by_flag(ProgramOptions) | dict.fromkeys(("-arch", "--gpu-architecture"), "arch")

# All options of libNVVM whose flags depend only on their values.
_NVVM_FLAGS: dict[str, tuple[str, Callable[[str, Any], list[str]]]] = {
    "debug": ("-g", values.switch),
    "device_code_optimize": ("-opt", lambda field, value: ["=3" if values.switch(field, value) else "=0"]),
    "ftz": ("-ftz", values.one_or_zero),
    "prec_sqrt": ("-prec-sqrt", values.one_or_zero),
    "prec_div": ("-prec-div", values.one_or_zero),
    "fma": ("-fma", values.one_or_zero),
    "numba_debug": ("-numba-debug", values.switch),
}
# The options that NVVM programs support. libNVVM has no cache, so `no_cache` has nothing to disable.
_OF_NVVM = {
    *_NVVM_FLAGS,
    *("name", "arch", "link_time_optimization", "extra_sources", "use_libdevice", "no_cache", "raw_options"),
}

# Options that a PTX program's linker has under the same name.
_LINKER_FIELDS = (
    "name",
    "arch",
    "max_register_count",
    "debug",
    "lineinfo",
    "ptxas_options",
    "split_compile",
    "no_cache",
)
_FIXED_IN_PTX = ("ftz", "prec_sqrt", "prec_div", "fma")
_OF_PTX = {*_LINKER_FIELDS, *_FIXED_IN_PTX, "time", "device_code_optimize"}
_ALL = {field.name for field in fields(ProgramOptions)}
_SUPPORTED = {
    SourceCodeType.CXX: _ALL - {"extra_sources", "use_libdevice"},
    SourceCodeType.NVVM: _OF_NVVM,
    SourceCodeType.PTX: _OF_PTX,
}
# Options without an effect on programs of a type. They are ignored, because cuda.core accepts them.
_IGNORED = {
    SourceCodeType.CXX: {"use_libdevice"},  # C++ programs always have libdevice
    SourceCodeType.NVVM: {
        *("fdevice_time_trace", "frandom_seed", "ofast_compile", "device_float128"),
        *("pch", "create_pch", "use_pch", "pch_dir", "pch_verbose", "pch_messages", "instantiate_templates_in_pch"),
    },
    SourceCodeType.PTX: _ALL - _OF_PTX - {"extra_sources", "raw_options"},
}
_TITLES = {
    SourceCodeType.CXX: "C++ programs",
    SourceCodeType.NVVM: "NVVM programs",
    SourceCodeType.PTX: "PTX programs",
}
_PROGRAMS = {backend: code_type for code_type, backend in BACKENDS.items()}


def _unsupported(field: str, code_type: SourceCodeType) -> str:
    if code_type is SourceCodeType.CXX:
        return (
            "extra_sources is not supported by the NVRTC backend: ProgramOptions.extra_sources is for NVVM programs; "
            "C++ programs include what they need"
        )
    known = ", ".join(sorted(options_of(code_type)))
    return f"ProgramOptions.{field} is not supported for {_TITLES[code_type]}, which can have {known}"


def _is_set(value: object) -> bool:
    return value is not False and not (isinstance(value, (list, tuple)) and not value)
