# SPDX-License-Identifier: Apache-2.0
"""Runs kernels on the engine alone: compiles CUDA C++ with NVRTC, gives arrays device addresses, and launches."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FAULT_KINDS = (
    "none",
    "illegal_address",
    "misaligned_address",
    "invalid_address_space",
    "illegal_instruction",
    "trap",
    "assertion",
    "hang",
    "tensor_memory_leak",
)
FAILURES = ("none", "syntax", "unsupported_instruction", "unsupported_version", "unresolved")


class _FaultRecord(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        *((name, ctypes.c_uint32 * 3) for name in ("block", "thread")),
        *((name, ctypes.c_uint32) for name in ("ptx_line", "source_line")),
        ("address", ctypes.c_uint64),
        ("access_bytes", ctypes.c_uint32),
        ("is_write", ctypes.c_int32),
        *((name, ctypes.c_char * size) for name, size in (("kernel", 128), ("source_file", 256))),
        *((name, ctypes.c_char * size) for name, size in (("space", 32), ("detail", 512))),
    )


@dataclass(frozen=True)
class Fault:
    """The fault that stopped a launch. Without a fault, ``kind`` is "none"."""

    kind: str
    block: tuple[int, ...]
    thread: tuple[int, ...]
    ptx_line: int
    source_line: int
    source_file: str
    address: int
    access_bytes: int
    is_write: bool
    kernel: str
    space: str
    detail: str


_PRINT = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)


def load(path: Path) -> ctypes.CDLL:
    """Load the shim and declare its functions."""
    library = ctypes.CDLL(str(path))
    pointer, size, u32s, u64s = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_uint32),
        ctypes.POINTER(ctypes.c_uint64),
    )
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "engine_compile": (pointer, [ctypes.c_char_p, size]),
        "engine_free": (None, [pointer]),
        "engine_failure": (ctypes.c_int32, [pointer]),
        "engine_log": (ctypes.c_char_p, [pointer]),
        "engine_kernel_count": (size, [pointer]),
        "engine_kernel_name": (ctypes.c_char_p, [pointer, size]),
        "engine_kernel_info": (None, [pointer, size, u32s]),
        "engine_kernel_parameter": (None, [pointer, size, size, u32s]),
        "engine_variable_count": (size, [pointer]),
        "engine_variable": (ctypes.c_char_p, [pointer, size, u64s]),
        "engine_place": (None, [pointer, size, ctypes.c_uint64]),
        "engine_initialise": (None, [pointer, size, pointer]),
        "engine_run": (
            None,
            [
                *(pointer, size, u32s, ctypes.c_uint32, ctypes.c_int32, ctypes.c_char_p, size, u64s, size, _PRINT),
                *(ctypes.c_uint64, ctypes.POINTER(_FaultRecord)),
            ],
        ),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@functools.cache
def include_directories() -> list[str]:
    """Return the folders of CUDA's headers in the installed wheels, including those of CCCL."""
    import sysconfig

    site = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    found = [
        path
        for path in (site / "cu13/include", site / "cu13/include/cccl", site / "cuda_runtime/include")
        if path.is_dir()
    ]
    found += [path for path in (site / "cuda_cccl/include", site / "cuda_cccl/include/cccl") if path.is_dir()]
    return [str(path) for path in found]


def has_header(name: str) -> bool:
    """Return whether one of the installed wheels has a header."""
    return any((Path(directory) / name).is_file() for directory in include_directories())


@functools.cache
def nvrtc(source: str, options: tuple[str, ...] = (), arch: str = "compute_90") -> str:
    """Compile CUDA C++ to PTX."""
    from cuda.bindings import nvrtc as api

    def check(result: tuple[Any, ...]) -> Any:
        if int(result[0]) != 0:
            raise RuntimeError(f"NVRTC: {result[0]}")
        return result[1] if len(result) == 2 else None

    program = check(api.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], []))
    flags = [f"--gpu-architecture={arch}", "-std=c++17", *options, *(f"-I{path}" for path in include_directories())]
    (status,) = api.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
    if int(status) != 0:
        log = b" " * check(api.nvrtcGetProgramLogSize(program))
        check(api.nvrtcGetProgramLog(program, log))
        raise RuntimeError(log.decode())
    text = b" " * check(api.nvrtcGetPTXSize(program))
    check(api.nvrtcGetPTX(program, text))
    check(api.nvrtcDestroyProgram(program))
    return text.rstrip(b"\0").decode()


class CompileError(Exception):
    """The error for PTX that the engine does not accept."""

    def __init__(self, failure: str, log: str) -> None:
        super().__init__(f"{failure}: {log}")
        self.failure = failure
        self.log = log


# The start of device memory: no host memory has such addresses.
_FIRST_ADDRESS = 0x7_0000_0000


@dataclass
class Buffer:
    """An array that has a device address."""

    array: np.ndarray
    address: int


