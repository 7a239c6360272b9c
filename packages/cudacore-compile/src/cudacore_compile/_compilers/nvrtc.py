# SPDX-License-Identifier: Apache-2.0
"""NVRTC, loaded at first use: calls of its functions, and their errors."""

from __future__ import annotations

import ctypes
import os
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cudacore_compile._compilers.errors import NVRTCError, as_compiler_error, log_text
from cudacore_compile._compilers.interrupt import run_interruptibly
from cudacore_compile._compilers.libraries import Library, Loaded, Loader, note_nvrtc
from cudacore_compile._compilers.pch_folders import with_private_folder
from cudacore_compile._compilers.pointees import add_pointees, pointees
from cudacore_compile._compilers.request import Result
from cudacore_compile.typing import ObjectCodeFormatType, PCHStatusType
from cudacore_handles import CUDAError
from cudacore_handles._sdk.compile import call_interruptibly, ptx_signatures

if TYPE_CHECKING:
    from cuda.bindings import nvrtc

LIBRARY = Library(
    "NVRTC",
    "nvrtc",
    NVRTCError,
    "",
    {
        "12.0": "nvrtcCreateProgram nvrtcDestroyProgram nvrtcVersion nvrtcGetNumSupportedArchs nvrtcGetSupportedArchs "
        "nvrtcAddNameExpression nvrtcCompileProgram nvrtcGetLoweredName nvrtcGetProgramLogSize nvrtcGetProgramLog "
        "nvrtcGetPTXSize nvrtcGetPTX nvrtcGetCUBINSize nvrtcGetCUBIN nvrtcGetLTOIRSize nvrtcGetLTOIR "
        "nvrtcGetOptiXIRSize nvrtcGetOptiXIR",
        "12.8": "nvrtcGetPCHHeapSize nvrtcSetPCHHeapSize nvrtcGetPCHCreateStatus nvrtcGetPCHHeapSizeRequired "
        "nvrtcSetFlowCallback",
    },
)
_OUTPUTS = {"ptx": "PTX", "cubin": "CUBIN", "ltoir": "LTOIR", "optixir": "OptiXIR"}
# It is a defect of NVRTC 12.9, 13.0 and 13.5 that --restrict stays set. No other option turns it off again.
_RESTRICT_STAYS = (
    "a program was compiled with ProgramOptions(restrict=True) in this process, and NVRTC keeps to that option: "
    "pointer parameters of kernels are taken for restrict pointers in this program too. Write __restrict__ in the "
    "source instead, or compile such programs in a process of their own"
)
# With --restrict, the code of this program has a read-only load. With --optimization-info, the compiler writes a log.
_CANARY = b"""
static __device__ float twice(float x) { return x + x; }
__global__ void canary(const float *in, float *out) { *out = twice(*in); }
"""
# With --use_fast_math, the code of this program has no fused multiplication and addition in double precision.
_FAST_MATH_CANARY = b"__global__ void power(double *out) { *out = pow(*out, 1.0); }\n"
_FAST_MATH_ARCH = b"--gpu-architecture=compute_100"
_MINIMAL = (12, 4)  # the first version with --minimal
_HAS_CACHE = (12, 9)  # the first version with a cache in the driver, and with --no-cache
_PCH_STATUS = {
    "NVRTC_SUCCESS": PCHStatusType.CREATED,
    "NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED": PCHStatusType.NOT_ATTEMPTED,
}


