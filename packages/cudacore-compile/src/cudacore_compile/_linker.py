# SPDX-License-Identifier: Apache-2.0
"""Links compiled code."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_compile._compilers import nvjitlink as _nvjitlink
from cudacore_compile._compilers.choose_linker import Choice, Version, choose_linker, ptx_version
from cudacore_compile._compilers.errors import CompilerError, NVJitLinkError, log_text, without_frames
from cudacore_compile._compilers.libraries import pip_command
from cudacore_compile._compilers.linker_options import LinkerOptions
from cudacore_compile._compilers.nvjitlink import Input, Linked, LinkFacts
from cudacore_compile._compilers.option_values import architecture
from cudacore_compile._compilers.targets import LINKED_INPUTS, check_linked_target
from cudacore_compile.typing import CompilerBackendType, LinkTargetName, ObjectCodeFormatType
from cudacore_handles import CUDAError, ObjectCode, UnsupportedCodeError
from cudacore_handles._sdk import Closing, as_options, closed, copy_options, not_pickled, options_apart, shorten
from cudacore_handles._sdk.compile import Cubin, driver_cuda_version, has_only_ltoir, image_to_link, link_with_driver

if TYPE_CHECKING:
    from cudacore_compile._cache.resource import ProgramCacheResource
    from cudacore_compile._compilers.option_dicts import LinkerOptionsDict

_making_handles = threading.Lock()
_VARIANTS = {"": 0, "a": 0x10000, "f": 0x20000}  # added to an architecture's number in CUjit_target


class Linker(Closing):
    """A linker with its input.

    nvJitLink is used, which needs no driver. If it is missing or too old, the driver's linker is used if possible. A
    linker can link any number of times, to different formats, and on several threads at once. Code in files is read at
    each link.

    Parameters
    ----------
    *object_codes : ObjectCode
        The code: PTX, cubins, LTO-IR, fat binaries, and host objects and libraries with device code.
    options : LinkerOptions or dict of its fields, optional
        Options of the linker. Default ``LinkerOptions()``.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, for example if there is no code.

    Examples
    --------
    >>> options = core.ProgramOptions(arch="sm_90", relocatable_device_code=True)
    >>> one = core.Program("__device__ int one() { return 1; }", "c++", options).compile("ptx")
    >>> code = 'extern __device__ int one(); extern "C" __global__ void k(int *x) { *x = one(); }'
    >>> main = core.Program(code, "c++", options).compile("ptx")
    >>> linked = core.Linker(one, main, options=core.LinkerOptions(arch="sm_90")).link("cubin")
    >>> linked.code_type
    'cubin'
    """

    __slots__ = ("__weakref__", "_box", "_closed", "_codes", "_lock", "_logs", "_options")
    _box: tuple[Any, list[bytes]] | None  # an nvJitLink linker with its flags, for `handle`
    _logs: tuple[str, str]

    @options_apart("LinkerOptions")
    def __init__(self, *object_codes: ObjectCode, options: LinkerOptions | LinkerOptionsDict | None = None) -> None:
        if not object_codes:
            raise ValueError("At least one ObjectCode object must be provided")
        for code in object_codes:
            if not isinstance(code, ObjectCode):
                raise TypeError(f"Expected objects of type ObjectCode to link, not {type(code).__name__}")
            if code.code_type not in LINKED_INPUTS:
                raise UnsupportedCodeError(
                    f'Unsupported code type "{code.code_type}" for a Linker: it links {", ".join(LINKED_INPUTS)}'
                )
        self._options = copy_options(as_options(LinkerOptions, options))
        self._options._flags()
        self._codes = object_codes
        self._lock = threading.Lock()  # guards the attributes below; never held while the linker runs
        self._box = None
        self._logs = ("", "")
        self._closed = False

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "make another of the same code")

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        return f"<Linker name={shorten(repr(self._options.name))} codes={len(self._codes)}{state}>"

    def link(
        self, target_type: ObjectCodeFormatType | LinkTargetName, *, cache: ProgramCacheResource | None = None
    ) -> ObjectCode:
        """Link the code (nvJitLinkComplete, or cuLinkComplete).

        Parameters
        ----------
        target_type : ObjectCodeFormatType or str
            The format to link to: ``"cubin"``; ``"ptx"`` if there is LTO-IR; or ``"ltoir"``, to be linked again, if
            there is only LTO-IR.
        cache : ProgramCacheResource, optional
            A cache in which the code is looked up first, and stored with the logs. The key contains the contents and
            names of all parts, the options, and the linker's build. The cache is not used if the driver links, if
            `time` is set, if `ptxas_options` may name a file, or if :attr:`handle` was read, because other code can
            have changed the linker. Default None.

        Returns
        -------
        ObjectCode
            The linked code. Its kernels can be looked up by the same names as in its parts.

        Raises
        ------
        NVJitLinkError
            If the code does not link (the error has the linker's log), or no linker can link it (the error has the
            reasons).
        CUDAError
            If the driver's linker fails (the error has its log), or if no architecture is set and there is no current
            device.
        OSError
            If a file with code cannot be read.
        TypeError, ValueError
            If options contradict the target, or the linker is closed.
        """
        target = check_linked_target(target_type)
        if cache is not None:
            from cudacore_compile._cache.compile import check_cache

            check_cache(cache)
        facts = self._facts(target)
        codes, choice, box = self._codes, facts.choice, self._take(facts.flags)
        try:
            if cache is None or box is not None:
                linked = _link(facts, box)
            else:
                from cudacore_compile._cache.link import link_cached

                linked = link_cached(cache, facts, lambda: _link(facts, None, is_kept=True))
        except CUDAError as error:
            self._logs = (error.log, "")
            if isinstance(error, CompilerError):
                raise without_frames(error)  # noqa: B904
            if choice.backend is CompilerBackendType.DRIVER:
                error.hint = f"The driver had to link, because {choice.reason}" + (
                    f". {error.hint}" if error.hint else ""
                )
            raise
        self._logs = (linked.error_log, linked.info_log)
        code = linked.code.rstrip(b"\0") if target is ObjectCodeFormatType.PTX else linked.code
        return ObjectCode._init(
            code,
            target.value,
            name=self._options.name or "",
            symbol_mapping={key: value for part in codes for key, value in part._symbol_mapping.items()},
            signatures=_signatures(codes) if target is ObjectCodeFormatType.CUBIN else None,
        )

    def get_error_log(self) -> str:
        """Return the errors and warnings of the last link, whether it succeeded or failed."""
        return self._logs[0]

    def get_info_log(self) -> str:
        """Return the other messages of the last link: see `verbose` and `time` of :class:`LinkerOptions`."""
        return self._logs[1]

    def close(self) -> None:
        """Release the code. Closing twice does nothing; links in progress are finished."""
        with self._lock:
            self._closed = True
            box, self._box, self._codes = self._box, None, ()
        del box  # calls nvJitLinkDestroy, outside the lock

    @classmethod
    def which_backend(cls) -> CompilerBackendType:
        """Return the linker for ordinary code: nvJitLink, or the driver's if that is missing."""
        return CompilerBackendType.DRIVER if _nvjitlink_version() is None else CompilerBackendType.NVJITLINK

    @property
    def is_closed(self) -> bool:
        """bool: Whether :meth:`close` was called."""
        return self._closed

    @property
    def handle(self) -> int:
        """int: The ``nvJitLinkHandle`` of a linker with this code, which the next link will use.

        ``cuda.bindings`` represents it as an int. It is valid until that link ends or the linker is closed. The
        driver's linker has no such handle.
        """
        facts = self._facts(ObjectCodeFormatType.PTX if self._options.ptx else ObjectCodeFormatType.CUBIN)
        flags = facts.flags
        linker = _nvjitlink.load()
        _check_parts(facts)
        # Only one thread creates a linker here, because the others would destroy theirs without linking. nvJitLink 13.5
        # crashes if it destroys such a linker while other threads add PTX.
        with _making_handles:
            if self._box is None or self._box[1] != flags:
                box = linker.create(flags, facts.inputs)
                with self._lock:
                    if self._closed:
                        raise closed(self)
                    self._box = (box, flags)
        found = self._box
        if found is None:
            raise closed(self)
        return int(linker.handle(found[0]))

    def _facts(self, target: ObjectCodeFormatType) -> LinkFacts:
        """Read and check the code, choose the linker, and return what determines the linked code."""
        codes = self._codes
        if self._closed:
            raise closed(self)
        inputs = _read(codes)
        has_ltoir = any(part.has_ltoir for part in inputs)
        self._check(inputs, target, has_ltoir)
        choice = self._choose(inputs, target)
        flags = self._options.as_bytes()
        if has_ltoir and not self._options.link_time_optimization:
            flags.append(b"-lto")
        if target is ObjectCodeFormatType.PTX and not self._options.ptx:
            flags.append(b"-ptx")
        if target is ObjectCodeFormatType.LTOIR:
            flags.append(b"-r")
        return LinkFacts(choice, target, self._options, flags, inputs)

    def _take(self, flags: list[bytes]) -> Any:
        """Return the linker whose handle was read if it has these flags, otherwise None. Forget it in both cases."""
        with self._lock:
            if self._closed:
                raise closed(self)
            found, self._box = self._box, None
        return found[0] if found is not None and found[1] == flags else None

    def _check(self, inputs: list[Input], target: ObjectCodeFormatType, has_ltoir: bool) -> None:
        """Raise for options that contradict the code or the target; warn of options without effect."""
        options = self._options
        options._flags()
        if options.arch is not None:
            architecture("LinkerOptions.arch", options.arch, target)
        if options.ptx and target is not ObjectCodeFormatType.PTX:
            raise ValueError(f'LinkerOptions.ptx links to PTX, not {target}: call link("ptx")')
        if has_ltoir and options.link_time_optimization is False:
            raise ValueError("LinkerOptions.link_time_optimization is False, and LTO-IR cannot be linked without it")
        if target is not ObjectCodeFormatType.CUBIN and not (has_ltoir or options.link_time_optimization):
            types = ", ".join(sorted({part.code_type for part in inputs}))
            raise ValueError(f"only LTO-IR links to {target}, and this is {types}: compile the programs to LTO-IR")
        without = options._without_effect() if not (has_ltoir or options.link_time_optimization) else []
        if without:
            names = ", ".join(f"LinkerOptions.{field}" for field in without)
            warnings.warn(f"{names}: without effect, because no LTO-IR is linked", RuntimeWarning, stacklevel=4)

    def _choose(self, inputs: list[Input], target: ObjectCodeFormatType) -> Choice:
        """Choose the linker."""
        versions = (ptx_version(part.code) for part in inputs if part.code_type == "ptx")
        nvjitlink = _nvjitlink_version()
        choice = choose_linker(
            nvjitlink,
            _driver_version,
            inputs=[part.code_type for part in inputs],
            ptx=max(filter(None, versions), default=None),
            target=target.value,
            options=self._options._of_nvjitlink_only(),
        )
        if choice.backend is None:
            if nvjitlink is None:
                try:
                    _nvjitlink.load()
                except NVJitLinkError as error:
                    error.meaning = f"{error.meaning}: {choice.reason}"
                    raise
            raise NVJitLinkError(
                "choose a linker",
                -1,
                "NVJITLINK_TOO_OLD",
                choice.reason,
                hint=f"Install a newer nvJitLink: {pip_command('link', upgrade=True)}",
            )
        return choice


