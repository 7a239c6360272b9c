# SPDX-License-Identifier: Apache-2.0
"""NVRTC, loaded at first use: calls of its functions, and their errors."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cudacore_compile._compilers.errors import NVRTCError
from cudacore_compile._compilers.interrupt import run_interruptibly
from cudacore_compile._compilers.libraries import Library, Loaded
from cudacore_compile._compilers.option_values import encode
from cudacore_compile._compilers.options import bundled_headers
from cudacore_compile._compilers.pointees import add_pointees, pointees
from cudacore_compile._compilers.request import Request, Result
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
    "nvrtcGetProgramLog",
)
_OUTPUTS = {"ptx": "PTX", "cubin": "CUBIN", "ltoir": "LTOIR", "optixir": "OptiXIR"}
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

    __slots__ = ()
    _of = LIBRARY

    def __init__(self) -> None:
        super().__init__()
        _open_builtins(self.path, self.version)

    def create(self, source: bytes, name: bytes, headers: Mapping[bytes, bytes]) -> Any:
        """Return the box of a new program (nvrtcCreateProgram), which can be cancelled (nvrtcSetFlowCallback)."""
        box = self.new(source, name, len(headers), list(headers.values()), list(headers))
        if self.has("nvrtcSetFlowCallback"):
            self.let_cancel(box, "nvrtcSetFlowCallback")
        return box

    def handle(self, box: Any) -> nvrtc.nvrtcProgram:
        """Import ``cuda.bindings``, and return a program as an object of it."""
        from cuda.bindings import nvrtc

        return nvrtc.nvrtcProgram(self.raw(box))

    def compile(self, box: Any, request: Request, flags: list[bytes]) -> Result:
        """Compile a program once, and return all of its results (nvrtcCompileProgram).

        Raises
        ------
        NVRTCError
            If the compilation fails; it has the log, the command line and a hint.
        """
        flags = _with_private_folder(flags)
        names, target, options = request.names, request.target, request.options
        try:
            for name in names:
                self.of(box, "nvrtcAddNameExpression", name.encode())
            run_interruptibly(lambda: self._compile(box, flags), lambda: self.cancel(box))
            lowered = {name: self.text_of(box, "nvrtcGetLoweredName", name.encode()).decode() for name in names}
            pch_status = None
            if options.pch or options.create_pch:
                pch_status = _PCH_STATUS.get(self._pch_status(box), PCHStatusType.FAILED)
            code = self.output(box, f"nvrtcGet{_OUTPUTS[target]}")
            return Result(code, self.log(box), lowered, self._signatures(box, target, code, request.code), pch_status)
        except NVRTCError as error:
            from cudacore_compile._compilers.hints import explain

            self.complete(error, box, b"nvrtc", *flags, encode(options.name or "default_program"))
            if error.code_name == "NVRTC_ERROR_CANCELLED":
                error.log = ""  # it has only internal errors
            bundled = bundled_headers(flags)
            arguments = error.code_name, error.log, names, self.version_text, self.architectures
            error.hint = explain(*arguments, bundled=bundled)
            raise

    def cancel(self, box: Any) -> None:
        """Cancel the compilation of a program, if this NVRTC supports that. Any thread may call this."""
        if self.has("nvrtcSetFlowCallback"):
            super().cancel(box)

    def ptx(self, box: Any) -> bytes:
        """Return the PTX of a compiled program, without the NUL at its end. For a cubin, NVRTC keeps the PTX, too."""
        return self.output(box, "nvrtcGetPTX").rstrip(b"\0")

    def _compile(self, box: Any, flags: list[bytes]) -> None:
        self.of(box, "nvrtcCompileProgram", len(flags), flags)

    def _pch_status(self, box: Any) -> str:
        """Return the name of the status of the precompiled header: ``"NVRTC_SUCCESS"``, or the error."""
        return self.code_name(self.result("nvrtcGetPCHCreateStatus", self.raw(box)))

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
        if self._pch_status(box) != "NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED":
            return False
        required = self.number("nvrtcGetPCHHeapSizeRequired", self.raw(box))
        with _pch_heap_lock:  # so that this thread cannot reduce the heap that another thread has set
            if required > self.number("nvrtcGetPCHHeapSize"):
                self.call("nvrtcSetPCHHeapSize", required)
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
            ptx, log = self.ptx(box), self.log(box)
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
        count = self.number("nvrtcGetNumSupportedArchs")
        return self.numbers("nvrtcGetSupportedArchs", count, in_array=True)


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


_PCH_DIR = b"--pch-dir="
_pch_folders: dict[tuple[int, bytes], bytes] = {}  # by process and given folder


def _with_private_folder(flags: Sequence[bytes]) -> list[bytes]:
    """Replace the folder of automatic precompiled headers (``--pch``) by one in it that only this process uses.

    NVRTC does not use the headers of another process, but it deletes them while that process reads them. Without a
    given folder, NVRTC would use the current directory; the folder is then one for temporary files.
    """
    if b"--pch" not in flags:
        return list(flags)
    given = next((flag[len(_PCH_DIR) :] for flag in flags if flag.startswith(_PCH_DIR)), b"")
    try:
        folder = _private_folder(given)
    except OSError:  # NVRTC reports what is wrong with the given folder
        return list(flags)
    return [*(flag for flag in flags if not flag.startswith(_PCH_DIR)), _PCH_DIR + folder]


def _private_folder(given: bytes) -> bytes:
    key = os.getpid(), os.path.abspath(given) if given else b""
    folder = _pch_folders.get(key)
    if folder is None or not os.path.isdir(folder):
        parent = key[1] or os.fsencode(tempfile.gettempdir())
        folder = _pch_folders[key] = tempfile.mkdtemp(prefix=b"cudacore-pch-", dir=parent)
        atexit.register(_remove_folder, os.getpid(), folder)
    return folder


def _remove_folder(process: int, folder: bytes) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


_pch_heap_lock = threading.Lock()
load = functools.cache(NVRTC)
