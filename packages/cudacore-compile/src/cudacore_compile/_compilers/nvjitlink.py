# SPDX-License-Identifier: Apache-2.0
"""nvJitLink, loaded at first use: calls of its functions, and their errors."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from cudacore_compile._compilers.choose_linker import Choice
from cudacore_compile._compilers.errors import NVJitLinkError, log_text, too_new
from cudacore_compile._compilers.libraries import Library, Loaded
from cudacore_compile._compilers.linker_options import LinkerOptions, newer_fields
from cudacore_compile.typing import ObjectCodeFormatType
from cudacore_handles._sdk.compile import call_on_thread

T = TypeVar("T")
LIBRARY = Library(
    "nvJitLink",
    "nvJitLink",
    NVJitLinkError,
    "link",
    {
        "12.0": "nvJitLinkCreate nvJitLinkDestroy nvJitLinkAddData nvJitLinkComplete nvJitLinkGetErrorLogSize "
        "nvJitLinkGetErrorLog nvJitLinkGetInfoLogSize nvJitLinkGetInfoLog nvJitLinkGetLinkedCubinSize "
        "nvJitLinkGetLinkedCubin nvJitLinkGetLinkedPtxSize nvJitLinkGetLinkedPtx",
        "12.3": "nvJitLinkVersion",
        "13.2": "nvJitLinkGetLinkedLTOIRSize nvJitLinkGetLinkedLTOIR",
    },
    "nvJitLinkGetErrorLog",
)
# Types of input, with nvJitLink's numbers.
_INPUTS = {"cubin": 1, "ptx": 2, "ltoir": 3, "fatbin": 4, "object": 5, "library": 6}
_OUTPUTS = {"cubin": "Cubin", "ptx": "Ptx", "ltoir": "LTOIR"}
_OF_CUDA_12 = {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121}
_UNDEFINED = re.compile(r"(?:Undefined reference to|Unresolved extern \w+) '([^']+)'")


class Input(NamedTuple):
    """Code to be linked."""

    code_type: str
    code: bytes
    name: str
    c_name: bytes  # the name without NUL; nvJitLink keeps a pointer to it until it has linked
    has_ltoir: bool = False


class LinkFacts(NamedTuple):
    """Everything that a link depends on."""

    choice: Choice
    target: ObjectCodeFormatType
    options: LinkerOptions
    flags: list[bytes]  # the options as they are passed to nvJitLink
    inputs: Sequence[Input]  # the input as it was read: later changes of files have no effect


class Linked(NamedTuple):
    """The output of a linker."""

    code: bytes
    error_log: str
    info_log: str


class NVJitLink(Loaded):
    """The nvJitLink of this process."""

    __slots__ = ()
    _of = LIBRARY

    def create(self, flags: Sequence[bytes], inputs: Sequence[Input]) -> Any:
        """Return the box of a new linker with its inputs (nvJitLinkCreate, nvJitLinkAddData). Any thread may use it.

        The linker is created on a thread that then ends. If another thread destroyed it, the creating thread would keep
        pointers to freed memory.
        """
        return self._on_thread(lambda: self._make(flags, inputs))

    def no_cache_flags(self, flags: Sequence[bytes]) -> list[bytes]:
        """Return the options that make nvJitLink ignore its cache in the driver, unless the flags have them."""
        flag = b"-no-cache"
        return [] if flag in flags or newer_fields([flag], self.version) else [flag]

    def link(self, box: Any, target: str, flags: Sequence[bytes], inputs: Sequence[Input]) -> Linked:
        """Link, and return the output (nvJitLinkComplete). If `box` is None, a linker is created.

        nvJitLink (12.9, 13.5) keeps state on each thread that uses it. On a thread that has linked LTO-IR, any later
        message about symbols is a segmentation fault, even if another library calls nvJitLink. If one thread creates a
        linker, and another thread links it and ends, the next linker of the first thread crashes. So each link has a
        thread of its own, which also has the stack that nvJitLink needs.
        """
        return self._on_thread(lambda: self._link(box or self._make(flags, inputs), target, flags, inputs))

    def _on_thread(self, work: Callable[[], T]) -> T:
        return call_on_thread(work) if self.version >= _USES_THREADS else work()

    def _make(self, flags: Sequence[bytes], inputs: Sequence[Input]) -> Any:
        box = None
        try:
            if self.version < (13, 0):
                _check_arch(flags)
            box = self.new(len(flags), list(flags))
            for part in inputs:
                kind = _INPUTS[part.code_type]
                self.of(box, "nvJitLinkAddData", kind, part.code, len(part.code), part.c_name)
        except NVJitLinkError as error:
            self._explain(error, box, flags, inputs)
            raise
        return box

    def _link(self, box: Any, target: str, flags: Sequence[bytes], inputs: Sequence[Input]) -> Linked:
        try:
            self.of(box, "nvJitLinkComplete")
            code = self.output(box, f"nvJitLinkGetLinked{_OUTPUTS[target]}")
            linked = Linked(code, self.log(box), log_text(self.output(box, "nvJitLinkGetInfoLog")))
        except NVJitLinkError as error:
            self._explain(error, box, flags, inputs)
            raise
        if _ERROR.search(linked.error_log):
            raise _ignored(linked.error_log, inputs)
        return linked

    def _explain(self, error: NVJitLinkError, box: Any, flags: Sequence[bytes], inputs: Sequence[Input]) -> None:
        self.complete(error, box, b"nvJitLink", *flags, *(part.c_name for part in inputs))
        error.hint = explain(error.code_name, error.log, self.version_text, flags)


# When older versions (12.4) report some errors, the calling thread keeps a lock. If that thread ends, all other threads
# that call nvJitLink wait forever.
_USES_THREADS = (12, 9)
_ERROR = re.compile(r"^error\s*: (.*)$", re.MULTILINE)
_NAMED = re.compile(r" in '[^']*', first (?:defined|specified) in '[^']*'$")


def _ignored(log: str, inputs: Sequence[Input]) -> NVJitLinkError:
    """Return the error for a mismatch between LTO-IR and other code, which nvJitLink reports but links anyway."""
    # nvJitLink's message ends with names from the last input, which need not be the cause
    found = _NAMED.sub("", _ERROR.findall(log)[0])
    optimized = ", ".join(part.name for part in inputs if part.has_ltoir)
    others = ", ".join(part.name for part in inputs if not part.has_ltoir)
    return NVJitLinkError(
        "nvJitLinkComplete",
        -1,
        "LINK_DUPLICATE_SYMBOL" if found.startswith("Multiple") else "LINK_SYMBOL_MISMATCH",
        f"{found}: between the LTO-IR ({optimized}) and the other code ({others})",
        hint="nvJitLink links it nevertheless, to code that does not work",
        log=log,
    )


def _check_arch(flags: Sequence[bytes]) -> None:
    """Raise an error for an architecture that CUDA 12 does not have.

    If nvJitLink of CUDA 12 got such an architecture after it had linked LTO-IR, it would end the process.
    """
    for flag in flags:
        match = re.match(rb"-arch=\w+_(\d+)", flag)
        if match and int(match[1]) not in _OF_CUDA_12:
            code_name = "NVJITLINK_ERROR_UNRECOGNIZED_ARCH"
            raise NVJitLinkError("nvJitLinkCreate", 16, code_name, "the architecture is not known")


def explain(code_name: str, log: str, version: str, flags: Sequence[bytes]) -> str:
    """Return a hint for a failure of an nvJitLink, or an empty string."""
    undefined = dict.fromkeys(_UNDEFINED.findall(log))
    if undefined:
        return (
            f"Nothing that is linked defines {', '.join(map(repr, undefined))}: link what does, and compile it with "
            "ProgramOptions(relocatable_device_code=True), or to LTO-IR"
        )
    if "may need newer version" in log or "nvvmAddNVVMContainerToProgram" in log:
        return f"The LTO-IR was made by a newer compiler than nvJitLink {version}: install one as new as that"
    if "Unsupported .version" in log:
        return f"The PTX was made by a newer compiler than nvJitLink {version}: install one as new as that"
    if code_name == "NVJITLINK_ERROR_UNRECOGNIZED_OPTION":
        major, minor = map(int, version.split("."))
        for field, since in newer_fields(flags, (major, minor)).items():
            return too_new(f"LinkerOptions.{field}", f"nvJitLink {version}", since)
        return f"nvJitLink {version} does not support one of these options or their values, or the architecture"
    if code_name in ("NVJITLINK_ERROR_UNSUPPORTED_ARCH", "NVJITLINK_ERROR_UNRECOGNIZED_ARCH"):
        return f"nvJitLink {version} does not link for this architecture: set LinkerOptions.arch to another"
    if "does not match type" in log:
        return "The code is damaged, or not of the type that was given for it, such as C++ in a Program of PTX"
    if "bad input" in log or code_name == "NVJITLINK_ERROR_ARCH_MISMATCH":
        return (
            f"The code is damaged, or was made by a newer compiler than nvJitLink {version}, or compiled for an "
            "architecture that does not run on LinkerOptions.arch"
        )
    return ""


load = functools.cache(NVJitLink)
