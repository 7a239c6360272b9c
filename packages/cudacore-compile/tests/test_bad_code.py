# SPDX-License-Identifier: Apache-2.0
"""Code that is invalid or incomplete, in separate processes, because the libraries could crash."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from compile_sources import FUNCTION, FUNCTION_IR

from cudacore_compile import Linker, LinkerOptions, Program, ProgramOptions

Run = Callable[..., subprocess.CompletedProcess[str]]

TRY = """
import collections, random, sys
from cudacore_compile import CompilerError, Linker, LinkerOptions, Program, ProgramOptions
from cudacore_handles import CUDAError, ObjectCode

def attempt(kind, data):
    if kind in ("c++", "nvvm", "ptx program"):
        program = Program(data, kind.partition(" ")[0], ProgramOptions(arch="sm_90"))
        for target in ("ptx", "ltoir") if kind != "ptx program" else ("cubin",):
            program.compile(target)
    else:
        Linker(getattr(ObjectCode, f"from_{kind}")(data), options=LinkerOptions(arch="sm_90")).link("cubin")

def count(kind, inputs):
    results = collections.Counter()
    for data in inputs:
        try:
            attempt(kind, data)
            results["fine"] += 1
        except CompilerError as error:
            assert error.code_name and (error.log or error.hint), repr(error)
            results["refused"] += 1
        except (ValueError, CUDAError):  # of the driver's linker, where PTX says that it is of a newer version
            results["refused"] += 1
    print(results["fine"], results["refused"])
"""


@pytest.mark.parametrize("kind", ["c++", "nvvm", "ptx program", "ptx", "cubin", "ltoir", "fatbin", "object", "library"])
def test_random_bytes(kind: str, python: Run) -> None:
    """Bytes that are not code would crash the process, be compiled, or be refused without a clear error."""
    result = python(
        TRY
        + f"""
rng = random.Random(1)
count({kind!r}, [rng.randbytes(rng.randrange(1, 300)) for _ in range(30)])
"""
    )
    assert (result.returncode, result.stdout) == (0, "0 30\n"), result.stderr


@pytest.mark.parametrize("kind", ["nvvm", "ptx program", "ptx", "cubin", "ltoir"])
def test_truncated_code(kind: str, python: Run, tmp_path: Path) -> None:
    """A file that was not completely written would end the process, or be treated as complete."""
    path = tmp_path / "code"
    if kind == "nvvm":
        path.write_text(FUNCTION_IR)
    else:
        options = ProgramOptions(arch="sm_90", relocatable_device_code=True)
        target = kind.partition(" ")[0]
        path.write_bytes(bytes(Program(FUNCTION, "c++", options).compile(target).code))
    result = python(
        TRY
        + f"""