def _link(facts: LinkFacts, box: Any, *, is_kept: bool = False) -> Linked:
    """Link with the chosen linker.

    nvJitLink's own cache is not used if the code is kept in a cache: code from it comes without a log.
    """
    _check_parts(facts)
    if facts.choice.backend is CompilerBackendType.DRIVER:
        return _link_with_driver(facts.inputs, facts.options)
    linker = _nvjitlink.load()
    flags = facts.flags + (linker.no_cache_flags(facts.flags) if is_kept else [])
    return linker.link(box, facts.target.value, flags, facts.inputs)


def _read(codes: tuple[ObjectCode, ...]) -> list[Input]:
    """Read the code to link, and give each part a unique name for messages."""
    contents = [(code.code_type, code._read()) for code in codes]
    inputs = []
    for name, (code_type, content) in zip(_names(codes), contents, strict=True):
        if not content:
            raise ValueError(f"{name!r} is empty: there is no code to link")
        if code_type == "ptx":
            content = content.rstrip(b"\0") + b"\0"
        elif code_type == "cubin":
            _check_elf(content, name)
        has_ltoir = code_type == "ltoir" or (code_type == "fatbin" and has_only_ltoir(content))
        c_name = name.encode("utf-8", "surrogateescape").replace(b"\0", b"")
        inputs.append(Input(code_type, content, name, c_name, has_ltoir))
    return inputs


