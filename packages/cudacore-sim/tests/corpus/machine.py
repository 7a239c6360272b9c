# SPDX-License-Identifier: Apache-2.0
"""Runs kernels of the catalogue on the given CUDA driver: a GPU's, or the simulated one."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from corpus.catalogue import FOLDER, Kernel, Theme
from corpus.images import Image
from corpus.values import FORMATS, Array

_UNSUPPORTED_PTX_VERSION = 222
_ERROR_LOG_BUFFER, _ERROR_LOG_BUFFER_SIZE_BYTES = 5, 6  # CUjit_option
_CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_STACK_LIMIT = 0  # CU_LIMIT_STACK_SIZE
_STACK_BYTES = 16 << 10  # enough for the recursive kernels


class CUDAError(RuntimeError):
    """The error for a failed call of the driver or of NVRTC."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


def include_folders() -> list[str]:
    """Return the folders of CUDA's headers: those of the wheels, then those of a toolkit."""
    site = Path(sysconfig.get_path("purelib")) / "nvidia"
    parts = ("cu13", "cuda_runtime", "cuda_cccl", "curand")
    roots = [site / part for part in parts]
    roots += [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    roots.append(Path("/usr/local/cuda"))
    folders = [folder for root in roots for folder in (root / "include", root / "include/cccl")]
    return [str(folder) for folder in folders if folder.is_dir()]


def _cuda_version() -> int:
    """Return the major CUDA version of the headers."""
    for folder in include_folders():
        if (header := Path(folder, "cuda.h")).is_file():
            found = re.search(r"^#define CUDA_VERSION (\d+)", header.read_text(errors="replace"), re.MULTILINE)
            return int(found[1]) // 1000 if found else 0
    return 0


@functools.cache
def missing_headers(theme: Theme) -> list[str]:
    """Return the headers that a file of kernels includes and that are in none of the include folders.

    Returns
    -------
    list of str
        The headers, as the file names them. CUDA's own headers are in the wheel nvidia-cuda-runtime, cuda/std and cub
        in nvidia-cuda-cccl, and curand_kernel.h in nvidia-curand. Headers of a CUDA version that is too old for the
        file count as missing.
    """
    included = re.findall(r"^#include <(.+)>", theme.source, re.MULTILINE)
    missing = [name for name in included if not any(Path(folder, name).is_file() for folder in include_folders())]
    return missing or [f"the headers of CUDA {theme.cuda}"] * (_cuda_version() < theme.cuda)


def _nvrtc(name: str, *arguments: Any) -> Any:
    from cuda.bindings import nvrtc

    status, *values = getattr(nvrtc, f"nvrtc{name}")(*arguments)
    if int(status):
        raise CUDAError(f"nvrtc{name}: {status}")
    return values[0] if len(values) == 1 else tuple(values)


def nvrtc_version() -> str:
    """Return the version of the compiler.

    Returns
    -------
    str
        Such as ``"13.0"``.
    """
    return ".".join(map(str, _nvrtc("Version")))


@functools.cache
def compile_theme(theme: Theme) -> bytes:
    """Compile a file of kernels to PTX.

    Returns
    -------
    bytes
        The text, with a NUL at its end.

    Raises
    ------
    CUDAError
        With the compiler's log.
    """
    program = _nvrtc("CreateProgram", theme.source.encode(), f"{theme.name}.cu".encode(), 0, [], [])
    options = ["-std=c++17", "-w", *theme.options]
    if not any(option.startswith("--gpu-architecture") for option in options):
        options.append("--gpu-architecture=compute_90")
    ours = sorted({header.parent for header in (FOLDER / "kernels").rglob("*.cuh")})
    options += [f"-I{folder}" for folder in (*ours, *include_folders())]
    try:
        try:
            _nvrtc("CompileProgram", program, len(options), [option.encode() for option in options])
        except CUDAError as error:
            log = bytes(_nvrtc("GetProgramLogSize", program))
            _nvrtc("GetProgramLog", program, log)
            raise CUDAError(f"{theme.name}.cu does not compile:\n{log.decode(errors='replace')}") from error
        text = bytes(_nvrtc("GetPTXSize", program))
        _nvrtc("GetPTX", program, text)
        return text
    finally:
        _nvrtc("DestroyProgram", program)


@contextlib.contextmanager
def _captured(into: list[bytes]) -> Iterator[None]:
    """Collect standard output, including that of C code."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    libc.fflush(None)
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            libc.fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            into.append(file.read())


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    )


def _launch_of_clusters(kernel: Kernel) -> LaunchConfig:
    attribute = LaunchAttribute(_CLUSTER_DIMENSION, 0, (kernel.cluster, 1, 1))
    return LaunchConfig((kernel.grid, 1, 1), (kernel.block, 1, 1), kernel.shared, None, ctypes.pointer(attribute), 1)


class Machine:
    """A device of the given driver. Its primary context is current inside the ``with`` block."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._device = ctypes.c_int()

    def __enter__(self) -> Machine:
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(self._device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuCtxSetLimit", _STACK_LIMIT, ctypes.c_size_t(_STACK_BYTES))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.call("cuCtxSetCurrent", None)
        self.call("cuDevicePrimaryCtxRelease_v2", self._device)

    def call(self, name: str, *arguments: Any) -> None:
        """Call an entry point.

        Raises
        ------
        CUDAError
            If the call does not return ``CUDA_SUCCESS``.
        """
        function: Callable[..., int] = getattr(self._library, name)
        status = function(*arguments)
        if status:
            raise CUDAError(f"{name}: CUresult {status}", status)

    @property
    def description(self) -> dict[str, str]:
        """dict: The name of the device, and the versions of the driver and of the compiler."""
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, len(name), self._device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        driver = f"{version.value // 1000}.{version.value % 1000 // 10}"
        return {"device": name.value.decode(), "driver": driver, "nvrtc": nvrtc_version()}

    def _load(self, handle: ctypes.c_void_p, text: bytes) -> None:
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(_ERROR_LOG_BUFFER, _ERROR_LOG_BUFFER_SIZE_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(handle), text, 2, options, values)
        except CUDAError as error:
            raise CUDAError(f"{error}\n{log.value.decode(errors='replace')}", error.code) from None

    @contextlib.contextmanager
    def load(self, theme: Theme, text: bytes = b"") -> Iterator[Program]:
        """Load a file of kernels for the duration of the ``with`` block. Compile the file unless `text`, its PTX, is
        given.

        Raises
        ------
        CUDAError
            If the compiler or the driver refuses the code.
        """
        handle = ctypes.c_void_p()
        text = text or compile_theme(theme)
        try:
            self._load(handle, text)
        except CUDAError as error:
            if error.code != _UNSUPPORTED_PTX_VERSION:
                raise
            # The compiler is newer than the driver. The kernels use only features of PTX 9.0 (CUDA 13.0).
            self._load(handle, re.sub(rb"(?m)^\.version .*$", b".version 9.0", text))
        try:
            yield Program(self, handle)
        finally:
            self.call("cuModuleUnload", handle)


@dataclass(frozen=True)
class Program:
    """A loaded file of kernels."""

    machine: Machine
    handle: ctypes.c_void_p

    def run(self, kernel: Kernel) -> list[Array]:
        """Launch a kernel of the file on its inputs in the catalogue.

        Returns
        -------
        list of numpy.ndarray
            The bits of each output, in the output's shape; then the printed text, if the kernel's text is recorded.

        Raises
        ------
        CUDAError
            If a call fails, or the kernel faults.
        """
        call = self.machine.call
        function = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(function), self.handle, kernel.name.encode())
        surfaces = sum(one.image is not None and one.image.is_surface for one in kernel.inputs)
        written = kernel.outputs[: len(kernel.outputs) - surfaces]
        outputs = [np.zeros(output.shape, FORMATS[output.kind].word) for output in written]
        printed: list[bytes] = []
        with contextlib.ExitStack() as stack:
            arrays: list[tuple[Image, int]] = []
            places: list[Any] = []
            for one, array in zip(kernel.inputs, kernel.make_inputs(), strict=True):
                if one.by_value:
                    places.append(ctypes.create_string_buffer(array.tobytes(), array.nbytes))
                elif one.image is not None:
                    handle, address = one.image.make(self.machine, array, stack)
                    places.append(handle)
                    arrays += [(one.image, address)] * one.image.is_surface
                else:
                    places.append(self._on_device(array, stack))
            places += [self._on_device(output, stack) for output in outputs]
            arguments = (ctypes.c_void_p * len(places))(*(ctypes.addressof(place) for place in places))
            shape = (kernel.grid, 1, 1, kernel.block, 1, 1, kernel.shared, None, arguments)
            if kernel.print_order:
                stack.enter_context(_captured(printed))
            if kernel.cluster:
                call("cuLaunchKernelEx", ctypes.byref(_launch_of_clusters(kernel)), function, arguments, None)
            elif kernel.cooperative:
                call("cuLaunchCooperativeKernel", function, *shape)
            else:
                call("cuLaunchKernel", function, *shape, None)
            call("cuCtxSynchronize")
            for output, address in zip(outputs, places[len(kernel.inputs) :], strict=True):
                size = ctypes.c_size_t(output.nbytes)
                call("cuMemcpyDtoH_v2", output.ctypes.data_as(ctypes.c_void_p), address, size)
            outputs += [image.read(self.machine, array) for image, array in arrays]
        if kernel.print_order:
            text = printed[0]
            if kernel.print_order == "sorted":
                text = b"".join(sorted(text.splitlines(keepends=True)))
            outputs.append(np.frombuffer(text, np.uint8))
        return outputs

    def _on_device(self, array: Array, stack: contextlib.ExitStack) -> ctypes.c_uint64:
        """Copy an array to the device, and return its address. The exit stack frees the memory."""
        call, address, size = self.machine.call, ctypes.c_uint64(), ctypes.c_size_t(array.nbytes)
        call("cuMemAlloc_v2", ctypes.byref(address), size)
        stack.callback(call, "cuMemFree_v2", address)
        call("cuMemcpyHtoD_v2", address, array.ctypes.data_as(ctypes.c_void_p), size)
        return address
