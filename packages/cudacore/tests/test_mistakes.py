# SPDX-License-Identifier: Apache-2.0
"""Plausible mistakes of newcomers: each message names what was wrong, and what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudacore as core

SOURCE = 'extern "C" __global__ void k(float *x, float a, int n) { if (threadIdx.x < n) x[threadIdx.x] = a; }'
UNDEFINED = 'extern "C" __device__ float other(float); extern "C" __global__ void k(float *x) { *x = other(*x); }'
PTX = """.version 7.0
.target sm_{}
.address_size 64
{}
.visible .entry k(.param .u64 p, .param .f32 a, .param .u32 n){{ {} ret; }}
"""
TEMPLATE = "template <typename T> __global__ void t(T *x, T a) { *x = a; }"
CALL = "{ .param .b32 r; call.uni (r), other, (); }"


class Program:
    """Objects with which the mistakes are made."""

    def __init__(self) -> None:
        self.device = core.Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.kernel = core.ObjectCode.from_ptx(PTX.format(52, "", "").encode()).get_kernel("k")
        # A kernel whose kinds of parameters are unknown: a cubin does not record them.
        code = core.Program(SOURCE, "c++", core.ProgramOptions(arch=f"sm_{self.device.arch}")).compile("cubin")
        self.untyped = core.ObjectCode.from_cubin(code.code).get_kernel("k")
        self.config = core.LaunchConfig(grid=1, block=32)
        self.buffer = self.device.allocate(128, stream=self.stream)
        code.get_kernel("k")  # the driver loads the code here, not in a test
        self.code = code

    def launch(self, *arguments: Any) -> None:
        core.launch(self.stream, self.config, self.untyped, *arguments)

    def compile(self, source: str, *names: str, **options: Any) -> core.ObjectCode:
        program = core.Program(source, "c++", core.ProgramOptions(arch="sm_90", **options))
        return program.compile("cubin", name_expressions=names)


@pytest.fixture(scope="module")
def program() -> Program:
    return Program()


def full_pool(program: Program) -> None:
    pool = core.DeviceMemoryResource(program.device, core.DeviceMemoryResourceOptions(max_size=1 << 20))
    kept = [pool.allocate(16 << 20, stream=program.stream) for _ in range(3)]
    del kept


def assign(program: Program) -> None:
    program.buffer[0] = 1  # type: ignore[index]


MISTAKES: dict[str, tuple[Callable[[Program], Any], str]] = {
    # Arguments of kernels
    "size": (
        lambda p: p.launch(p.buffer, np.float64(0.1), 4),
        "argument 1: numpy.float64 has 8 bytes, but the parameter has 4; pass a Python number, such as value.item()",
    ),
    "list": (lambda p: p.launch([1, 2], 0.1, 4), "argument 0: cannot pass a 'list' to a kernel; pass an int, float"),
    "host array": (
        lambda p: p.launch(np.zeros(4, np.float32), 0.1, 4),
        "copy it to the device by device.to_device(array, stream=stream), and",
    ),
    "missing": (lambda p: p.launch(p.buffer, 0.1), "takes 3 arguments (parameter sizes: 8, 4, 4 bytes) but 2 were"),
    "order": (
        lambda p: core.launch(p.config, p.stream, p.kernel, p.buffer, 1.0, 4),
        "got LaunchConfig: a Stream is needed",
    ),
    "reversed": (lambda p: core.launch(p.stream, p.config, p.kernel, 4, 0.1, p.buffer), "; check the order of the arg"),
    "tuple": (lambda p: p.launch((p.buffer, 0.1, 4)), "but 1 was given; write *arguments to pass the items of a tuple"),
    "keywords": (
        lambda p: core.launch(p.stream, p.config, p.kernel, x=p.buffer),  # type: ignore[call-arg]
        "launch() has no argument 'x'; it has stream, config, kernel",
    ),
    "called": (lambda p: p.kernel(p.buffer, 0.1, 4), "a Kernel is not called: write launch(stream, LaunchConfig("),  # type: ignore[operator]
    "subscript": (lambda p: p.kernel[1, 32](p.buffer), "a Kernel is not called: write launch(stream, LaunchConfig("),  # type: ignore[index]
    # Geometry
    "config": (
        lambda p: core.launch(p.stream, (1, 32), p.kernel),  # type: ignore[arg-type]
        "config must be a LaunchConfig, not tuple; write LaunchConfig(grid=..., block=...)",
    ),
    "config's names": (
        lambda p: core.LaunchConfig(blocks=1, threads=32),  # type: ignore[call-arg]
        "LaunchConfig got an unexpected keyword argument 'blocks'; did you mean 'block'?",
    ),
    "division": (
        lambda p: core.LaunchConfig(grid=100 / 32, block=32),  # type: ignore[arg-type]
        "(its x is 3.125, a float); -(-n // block) rounds up to whole blocks",
    ),
    # Memory
    "type of host array": (
        lambda p: p.buffer.copy_from(np.zeros(32), stream=p.stream),
        "src has 256 bytes, and the buffer 128; they must be the same. The type of src is float64",
    ),
    "small host array": (
        lambda p: p.buffer.copy_to(np.zeros(3, np.float32), stream=p.stream),
        "dst has 12 bytes, and the buffer 128; they must be the same. A part of the buffer is buffer[:12]. The type",
    ),
    "full pool": (
        full_pool,
        "The limit is the max_size of the pool, 1,048,576 bytes (1 MiB): request less, or create",
    ),
    "fill float": (lambda p: p.buffer.fill(1.5, stream=p.stream), "not float; np.float32(1.5) fills with floats"),
    "copy list": (lambda p: p.buffer.copy_from([1], stream=p.stream), "src must be a Buffer, or an array"),
    "index": (lambda p: p.buffer[0], "is buffer[start:stop], not buffer[0]; buffer.view(dtype) has elements"),
    "numpy": (lambda p: np.asarray(p.buffer), "buffer.copy_to(array, stream=stream) copies it to one"),
    # Source code
    "path": (
        lambda p: p.compile("kernel.cu"),
        "but 'kernel.cu' is a path: read the file with pathlib.Path('kernel.cu')",
    ),
    "path of PTX": (lambda p: core.Program("a/b c.ptx", "ptx"), "'a/b c.ptx' is a path: read the file with pathlib"),
    "path object": (lambda p: core.Program(Path("a.cu"), "c++"), "not PosixPath; a path is read by path.read_text()"),  # type: ignore[arg-type]
    "standard": (lambda p: p.compile(SOURCE, std="17"), 'Set ProgramOptions.std to "c++11", "c++14", "c++17"'),
    "types of C": (
        lambda p: p.compile('extern "C" __global__ void k(uint32_t *x) {}'),
        "NVRTC has no uint32_t: write a type of C++, such as unsigned int or long long, or include <cuda/std/cstdint>",
    ),
    "host code": (
        lambda p: p.compile(SOURCE + " int main() { k<<<1, 1>>>(nullptr, 1, 1); }"),
        "NVRTC compiles no host code: mark functions __global__ or __device__, and launch kernels from Python",
    ),
    "PTX as C++": (lambda p: p.compile(PTX.format(52, "", "")), 'The program is PTX: write Program(code, "ptx")'),
    "C++ as PTX": (lambda p: core.Program(SOURCE, "ptx").compile("cubin"), "such as C++ in a Program of PTX"),
    "template": (
        lambda p: p.compile(TEMPLATE, "t<float>").get_kernel("t<double>"),
        'it has: t<float>. To add it, compile with name_expressions=["t<double>"]',
    ),
    "no instance": (
        lambda p: p.compile(TEMPLATE).get_kernel("t"),
        'A template is compiled for the instances in compile(..., name_expressions=["t<float>"])',
    ),
    "extern": (lambda p: p.compile(UNDEFINED), "declares 'other' and does not define it. Compile this program and"),
    "header": (
        lambda p: p.compile("#include <foo.h>"),
        "set ProgramOptions.include_path, or give it to the Program in headers=. CUDA's own headers are found after: ",
    ),
    "curand": (lambda p: p.compile("#include <curand_other.h>"), 'install "cuda-toolkit[curand]=='),
    "crt": (lambda p: p.compile('#include "crt/other.h"'), 'To find "crt/other.h", install "cuda-toolkit['),
    "extern in PTX": (
        lambda p: core.ObjectCode.from_ptx(
            PTX.format(52, ".extern .func (.param .b32 r) other();", CALL).encode()
        ).get_kernel("k"),
        "The PTX declares 'other' and does not define it: link it with the code that does",
    ),
    "architecture": (
        lambda p: core.ObjectCode.from_ptx(PTX.format(999, "", "").encode()).get_kernel("k"),
        "The PTX is for sm_999, and the device is sm_",
    ),
    "text as path": (lambda p: core.ObjectCode.from_ptx(SOURCE), "but a str is the path of a file: give code as bytes"),
    # Names
    "option": (lambda p: core.EventOptions(enable_timing=True), "'enable_timing'; did you mean 'timing_enabled'?"),  # type: ignore[call-arg]
    "option of a dict": (lambda p: p.device.create_event({"timing": True}), "did you mean 'timing_enabled'?"),
    "option of a program": (lambda p: core.ProgramOptions(archi="sm_90"), "did you mean 'arch'?"),  # type: ignore[call-arg]
    "option without likeness": (lambda p: core.StreamOptions(xyz=1), "it has nonblocking, priority"),  # type: ignore[call-arg]
    "option of a constructor": (
        lambda p: core.Program(SOURCE, "c++", arch="sm_90"),  # type: ignore[call-arg]
        "Program() got an unexpected keyword argument 'arch'; options are given as options=ProgramOptions(arch=...)",
    ),
    "option of a linker": (lambda p: core.Linker(p.code, arch="sm_90"), "given as options=LinkerOptions(arch=...)"),  # type: ignore[call-arg]
    "option of a method": (lambda p: p.device.create_stream(priority=1), "given as options=StreamOptions(priority="),  # type: ignore[call-arg]
    "option of a graph": (
        lambda p: core.graph.GraphDefinition().instantiate(auto_free_on_launch=True),  # type: ignore[call-arg]
        "given as options=GraphCompleteOptions(auto_free_on_launch=...)",
    ),
    "option of a pool": (
        lambda p: core.DeviceMemoryResource(p.device, max_size=1),  # type: ignore[call-arg]
        "given as options=DeviceMemoryResourceOptions(max_size=...)",
    ),
    "option of virtual memory": (
        lambda p: core.VirtualMemoryResource(p.device, peers=[]),  # type: ignore[call-arg]
        "given as config=VirtualMemoryResourceOptions(peers=...)",
    ),
    "argument of a constructor": (lambda p: core.Program(SOURCE, "c++", header={}), "; did you mean 'headers'?"),  # type: ignore[call-arg]
    "class": (lambda p: getattr(core, "LauchConfig"), "has no attribute 'LauchConfig'; did you mean 'LaunchConfig'?"),  # noqa: B009
    "later class": (lambda p: getattr(core, "ProgramOption"), "did you mean 'ProgramOptions'"),  # noqa: B009
    "malloc": (lambda p: getattr(core, "malloc"), "module 'cudacore' has no attribute 'malloc': use Device.allocate()"),  # noqa: B009
    "RawKernel": (lambda p: getattr(core, "RawKernel"), "'RawKernel': write Program(code, 'c++').compile('cubin')"),  # noqa: B009
    "all devices": (lambda p: getattr(core, "synchronize"), "use Device.sync(), Stream.sync() or Event.sync()"),  # noqa: B009
    "graph": (lambda p: getattr(core.graph, "GraphDefintion"), "did you mean 'GraphDefinition'"),  # noqa: B009
    "class of a module": (lambda p: getattr(core, "GraphDefinition"), "'GraphDefinition': it is in cudacore.graph"),  # noqa: B009
    "view of a module": (lambda p: getattr(core, "StridedMemoryView"), "it is in cudacore.utils"),  # noqa: B009
    "list as array": (lambda p: p.device.to_device([1, 2], stream=p.stream), "; write np.array(values, dtype=...)"),  # type: ignore[arg-type]
    "utils": (lambda p: getattr(core.utils, "StridedMemoryVew"), "did you mean 'StridedMemoryView'"),  # noqa: B009
    "texture": (lambda p: getattr(core.texture, "TextureObjet"), "did you mean 'TextureObject'"),  # noqa: B009
    "typing": (lambda p: getattr(core.typing, "SourceCodeTyp"), "did you mean 'SourceCodeType'"),  # noqa: B009
    "kernel": (lambda p: p.code.get_kernel("kk"), "The code has no kernel 'kk'; did you mean 'k'? It has: k"),
    "synchronize": (lambda p: p.stream.synchronize(), "'Stream' object has no attribute 'synchronize': use sync()"),  # type: ignore[attr-defined]
    "query": (lambda p: p.stream.record().query(), "'Event' object has no attribute 'query': use is_done"),  # type: ignore[attr-defined]
    "elapsed": (lambda p: p.stream.record().elapsed_time(1), "subtract events: end - start is in milliseconds"),  # type: ignore[attr-defined]
    "device": (lambda p: p.device.synchronize(), "'Device' object has no attribute 'synchronize': use sync()"),  # type: ignore[attr-defined]
    "address": (lambda p: p.buffer.ptr, "'Buffer' object has no attribute 'ptr': use handle"),  # type: ignore[attr-defined]
    "view": (lambda p: p.buffer.view("f4").fill(1), "'fill': fill the buffer: buffer.fill(value, stream=str"),  # type: ignore[attr-defined]
    "view's array": (lambda p: p.buffer.view("f4").get(), "attribute 'get': use copy_to(array, stream=stream)"),  # type: ignore[attr-defined]
    "free": (lambda p: p.buffer.free(), "'Buffer' object has no attribute 'free': use close()"),  # type: ignore[attr-defined]
    "with": (lambda p: p.device.__enter__(), "no attribute '__enter__': use set_current(); a device stays"),  # type: ignore[attr-defined]
    "file of code": (lambda p: core.ObjectCode.from_file("a"), "use from_cubin(path), from_ptx(path) or another"),  # type: ignore[attr-defined]
    "function": (lambda p: p.code.get_function("k"), "use get_kernel(name)"),  # type: ignore[attr-defined]
    # Closed sets
    "target": (lambda p: core.Program(SOURCE, "c++").compile("cubim"), "compiles 'c++' to 'ptx', 'cubin'"),  # type: ignore[arg-type]
    "language": (lambda p: core.Program(SOURCE, "cuda"), "Unsupported code_type='cuda': this release compiles 'c++'"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", MISTAKES)
def test_message_says_what_to_do(name: str, program: Program, on_sim: bool) -> None:
    """A newcomer would not learn from the message what was wrong, or what to write."""
    mistake, text = MISTAKES[name]
    if not on_sim and name in ("extern in PTX", "full pool"):
        pytest.skip("a GPU has other words or limits")
    with pytest.raises((TypeError, ValueError, AttributeError, RuntimeError, MemoryError, BufferError)) as caught:
        mistake(program)
    assert re.search(re.escape(text), str(caught.value)), str(caught.value)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has the protocol for Python classes")
def test_memoryview_of_device_memory(program: Program) -> None:
    """The error would not explain how to copy device memory to the host."""
    with pytest.raises(BufferError, match=r"buffer\.copy_to\(array, stream=stream\) copies it to an array"):
        memoryview(program.buffer)  # type: ignore[arg-type]


def test_bundled_headers_do_not_advise_themselves(program: Program) -> None:
    """With use_bundled_headers, the error about a missing header would still advise use_bundled_headers."""
    with pytest.raises(core.NVRTCError) as caught:
        program.compile("#include <foo.h>", use_bundled_headers=True)
    if caught.value.code_name == "NVRTC_ERROR_INVALID_OPTION":
        pytest.skip("NVRTC 13.3 and later carry headers")
    assert "do not contain it" in str(caught.value)
    assert "use_bundled_headers=True" not in str(caught.value)


def test_names_of_others_are_not_listed(program: Program) -> None:
    """Completion would offer names that only raise errors, or hasattr() would be true for other libraries' names."""
    for value in (program.stream, program.buffer, program.device):
        assert "synchronize" not in dir(value)
        assert not hasattr(value, "synchronize")
        assert not hasattr(value, "ptr")
    view = program.buffer.view("f4")
    assert "get" not in dir(view)
    assert not hasattr(view, "get")


def test_subclass_of_config_has_its_own_arguments() -> None:
    """A class derived from LaunchConfig could not have its own arguments."""

    class Squares(core.LaunchConfig):
        def __init__(self, side: int) -> None:
            super().__init__(grid=(side, side), block=32)

    assert Squares(side=4).grid == (4, 4, 1)


def test_kernels_are_no_sequences(program: Program) -> None:
    """Python would treat a kernel as iterable, because kernels have a ``__getitem__`` that explains a mistake."""
    with pytest.raises(TypeError):
        list(program.kernel)  # type: ignore[call-overload]