data = open({str(path)!r}, "rb").read()
rng = random.Random(1)
count({kind!r}, [data[: rng.randrange(1, len(data) * 9 // 10)] for _ in range(30)])
"""
    )
    assert result.returncode == 0, result.stderr
    fine, refused = map(int, result.stdout.split())
    assert fine + refused == 30
    # A text that happens to be cut off after a complete declaration is valid.
    assert fine <= (3 if kind in ("ptx", "ptx program", "nvvm") else 0)


# Each input is linked in a separate process, with our linker. If that process ends, by a signal or by nvJitLink's
# exit(1), the input is tried again with nvJitLink's functions alone. They may read beyond the end of the code, with
# results that differ from process to process. So there are TRIES processes, and if none of them ends early, TRIES more
# with our linker.
FUZZ = """
import ctypes, os, random, resource, signal, subprocess, sys, time
from cudacore_compile import Linker, NVJitLinkError
from cudacore_compile._compilers import nvjitlink as _nvjitlink
from cudacore_handles import CUDAError, ObjectCode

kind, path, *only = sys.argv[1:]
code = open(path, "rb").read()
library = ctypes.CDLL(_nvjitlink.load().path)
TRIES = 12

def ours(data):
    Linker(getattr(ObjectCode, f"from_{kind}")(data), options={"arch": "sm_90"}).link("cubin")

def bare(data):
    flags = [b"-arch=sm_90", b"-lto"][: 2 if kind == "ltoir" else 1]
    data += b"\\0" * (kind == "ptx")
    linker, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvJitLinkCreate(ctypes.byref(linker), len(flags), (ctypes.c_char_p * len(flags))(*flags))
    number = {"cubin": 1, "ptx": 2, "ltoir": 3}[kind]
    failed = library.nvJitLinkAddData(linker, number, data, ctypes.c_size_t(len(data)), b"code")
    if not failed and not library.nvJitLinkComplete(linker):
        library.nvJitLinkGetLinkedCubinSize(linker, ctypes.byref(size))
        library.nvJitLinkGetLinkedCubin(linker, ctypes.create_string_buffer(size.value))
    library.nvJitLinkDestroy(ctypes.byref(linker))

def dies(link, data):
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(20)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        try:
            link(data)
        except (ValueError, CUDAError):
            pass
        except BaseException:
            os._exit(99)  # which is no way to refuse code
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def deaths(link, data):
    open(path, "wb").write(data)
    command = [sys.executable, __file__, kind, path, link.__name__]
    return sum(subprocess.run(command).returncode != 0 for _ in range(TRIES))

if only:
    sys.exit(dies(globals()[only[0]], code) != 0)
assert not dies(ours, code) and not dies(bare, code)
rng = random.Random(1)
end = time.monotonic() + 20
tried = died = 0
while tried < 60 and time.monotonic() < end:
    data = bytearray(code)
    for _ in range(rng.choice((1, 2, 8, 30))):
        data[rng.randrange(len(data))] = rng.randrange(1, 256)
    tried += 1
    status = dies(ours, bytes(data))
    if status:
        died += 1
        assert status != 99
        if not dies(bare, bytes(data)) and not deaths(bare, data):
            assert deaths(ours, data) < TRIES / 2, (status, data.hex())
print(tried, died)
"""


@pytest.mark.skipif(
    "CUDACORE_FUZZ" not in os.environ,
    reason="takes a minute, and nvJitLink's reads beyond damaged code differ from run to run: set CUDACORE_FUZZ",
)
@pytest.mark.parametrize("kind", ["ptx", "cubin", "ltoir"])
def test_mutated_code(kind: str, tmp_path: Path) -> None:
    """Code with wrong bytes would end the process although nvJitLink itself does not."""
    path = tmp_path / "code"
    options = ProgramOptions(arch="sm_90", relocatable_device_code=True)
    path.write_bytes(bytes(Program(FUNCTION, "c++", options).compile(kind).code))
    (tmp_path / "fuzz.py").write_text(FUZZ)
    command = [sys.executable, str(tmp_path / "fuzz.py"), kind, str(path)]
    # Without a driver, because its linker could be used instead of nvJitLink.
    no_driver = os.environ | {"CUDACORE_DRIVER": str(tmp_path / "none")}
    result = subprocess.run(command, env=no_driver, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    tried, died = map(int, result.stdout.split())
    assert tried > 5
    if kind == "ptx":
        assert died == 0


def test_truncated_cubin_is_told() -> None:
    """A truncated cubin would be passed to nvJitLink, which reads beyond the cubin's end."""
    code = Program(FUNCTION, "c++", ProgramOptions(arch="sm_90", relocatable_device_code=True)).compile("cubin")
    for length in (10, 63, len(code.code) - 1):
        part = type(code).from_cubin(bytes(code.code)[:length], name="part")
        with pytest.raises(ValueError, match=f"^'part' is a truncated cubin: it has {length} bytes, and must have"):
            Linker(part, options=LinkerOptions(arch="sm_90")).link("cubin")