def _names(codes: tuple[ObjectCode, ...]) -> list[str]:
    """Return a unique name for each part: its own or its file's name, with the number of the part if necessary."""
    if len(codes) == 1:
        return [codes[0].name or _file_of(codes[0]) or f"part 1 ({codes[0].code_type})"]
    given = ["" if code.name == "default_program" else code.name or _file_of(code) for code in codes]
    names = []
    for number, (name, code) in enumerate(zip(given, codes, strict=True), 1):
        if name and given.count(name) > 1:
            name = f"{name} (part {number})"
        names.append(name or f"part {number} ({code.code_type})")
    return names


def _file_of(code: ObjectCode) -> str:
    return os.path.basename(code._code) if isinstance(code._code, str) else ""


def _check_parts(facts: LinkFacts) -> None:
    """Raise for cubins that linkers ignore or that are for another architecture."""
    arch = facts.options._arch()
    for part in facts.inputs:
        cubin = _cubin_to_link(part, arch.partition("_")[2])
        if cubin is None:
            continue
        if part.code_type == "cubin" and not _runs_on(cubin.target, arch):
            # If nvJitLink (12.9, 13.5) refuses such a part, every other thread that links waits forever.
            raise NVJitLinkError(
                "link",
                -1,
                "LINK_OTHER_ARCHITECTURE",
                f"{part.name!r} is a cubin for {cubin.target}, which was compiled for an architecture that does not "
                f"run on LinkerOptions.arch={arch!r}",
                hint="Compile it for that architecture, or to PTX or LTO-IR",
            )
        if not cubin.is_relocatable:
            raise ValueError(
                f"{part.name!r} was not compiled to be linked, and a linker ignores it silently: compile it with "
                "ProgramOptions(relocatable_device_code=True), or to PTX or LTO-IR"
            )


