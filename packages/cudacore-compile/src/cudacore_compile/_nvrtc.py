# SPDX-License-Identifier: Apache-2.0
"""NVRTC, loaded when it is first needed: its calls with their errors raised."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from cudacore_compile._errors import NVRTCError
from cudacore_compile.typing import ObjectCodeFormatType, PCHStatusType
from cudacore_handles._program import adopt_nvrtc_program
from cudacore_handles._ptx_signatures import ptx_signatures

if TYPE_CHECKING:
    from cuda.bindings import nvrtc

_MEANINGS = {
    "NVRTC_ERROR_OUT_OF_MEMORY": "host memory ran out",
    "NVRTC_ERROR_PROGRAM_CREATION_FAILURE": "the program could not be created",
    "NVRTC_ERROR_INVALID_INPUT": "an argument is not valid",
    "NVRTC_ERROR_INVALID_PROGRAM": "the program is not valid",
    "NVRTC_ERROR_INVALID_OPTION": "an option is not valid",
    "NVRTC_ERROR_COMPILATION": "the program does not compile",
    "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE": "a file that belongs to NVRTC could not be read or unpacked",
    "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION": "the program is compiled: it takes no more name expressions",
    "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID": "a name expression names nothing in the program",
    "NVRTC_ERROR_INTERNAL_ERROR": "the compiler failed internally",
    "NVRTC_ERROR_TIME_FILE_WRITE_FAILED": "the file for the times of the phases could not be written",
    "NVRTC_ERROR_CANCELLED": "the compilation was cancelled",
    "NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED": "the file for the compiler's profile could not be written",
    "NVRTC_ERROR_BUSY": "another process is unpacking the headers",
}
# A defect of NVRTC, found in 12.9, 13.0 and 13.5. Nothing that it accepts turns the option off again.
_RESTRICT_STAYS = (
    "a program was compiled with ProgramOptions(restrict=True) in this process, and NVRTC keeps to that option: "
    "pointer parameters of kernels are taken for restrict pointers in this program too. Write __restrict__ in the "
    "source instead, or compile such programs in a process of their own"
)
_PCH_STATUS = {
    "NVRTC_SUCCESS": PCHStatusType.CREATED,
    "NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED": PCHStatusType.NOT_ATTEMPTED,
}


class Compilation(NamedTuple):
    """What came out of a program."""

    code: bytes
    log: str
    lowered_names: dict[str, str]
    signatures: dict[str, str] | None  # of the kernels; None: the code says them itself, or nothing is known
    pch_status: PCHStatusType | None


class NVRTC:
    """The NVRTC library of this process."""

    __slots__ = ("_bindings", "_library", "_restrict_stays", "version_text")
    _bindings: Any  # cuda.bindings.nvrtc
    _library: int  # the dlopen() handle, which is never closed
    _restrict_stays: bool
    version_text: str

    def __init__(self) -> None:
        self._library = _load_library()
        # Imported only now: it loads the library too, and says less when there is none.
        from cuda.bindings import nvrtc

        self._bindings = nvrtc
        self._restrict_stays = False
        self.version_text = "of unknown version"
        major, minor = self._call("nvrtcVersion")
        self.version_text = f"{major}.{minor}"

    def create(self, source: bytes, name: bytes, headers: Mapping[bytes, bytes]) -> Any:
        """Return the box of a new program (nvrtcCreateProgram)."""
        names, contents = list(headers.keys()), list(headers.values())
        program = self._call("nvrtcCreateProgram", source, name, len(names), contents, names)
        try:
            return adopt_nvrtc_program(int(program), self._library)
        except BaseException:
            self._bindings.nvrtcDestroyProgram(program)
            raise

    def handle(self, raw: int) -> nvrtc.nvrtcProgram:
        """Return a program as ``cuda.bindings`` has it."""
        return self._bindings.nvrtcProgram(raw)

    def compile(
        self,
        raw: int,
        flags: list[bytes],
        names: Sequence[str],
        target: ObjectCodeFormatType,
        *,
        program_name: bytes,
        creates_pch: bool,
    ) -> Compilation:
        """Compile a program that was not compiled before, and return everything of it (nvrtcCompileProgram).

        Raises
        ------
        NVRTCError
            With the log and the command line; what to do about it is the caller's to say.
        """
        restrict = b"--restrict" in flags
        if restrict:
            self._restrict_stays = True
        program = self.handle(raw)
        for name in names:
            self._call("nvrtcAddNameExpression", program, name.encode())
        (status,) = self._bindings.nvrtcCompileProgram(program, len(flags), flags)
        log = self._log(program)
        if status:
            self._fail("nvrtcCompileProgram", status, log=log, flags=flags, program_name=program_name)
        lowered = {name: self._call("nvrtcGetLoweredName", program, name.encode()).decode() for name in names}
        pch_status = None
        if creates_pch:
            (status,) = self._bindings.nvrtcGetPCHCreateStatus(program)
            pch_status = _PCH_STATUS.get(status.name, PCHStatusType.FAILED)
        if self._restrict_stays and not restrict:
            warnings.warn(_RESTRICT_STAYS, RuntimeWarning, stacklevel=3)
        return Compilation(self._code(program, target), log, lowered, self._signatures(program, target), pch_status)

    def _code(self, program: nvrtc.nvrtcProgram, target: ObjectCodeFormatType) -> bytes:
        getter = {"ptx": "nvrtcGetPTX", "cubin": "nvrtcGetCUBIN", "ltoir": "nvrtcGetLTOIR"}[target.value]
        code = self._fetch(program, getter)
        return code.rstrip(b"\0") if target is ObjectCodeFormatType.PTX else code

    def _signatures(self, program: nvrtc.nvrtcProgram, target: ObjectCodeFormatType) -> dict[str, str] | None:
        """Return what the kernels of a cubin take, from the PTX that NVRTC keeps beside it."""
        if target is not ObjectCodeFormatType.CUBIN:
            return None
        status, size = self._bindings.nvrtcGetPTXSize(program)
        if status or not size:
            return None
        return ptx_signatures(self._fetch(program, "nvrtcGetPTX").decode("utf-8", "replace"))

    def _log(self, program: nvrtc.nvrtcProgram) -> str:
        # The parts that the compiler's phases write can each have a NUL at the end.
        return self._fetch(program, "nvrtcGetProgramLog").replace(b"\0", b"").decode("utf-8", "replace")

    def _fetch(self, program: nvrtc.nvrtcProgram, getter: str) -> bytes:
        # Not into bytes, as is common: those of length 1 are shared by the whole interpreter.
        buffer = bytearray(self._call(f"{getter}Size", program))
        if buffer:
            self._call(getter, program, buffer)
        return bytes(buffer)

    def _call(self, function: str, *args: object) -> Any:
        """Call a function of NVRTC and return its value or values."""
        entry: Callable[..., tuple[Any, ...]] = getattr(self._bindings, function)
        status, *values = entry(*args)
        if status:
            self._fail(function, status)
        return values[0] if len(values) == 1 else values

    def _fail(
        self,
        operation: str,
        status: nvrtc.nvrtcResult,
        *,
        log: str = "",
        flags: Sequence[bytes] = (),
        program_name: bytes = b"",
    ) -> NoReturn:
        import shlex

        words = [word.decode("utf-8", "replace") for word in (b"nvrtc", *flags, program_name)]
        raise NVRTCError(
            operation,
            int(status),
            status.name,
            _MEANINGS.get(status.name, "the compiler failed"),
            log=log,
            command=shlex.join(words) if flags else "",
        )

    def architectures(self) -> Sequence[int]:
        """Return the numbers of the architectures that this NVRTC compiles for."""
        architectures: list[int] = self._call("nvrtcGetSupportedArchs")
        return architectures


_loaded: NVRTC | None = None
_load_lock = threading.Lock()


def load() -> NVRTC:
    """Return NVRTC, loading it first if need be.

    Raises
    ------
    NVRTCError
        When there is none. The next call looks again.
    """
    global _loaded
    if _loaded is None:
        with _load_lock:
            if _loaded is None:
                _loaded = NVRTC()
    return _loaded


def _load_library() -> int:
    from cuda.pathfinder import load_nvidia_dynamic_lib

    try:
        return load_nvidia_dynamic_lib("nvrtc")._handle_uint
    except (RuntimeError, OSError) as error:  # it is not there, or cannot be loaded
        raise NVRTCError(
            "load NVRTC",
            -1,
            "NVRTC_NOT_FOUND",
            "the NVRTC library was found neither among Python's packages nor in a CUDA toolkit",
            hint='Install it with: python -m pip install "cudacore-compile[cu13]" (or [cu12])',
            log=str(error),
        ) from error