class NVRTC(Loaded):
    """The NVRTC library of this process."""

    __slots__ = ("_restrict_stays",)
    _of = LIBRARY

    def __init__(self) -> None:
        super().__init__()
        self._restrict_stays = False
        note_nvrtc(self.version[0])
        _open_builtins(self.path, self.version)

    def create(self, source: bytes, name: bytes, headers: Mapping[bytes, bytes]) -> Any:
        """Return the box of a new program (nvrtcCreateProgram), which can be cancelled (nvrtcSetFlowCallback)."""
        library = self._library
        try:
            box = library.create(source, name, len(headers), list(headers.values()), list(headers))
            if library.has("nvrtcSetFlowCallback"):
                library.let_cancel(box, "nvrtcSetFlowCallback")
            return box
        except CUDAError as error:
            raise as_compiler_error(NVRTCError, error) from None

    def handle(self, box: Any) -> nvrtc.nvrtcProgram:
        """Import ``cuda.bindings``, and return a program as an object of it."""
        from cuda.bindings import nvrtc

        return nvrtc.nvrtcProgram(self._library.raw(box))

    def compile(
        self,
        box: Any,
        flags: list[bytes],
        names: Sequence[str],
        target: ObjectCodeFormatType,
        *,
        program_name: bytes,
        source: bytes,
        creates_pch: bool,
        stacklevel: int,
    ) -> Result:
        """Compile a program once, and return all of its results (nvrtcCompileProgram).

        `stacklevel` is the stack level of the caller's warnings.

        Raises
        ------
        NVRTCError
            If the compilation fails; it has the log and the command line. The caller adds the hint.
        """
        flags = with_private_folder(flags)
        restrict = b"--restrict" in flags
        if restrict:
            self._restrict_stays = True
        library = self._library
        log = ""
        words: Sequence[bytes] = ()
        try:
            for name in names:
                library.of(box, "nvrtcAddNameExpression", name.encode())
            try:
                run_interruptibly(lambda: self._compile(box, flags), lambda: self.cancel(box))
            except CUDAError as error:
                words = (b"nvrtc", *flags, program_name)
                if error.code_name != "NVRTC_ERROR_CANCELLED":  # after a cancellation, the log has only internal errors
                    log = self._log(box)
                raise
            log = self._log(box)
            lowered = {name: library.text_of(box, "nvrtcGetLoweredName", name.encode()).decode() for name in names}
            pch_status = None
            if creates_pch:
                pch_status = _PCH_STATUS.get(self._pch_status(box), PCHStatusType.FAILED)
            code = library.output(box, f"nvrtcGet{_OUTPUTS[target]}")
            code = code.rstrip(b"\0") if target is ObjectCodeFormatType.PTX else code
            signatures = self._signatures(box, target, code, source)
        except CUDAError as error:
            raise as_compiler_error(NVRTCError, error, log=log, words=words) from None
        if self._restrict_stays and not restrict:
            warnings.warn(_RESTRICT_STAYS, RuntimeWarning, stacklevel=stacklevel + 1)
        return Result(code, log, lowered, signatures, pch_status)

    def cancel(self, box: Any) -> None:
        """Cancel the compilation of a program, if this NVRTC supports that. Any thread may call this."""
        if self._library.has("nvrtcSetFlowCallback"):
            self._library.cancel(box)

    def ptx(self, box: Any) -> bytes:
        """Return the PTX of a compiled program, without the NUL at its end. For a cubin, NVRTC keeps the PTX, too."""
        return self._library.output(box, "nvrtcGetPTX").rstrip(b"\0")

    def _compile(self, box: Any, flags: list[bytes]) -> None:
        self._library.of(box, "nvrtcCompileProgram", len(flags), flags)

    def _log(self, box: Any) -> str:
        return log_text(self._library.output(box, "nvrtcGetProgramLog"))

    def _pch_status(self, box: Any) -> str:
        """Return the name of the status of the precompiled header: ``"NVRTC_SUCCESS"``, or the error."""
        return self._library.code_name(self._library.result("nvrtcGetPCHCreateStatus", self._library.raw(box)))

    def _signatures(self, box: Any, target: ObjectCodeFormatType, code: bytes, source: bytes) -> dict[str, str] | None:
        """Return the parameters of the kernels, from the PTX that NVRTC keeps with a cubin, and from the source.

        For PTX, they are only returned if the source has more than the PTX.
        """
        if target not in (ObjectCodeFormatType.CUBIN, ObjectCodeFormatType.PTX):
            return None
        found = pointees(source.decode("utf-8", "replace"))
        if target is ObjectCodeFormatType.PTX and not any(map(any, found.values())):
            return None
        try:
            ptx = code if target is ObjectCodeFormatType.PTX else self.ptx(box)
        except CUDAError:
            return None
        return add_pointees(ptx_signatures(ptx.decode("utf-8", "replace")), found) if ptx else None

    def grow_pch_heap(self, box: Any) -> bool:
        """Enlarge the heap if it was too small for the precompiled header of a program.

        Return whether it was too small.
        """
        library = self._library
        try:
            if self._pch_status(box) != "NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED":
                return False
            required = library.number("nvrtcGetPCHHeapSizeRequired", library.raw(box))
            with _pch_heap_lock:  # so that this thread cannot reduce the heap that another thread has set
                if required > library.number("nvrtcGetPCHHeapSize"):
                    library.call("nvrtcSetPCHHeapSize", required)
        except CUDAError as error:
            raise as_compiler_error(NVRTCError, error) from None
        return True

    def kept_options(self, with_fast_math: bool) -> frozenset[str]:
        """Return the names of the options of earlier compilations that NVRTC also applies to later compilations.

        Other libraries compile with NVRTC, too. So a small program is compiled whose code shows which options NVRTC has
        kept.

        Parameters
        ----------
        with_fast_math : bool
            Whether to look for `use_fast_math`, too, which NVRTC keeps for architectures from sm_100 on.
        """
        flags = [b"--minimal"] if self.version >= _MINIMAL else []
        flags += self.no_cache_flags(flags)  # cached code can be from before NVRTC kept an option
        source = _CANARY
        with_fast_math = with_fast_math and self.version >= (13, 0)  # NVRTC 12.9 does not keep this option
        if with_fast_math:
            flags.append(_FAST_MATH_ARCH)
            source += _FAST_MATH_CANARY
        box = self.create(source, b"canary", {})
        try:
            call_interruptibly(lambda: self._compile(box, flags))
            ptx, log = self.ptx(box), self._log(box)
        except CUDAError:
            return frozenset(("raw_options",))  # the state is unknown: this keeps the code out of caches
        kept = {
            "restrict": b"ld.global.nc" in ptx,
            "optimization_info": bool(log.strip()),
            "use_fast_math": with_fast_math and b"fma.rn.f64" not in ptx,
        }
        return frozenset(field for field, is_kept in kept.items() if is_kept)

    def no_cache_flags(self, flags: Sequence[bytes]) -> list[bytes]:
        """Return the options that make NVRTC ignore its cache in the driver, unless the flags have them."""
        return [b"--no-cache"] if self.version >= _HAS_CACHE and b"--no-cache" not in flags else []

    def architectures(self) -> Sequence[int]:
        """Return the numbers of the architectures that this NVRTC supports."""
        count = self._library.number("nvrtcGetNumSupportedArchs")
        return self._library.numbers("nvrtcGetSupportedArchs", count, in_array=True)


def _open_builtins(path: str, version: tuple[int, int]) -> None:
    """Open the builtins library in the folder of NVRTC: ``libnvrtc-builtins.so.13.0`` for ``libnvrtc.so.13``.

    NVRTC opens it by its bare name at the first compilation. In some versions, such as 13.0, the dynamic linker does
    not search NVRTC's own folder. A library that is already loaded is found by its name. If it is not in that folder,
    NVRTC searches for it itself.
    """
    for place in dict.fromkeys((path, os.path.realpath(path))):
        folder, name = os.path.split(place)
        variant = re.fullmatch(r"libnvrtc(.*?)\.so.*", name)  # for example libnvrtc.alt.so.13
        with suppress(OSError):
            if variant is not None:
                ctypes.CDLL(f"{folder}/libnvrtc-builtins{variant[1]}.so.{version[0]}.{version[1]}")
                return


_pch_heap_lock = threading.Lock()
load = Loader(NVRTC)
