# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import _ctypes
import os
import shutil
from pathlib import Path

import pytest
from compile_sources import Python

from cudacore_compile import NVRTCError
from cudacore_compile._compilers import nvrtc as _nvrtc


def test_import_is_light(python: Python) -> None:
    """Importing the package would also import cuda.bindings or NumPy, or load the compiler or the driver."""
    result = python(
        """
        import sys
        before = set(sys.modules)  # some environments import modules of their own at the start
        import cudacore_compile
        print(sorted(name for name in set(sys.modules) - before if name.startswith(("cuda.", "numpy", "ctypes"))))
        print([line for line in open("/proc/self/maps") if "libnvrtc" in line or "libcuda.so" in line])
        """
    )
    assert result.stdout.split() == ["[]", "[]"], result.stderr


def test_compiling_needs_no_cuda_bindings(python: Python) -> None:
    """Compiling would import cuda.bindings, which takes time, and which only the handle of a program needs."""
    result = python(
        """
        import sys
        from cudacore_compile import NVRTCError, Program, ProgramOptions
        program = Program('template <class T> __global__ void k() {}', "c++", ProgramOptions(arch="sm_90", pch=True))
        for target in ("ptx", "cubin", "ltoir"):
            program.compile(target, ["k<int>"])
        try:
            program.compile("ptx", ["none"])
        except NVRTCError as error:
            error.log
        print("cuda.bindings" in sys.modules)
        print(type(program.handle).__module__)
        """
    )
    assert result.stdout.split() == ["False", "cuda.bindings.nvrtc"], result.stderr


@pytest.mark.parametrize("no_cache", [True, None])
def test_no_driver_is_needed(python: Python, tmp_path: Path, no_cache: bool | None) -> None:
    """Compiling or linking would load the driver, and so be slow, or fail, on machines without a GPU."""
    # dlopen() finds this library as the driver on any machine. So the test notices if a driver is loaded, and calls of
    # the driver fail.
    shutil.copy(_ctypes.__file__, tmp_path / "libcuda.so.1")
    result = python(
        f"""
        import sys
        sys.path.append({str(Path(__file__).parents[1])!r})
        from compile_sources import FUNCTION, FUNCTION_IR, KERNEL, SINE_IR
        from cudacore_compile import InMemoryProgramCache, Linker, Program, compile_many, make_fatbin, versions

        options = {{"arch": "sm_90", "no_cache": {no_cache}}}

        def build(source, target, code_type="c++", **more):
            return Program(source, code_type, {{**options, **more}}).compile(target)

        whole = 'extern "C" __global__ void k() {{}}'
        made = [build(whole, target) for target in ("ptx", "cubin", "ltoir", "optixir")]
        made += [build(FUNCTION_IR, "ptx", "nvvm"), build(SINE_IR, "ltoir", "nvvm", use_libdevice=True)]
        made.append(build(made[0].code, "cubin", "ptx"))
        for target in ("ptx", "cubin", "ltoir"):
            parts = [build(text, target, relocatable_device_code=True) for text in (KERNEL, FUNCTION)]
            made.append(Linker(*parts, options=options).link("cubin"))
        made.append(Linker(parts[0], build(FUNCTION_IR, "ltoir", "nvvm"), options=options).link("ptx"))
        jobs = [(whole, {{**options, "arch": arch}}) for arch in ("sm_80", "sm_90")]
        made.append(make_fatbin(compile_many(jobs, cache=InMemoryProgramCache())))
        print(all(len(code.code) > 0 for code in made), len(made))
        print("libcuda.so" in open("/proc/self/maps").read())
        print(*(kernel.name for kernel in made[1].kernels), *versions())
        """,
        LD_LIBRARY_PATH=os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("LD_LIBRARY_PATH")])),
        CUDACORE_DRIVER=str(tmp_path / "libcuda.so.1"),
    )
    assert result.returncode == 0, result.stderr
    made, loaded, listed = result.stdout.splitlines()
    assert (made, listed) == ("True 12", "k NVRTC NVVM nvJitLink")
    if no_cache:  # otherwise NVRTC itself looks for a cache in the driver
        assert loaded == "False"


def test_nvrtc_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a broken NVRTC, the search's own exception would be raised instead of an NVRTCError."""
    import cuda.pathfinder

    def fail(name: str) -> None:
        raise OSError(f"lib{name}.so: file too short")

    monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", fail)
    with pytest.raises(NVRTCError, match=r"^load NVRTC: NVRTC_NOT_FOUND.*\nlibnvrtc.so: file too short"):
        _nvrtc.NVRTC()


@pytest.mark.parametrize("variant", ["", ".alt"])
def test_builtins_beside_nvrtc(python: Python, variant: str, tmp_path: Path) -> None:
    """NVRTC, which opens its builtins library without a path, would not find the library in NVRTC's own folder."""
    builtins = tmp_path / f"libnvrtc-builtins{variant}.so.12.1"
    shutil.copy(_ctypes.__file__, builtins)
    library = tmp_path / "link" / "libnvrtc.so"
    library.parent.mkdir()
    (tmp_path / f"libnvrtc{variant}.so.12").touch()
    library.symlink_to(tmp_path / f"libnvrtc{variant}.so.12")
    # In a process of its own: after another builtins library was loaded, caches store nothing.
    result = python(f"""
        from cudacore_compile._compilers.nvrtc import _open_builtins

        _open_builtins({str(library)!r}, (12, 1))
        print({str(builtins)!r} in open("/proc/self/maps").read())
    """)
    assert result.stdout == "True\n", result.stderr


def test_load_gives_one() -> None:
    """NVRTC would be searched for at each compilation."""
    assert _nvrtc.load() is _nvrtc.load()


def test_signals_interrupt_reads_after_a_compilation(python: Python) -> None:
    """After a compilation by NVRTC 12 or 13.0, Ctrl+C would not end a read from a terminal or a pipe."""
    result = python("""
        import os, signal, sys, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes ignore it
        from cudacore_compile import Program

        Program("__global__ void f() {}", "c++", {"arch": "sm_90"}).compile("ptx")
        reader, writer = os.pipe()
        threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
        threading.Timer(5, os.write, (writer, b"too late")).start()
        try:
            print(os.read(reader, 9))
        except KeyboardInterrupt:
            print("interrupted")
        sys.stdout.flush()
        os._exit(0)
    """)
    assert (result.stdout, result.stderr) == ("interrupted\n", "")
