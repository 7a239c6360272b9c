# SPDX-License-Identifier: Apache-2.0
"""NVRTC, loaded at first use: calls of its functions, and their errors."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cudacore_compile._compilers.errors import NVRTCError, as_compiler_error, log_text
from cudacore_compile._compilers.interrupt import run_interruptibly
from cudacore_compile._compilers.libraries import Library, Loader, load_library, note_nvrtc
from cudacore_compile._compilers.pch_folders import with_private_folder
from cudacore_compile._compilers.pointees import add_pointees, pointees
from cudacore_compile._compilers.result import Result
from cudacore_compile.typing import ObjectCodeFormatType, PCHStatusType
from cudacore_handles import CUDAError
from cudacore_handles._sdk.compile import call_interruptibly, compilers, ptx_signatures

if TYPE_CHECKING:
    from cuda.bindings import nvrtc

LIBRARY = Library("NVRTC", "nvrtc", NVRTCError, "")
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
_CANCELS = (12, 8)  # the first version with nvrtcSetFlowCallback
_PCH_STATUS = {
    "NVRTC_SUCCESS": PCHStatusType.CREATED,
    "NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED": PCHStatusType.NOT_ATTEMPTED,
}


class NVRTC:
    """The NVRTC library of this process."""

    __slots__ = ("_library", "_restrict_stays", "path", "version", "version_text")
    _library: compilers.NVRTC
    _restrict_stays: bool
    path: str
    version: tuple[int, int]
    version_text: str

    def __init__(self) -> None:
        self._library, self.path, self.version = load_library(LIBRARY, compilers.NVRTC)
        self._restrict_stays = False
        self.version_text = ".".join(map(str, self.version))
        note_nvrtc(self.version[0])

    def create(self, source: bytes, name: bytes, headers: Mapping[bytes, bytes]) -> Any:
        """Return the box of a new program (nvrtcCreateProgram)."""
        try:
            return self._library.create(source, name, list(headers.items()))
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
    ) -> Result:
        """Compile a program once, and return all of its results (nvrtcCompileProgram).

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
                library.add_name(box, name.encode())
            try:
                run_interruptibly(lambda: library.compile(box, flags), lambda: self.cancel(box))
            except CUDAError as error:
                words = (b"nvrtc", *flags, program_name)
                if error.code_name != "NVRTC_ERROR_CANCELLED":  # after a cancellation, the log has only internal errors
                    log = log_text(library.log(box))
                raise
            log = log_text(library.log(box))
            lowered = {name: library.lowered_name(box, name.encode()).decode() for name in names}
            pch_status = None
            if creates_pch:
                pch_status = _PCH_STATUS.get(library.pch_status(box), PCHStatusType.FAILED)
            code = self.ptx(box) if target is ObjectCodeFormatType.PTX else library.output(box, target.value)
            signatures = self._signatures(box, target, code, source)
        except CUDAError as error:
            raise as_compiler_error(NVRTCError, error, log=log, words=words) from None
        if self._restrict_stays and not restrict:
            warnings.warn(_RESTRICT_STAYS, RuntimeWarning, stacklevel=5)
        return Result(code, log, lowered, signatures, pch_status)

    def cancel(self, box: Any) -> None:
        """Cancel the compilation of a program, if this NVRTC supports that. Any thread may call this."""
        if self.version >= _CANCELS:
            self._library.cancel(box)

    def ptx(self, box: Any) -> bytes:
        """Return the PTX of a compiled program, without the NUL at its end. For a cubin, NVRTC keeps the PTX, too."""
        return self._library.output(box, "ptx").rstrip(b"\0")

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
            if library.pch_status(box) != "NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED":
                return False
            required = library.pch_heap_required(box)
            with _pch_heap_lock:  # so that this thread cannot reduce the heap that another thread has set
                if required > library.pch_heap():
                    library.set_pch_heap(required)
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
            call_interruptibly(lambda: self._library.compile(box, flags))
            ptx, log = self.ptx(box), log_text(self._library.log(box))
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
        return self._library.architectures()


_pch_heap_lock = threading.Lock()
load = Loader(NVRTC)