def _cubin_to_link(part: Input, arch: str) -> Cubin | None:
    """Return the cubin that is linked; None if other code is, or if the code cannot be read."""
    code: bytes | None = part.code
    if part.code_type == "fatbin":
        image = image_to_link(part.code, arch)
        code = image.unpack() if image is not None and image.code_type == "cubin" else None
    elif part.code_type != "cubin":  # an object is a part of a host program, and can contain any architecture
        code = None
    try:
        return Cubin(code) if code is not None else None
    except ValueError:
        return None  # damaged code, which the linker refuses


def _runs_on(target: str, arch: str) -> bool:
    """Return whether nvJitLink can link a cubin for one architecture to code for another."""
    wanted_text = arch.partition("_")[2]
    number, wanted = (int(text.rstrip("af")) for text in (target[3:], wanted_text))
    is_alone = target.endswith("a")  # the cubin runs on its own architecture only
    version = _nvjitlink_version() or (13, 0)
    if number == wanted:
        return not is_alone or wanted_text.endswith("a") or version < (13, 0)
    if is_alone or (version < (13, 0) and 87 in (number, wanted)):
        return False
    return number // 10 == wanted // 10 and number < wanted


def _check_elf(code: bytes, name: str) -> None:
    """Raise for an incomplete cubin: nvJitLink before 13 reads beyond the end of the code, and links what is there."""
    if code[:4] != b"\x7fELF":
        return  # nvJitLink reports code that is not an ELF file
    end = 64
    if len(code) >= end:
        offset = int.from_bytes(code[40:48], "little")
        size, count = (int.from_bytes(code[at : at + 2], "little") for at in (58, 60))
        end = max(end, offset + size * count)
    if len(code) < end:
        raise ValueError(f"{name!r} is a truncated cubin: it has {len(code)} bytes, and must have {end} or more")


def _nvjitlink_version() -> Version | None:
    try:
        return _nvjitlink.load().version
    except NVJitLinkError:
        return None


def _driver_version() -> Version | None:
    try:
        return driver_cuda_version()
    except CUDAError:
        return None


def _link_with_driver(inputs: Sequence[Input], options: LinkerOptions) -> Linked:
    number = options._arch().partition("_")[2]
    digits = number.rstrip("af")
    given = {
        "target": int(digits) + _VARIANTS[number[len(digits) :]],
        "max_register_count": options.max_register_count,
        "optimization_level": options.optimization_level,
        "verbose": options.verbose or None,
        "debug": options.debug or None,
        "lineinfo": options.lineinfo or None,
        "cache_mode": 0 if options.no_cache else None,  # 0 is CU_JIT_CACHE_OPTION_NONE
    }
    values = {name: int(value) for name, value in given.items() if value is not None}
    parts = [(part.code_type, part.code, part.c_name) for part in inputs]
    linked, errors, info = link_with_driver(parts, values, time=bool(options.time))
    return Linked(linked, log_text(errors), log_text(info))


def _signatures(codes: tuple[ObjectCode, ...]) -> dict[str, str] | None:
    """Return the known parameters of the kernels, from PTX or from the compilers of the parts."""
    found: dict[str, str] = {}
    for code in codes:
        code._signature("")  # for PTX, this sets code._signatures
        found |= code._signatures or {}
    return found or None
