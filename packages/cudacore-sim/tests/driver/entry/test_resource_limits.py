# SPDX-License-Identifier: Apache-2.0
"""A process that is ending, or cannot get memory or threads, does not crash: calls succeed or return errors."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest
from kernels import PTX
from sanitizers import not_under_asan

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]

BEGIN = """
import mmap, os, resource, struct, time
def limit_memory(more):
    used = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))
def refuse_threads():
    if os.getuid() == 0:  # whom no limit holds
        os.setgid(65534)
        os.setuid(65534)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
cu.cuInit(0)
context = c_void_p()
cu.cuDevicePrimaryCtxRetain(byref(context), 0)
cu.cuCtxSetCurrent(context)
memory = c_uint64()
cu.cuMemAlloc_v2(byref(memory), c_size_t(1 << 30))
"""


def run(run_python: RunPython, code: str) -> subprocess.CompletedProcess[str]:
    """Run code that starts with a current context and memory, and may set resource limits."""
    return run_python(BEGIN + textwrap.dedent(code))


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython 3.14 ends while ctypes calls functions, and crashes")
def test_exit_with_host_functions_in_flight(run_python: RunPython) -> None:
    """The process would abort at exit if driver threads still run Python host functions."""
    child = run(
        run_python,
        """
        kept = [[] for _ in range(100000)]  # finalising them takes a while
        function = CFUNCTYPE(None, c_void_p)(lambda _: time.sleep(0.0002))
        pythonapi.Py_IncRef(py_object(function))
        for _ in range(3000):
            cu.cuLaunchHostFunc(None, function, None)
        """,
    )
    assert child.returncode == 0, child.stderr


def test_a_host_function_that_ends_its_thread(run_python: RunPython) -> None:
    """If a host function ends its thread, the function would never count as done, and a wait for it would hang."""
    child = run(
        run_python,
        """
        end = CDLL(None).pthread_exit
        for _ in range(3):
            cu.cuLaunchHostFunc(None, end, None)
            print(cu.cuCtxSynchronize())
        print(cu.cuMemsetD8Async(memory, 1, c_size_t(8), None), cu.cuCtxSynchronize())
        """,
    )
    assert (child.returncode, child.stdout.split()) == (0, ["0"] * 5)


@not_under_asan("ends a process whose allocation fails")
def test_no_memory_in_a_call(run_python: RunPython) -> None:
    """If the host has no memory left, a call would end the process instead of failing."""
    child = run(
        run_python,
        """
        code = mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE)
        code[:16] = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, (1 << 30) - 16)  # a fat binary as long as all of it
        limit_memory(512 << 20)
        print(cu.cuModuleLoadData(byref(c_void_p()), byref(c_char.from_buffer(code))))
        print(cu.cuCtxSynchronize())
        """,
    )
    assert (child.returncode, child.stdout.split()) == (0, ["2", "0"])


def test_no_memory_in_work(run_python: RunPython) -> None:
    """If queued work cannot allocate host memory, the process would end instead of the context failing."""
    child = run(
        run_python,
        """
        try:
            throw = CDLL("libstdc++.so.6")._ZSt17__throw_bad_allocv
        except OSError:
            raise SystemExit(77)
        cu.cuLaunchHostFunc(None, throw, None)
        print(cu.cuCtxSynchronize())
        """,
    )
    if child.returncode == 77:
        pytest.skip("there is no libstdc++.so.6, whose function throws")
    assert (child.returncode, child.stdout.split()) == (0, ["2"])


def test_no_threads_to_help(run_python: RunPython) -> None:
    """If the threads that help to run a kernel cannot be created, the process would end."""
    child = run(
        run_python,
        f"PTX = {PTX!r}"
        """
library, kernel, back = c_void_p(), c_void_p(), (c_uint32 * 64)()
cu.cuLibraryLoadData(byref(library), PTX, None, None, 0, None, None, 0)
cu.cuLibraryGetKernel(byref(kernel), library, b"store")
cu.cuMemsetD8_v2(memory, 0, c_size_t(4))
cu.cuCtxSynchronize()
refuse_threads()
value = c_uint32(5)
arguments = (c_void_p * 2)(addressof(memory), addressof(value))
print(cu.cuLaunchKernel(kernel, 100, 1, 1, 64, 1, 1, 0, None, arguments, None), cu.cuCtxSynchronize())
print(cu.cuMemcpyDtoH_v2(back, memory, c_size_t(256)), list(back) == list(range(5, 69)))
""",
    )
    assert (child.returncode, child.stdout.split()) == (0, ["0", "0", "0", "True"])


def test_no_threads_at_all(run_python: RunPython) -> None:
    """If no thread can be created, work would wait forever."""
    child = run(
        run_python,
        """
        refuse_threads()
        cu.cuMemsetD8Async(memory, 1, c_size_t(8), None)
        print(cu.cuCtxSynchronize(), *cudacore_sim.reports())
        """,
    )
    expected = "304 no thread can be started: the work that is queued cannot run\n"
    assert (child.returncode, child.stdout) == (0, expected)