@dataclass
class Module:
    """A loaded module, with the memory that its launches can access."""

    library: ctypes.CDLL
    text: str
    _handle: int = 0
    _next: int = _FIRST_ADDRESS
    _ranges: list[tuple[int, int, int, int]] = field(default_factory=list)
    _kept: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        encoded = self.text.encode()
        self._handle = self.library.engine_compile(encoded, len(encoded))
        failure = FAILURES[self.library.engine_failure(self._handle)]
        if failure != "none":
            log = self.library.engine_log(self._handle).decode()
            self.library.engine_free(self._handle)
            self._handle = 0
            raise CompileError(failure, log)
        names = [
            self.library.engine_kernel_name(self._handle, i)
            for i in range(self.library.engine_kernel_count(self._handle))
        ]
        self.kernels = [name.decode() for name in names]
        self.variables: dict[str, Buffer] = {}
        self._place_variables()

    def __del__(self) -> None:
        if self._handle:
            self.library.engine_free(self._handle)

    def _place_variables(self) -> None:
        placed = []
        for index in range(self.library.engine_variable_count(self._handle)):
            out = (ctypes.c_uint64 * 4)()
            name = self.library.engine_variable(self._handle, index, out).decode()
            buffer = self.buffer(np.zeros(max(out[0], 1), np.uint8), align=max(out[1], 256))
            self.library.engine_place(self._handle, index, buffer.address)
            placed.append((index, buffer))
            self.variables[name] = buffer
        for index, buffer in placed:
            self.library.engine_initialise(self._handle, index, buffer.array.ctypes.data)

    def buffer(self, array: np.ndarray, *, writable: bool = True, align: int = 256) -> Buffer:
        """Copy `array` to a new device address. The addresses after the copy stay unmapped."""
        flat = np.ascontiguousarray(array)
        room = np.zeros(flat.nbytes + align, np.uint8)
        start = -room.ctypes.data % align
        view = room[start : start + flat.nbytes].view(flat.dtype).reshape(flat.shape)
        view[...] = flat
        self._next = (self._next + align - 1) // align * align
        buffer = Buffer(view, self._next)
        self._ranges.append((buffer.address, buffer.address + flat.nbytes, view.ctypes.data, int(writable)))
        self._next += flat.nbytes + 4096
        self._kept.append(room)
        return buffer

    def info(self, kernel: str) -> dict[str, int]:
        """Return the engine's information about a kernel."""
        out = (ctypes.c_uint32 * 9)()
        self.library.engine_kernel_info(self._handle, self.kernels.index(kernel), out)
        names = ("parameter_bytes", "static_shared", "local", "registers", "max_threads", "required_threads")
        return dict(zip((*names, "min_blocks", "cluster", "parameters"), out, strict=True))

    def parameters(self, kernel: str) -> list[tuple[int, int, int]]:
        """Return offset, size and alignment of each parameter of a kernel."""
        index = self.kernels.index(kernel)
        result = []
        for i in range(self.info(kernel)["parameters"]):
            out = (ctypes.c_uint32 * 3)()
            self.library.engine_kernel_parameter(self._handle, index, i, out)
            result.append((out[0], out[1], out[2]))
        return result

    def run(
        self,
        kernel: str,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        cluster: int | tuple[int, ...] = 1,
        shared: int = 0,
        cooperative: bool = False,
        limit: int = 0,
        output: list[str] | None = None,
    ) -> Fault:
        """Launch a kernel, and return its fault. Arguments are buffers, NumPy scalars, ints, floats or bytes."""
        places = self.parameters(kernel)
        assert len(places) == len(arguments)
        packed = bytearray(self.info(kernel)["parameter_bytes"])
        for (offset, size, _), argument in zip(places, arguments, strict=True):
            if isinstance(argument, Buffer):
                data = argument.address.to_bytes(8, "little")
            elif isinstance(argument, bytes):
                data = argument
            elif isinstance(argument, int):
                data = argument.to_bytes(size, "little", signed=argument < 0)
            elif isinstance(argument, float):
                data = (np.float32 if size == 4 else np.float64)(argument).tobytes()
            else:
                data = argument.tobytes()
            assert len(data) == size, (offset, size, argument)
            packed[offset : offset + size] = data
        shape = []
        for extent in (grid, block, cluster):
            triple = extent if isinstance(extent, tuple) else (extent,)
            shape += [*triple, *(1,) * (3 - len(triple))]
        ranges = [value for entry in sorted(self._ranges) for value in entry]
        record = _FaultRecord()

        def receive(text: Any, size: int) -> None:
            if output is not None:
                output.append(ctypes.string_at(text, size).decode())

        self.library.engine_run(
            self._handle,
            self.kernels.index(kernel),
            (ctypes.c_uint32 * 9)(*shape),
            shared,
            int(cooperative),
            bytes(packed),
            len(packed),
            (ctypes.c_uint64 * len(ranges))(*ranges),
            len(ranges) // 4,
            _PRINT(receive),
            limit,
            ctypes.byref(record),
        )
        return Fault(
            FAULT_KINDS[record.kind],
            tuple(record.block),
            tuple(record.thread),
            record.ptx_line,
            record.source_line,
            record.source_file.decode(),
            record.address,
            record.access_bytes,
            bool(record.is_write),
            record.kernel.decode(),
            record.space.decode(),
            record.detail.decode(),
        )


class Engine:
    """The engine, with shortcuts for tests."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def ptx(self, text: str) -> Module:
        """Load PTX."""
        return Module(self.library, text)

    def cuda(self, source: str, *options: str, arch: str = "compute_90") -> Module:
        """Compile CUDA C++ and load it."""
        return self.ptx(nvrtc(source, options, arch))

    def body(self, lines: str, *, parameters: str = "", target: str = "sm_90", version: str = "8.0") -> Module:
        """Load a kernel `k` with the given PTX as its body. By default, the kernel has one parameter, `out`."""
        declared = parameters or ".param .u64 out"
        return self.ptx(
            f".version {version}\n.target {target}\n.address_size 64\n"
            f".visible .entry k({declared})\n{{\n{lines}\nret;\n}}\n"
        )

    def call(
        self, source: str, kernel: str, grid: Any, block: Any, *arguments: Any, **options: Any
    ) -> list[np.ndarray]:
        """Run a kernel of CUDA C++ on copies of arrays; return the arrays afterwards. The launch must not fault."""
        module = self.cuda(source)
        placed = [module.buffer(one) if isinstance(one, np.ndarray) else one for one in arguments]
        fault = module.run(kernel, grid, block, *placed, **options)
        assert fault.kind == "none", fault
        return [one.array for one in placed if isinstance(one, Buffer)]
