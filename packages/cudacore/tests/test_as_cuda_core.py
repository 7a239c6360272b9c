# SPDX-License-Identifier: Apache-2.0
"""Programs that import ``cuda.core`` get cudacore."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import cudacore

COMMAND = [sys.executable, "-m", "cudacore.as_cuda_core"]
INSTALL = "import cudacore.as_cuda_core as alias; alias.install()\n"


def run(*command: str, code: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command by ``python -m cudacore.as_cuda_core``; without a command, run Python code."""
    words = [*COMMAND, *command] if command else [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, env=os.environ | env)


def test_everything_is_cudacores() -> None:
    """A library that imports ``cuda.core`` would get other classes than a program that imports cudacore."""
    result = run(
        code=INSTALL
        + """if True:
        import cuda.core as core, cuda.core.graph, cudacore, pickle
        from cuda.core import Device, graph, utils
        from cuda.core.typing import IsStreamType
        from cuda.core.utils import StridedMemoryView
        assert core.__version__ == cudacore.CUDA_CORE_VERSION != cudacore.__version__
        for name in core.__all__:
            assert getattr(core, name) is getattr(cudacore, name), name
        assert cuda.core.graph is graph is cudacore.graph and graph.__spec__.name == "cudacore.graph"
        assert StridedMemoryView is cudacore.utils.StridedMemoryView
        assert set(core.__all__) <= set(dir(core))
        assert type(Device(0).create_stream).__name__ and core.Stream.__module__.startswith("cuda.")
        alias.install()
        from cuda.bindings import driver
        from cuda.core import *
        assert Program is cudacore.Program
        """
    )
    assert result.returncode == 0, result.stderr


def test_what_is_not_there() -> None:
    """If a library needs a name of ``cuda.core`` that is missing here, the error would not say why it is missing."""
    private = "cuda.core is cudacore here, which has only these private names of cuda.core: _memoryview.Stri"
    expected = {
        "from cuda.core._memory import Buffer": f"ImportError: cuda.core._memory: {private}",
        "import cuda.core._stream": f"ImportError: cuda.core._stream: {private}",
        "from cuda.core._utils.cuda_utils import driver": f"ImportError: cuda.core._utils.cuda_utils.driver: {private}",
        "cuda.core._memory": f"AttributeError: cuda.core._memory: {private}",
        "import cuda.core.nothing": "ModuleNotFoundError: No module named 'cuda.core.nothing'",
        "from cuda.core import nothing": "ImportError: cannot import name 'nothing' from 'cuda.core'",
        "cuda.core.nothing": "AttributeError: module 'cudacore' has no attribute 'nothing'",
    }
    for name in {"texture", "TensorMapDescriptor", "checkpoint", "system"} - set(cudacore.__all__):
        expected[f"from cuda.core import {name}"] = f"ImportError: cudacore 0.1 does not have {name!r} yet"
    result = run(
        code=INSTALL
        + f"""if True:
        import cuda.core
        for statement in {list(expected)}:
            try:
                exec(statement)
            except Exception as error:
                print(f"{{type(error).__name__}}: {{error}}")
        """
    )
    said = result.stdout.splitlines()
    assert len(said) == len(expected), result.stderr
    assert [line[: len(text)] for line, text in zip(said, expected.values(), strict=True)] == list(expected.values())


def test_names_that_libraries_import() -> None:
    """numba-cuda and other libraries that import private names of ``cuda.core`` could not be imported."""
    result = run(
        code=INSTALL
        + """if True:
        from cuda.bindings import driver, nvrtc, runtime
        from cuda.core._memoryview import StridedMemoryView
        from cuda.core._tensor_map import TensorMapSwizzle
        from cuda.core._utils.cuda_utils import CUDAError, ComputeCapability, NVRTCError, handle_return
        assert ComputeCapability(9, 0) == (9, 0)
        assert handle_return((driver.CUresult.CUDA_SUCCESS,)) is None
        assert handle_return((driver.CUresult.CUDA_SUCCESS, 1)) == 1
        assert handle_return((runtime.cudaError_t.cudaSuccess, 1, 2)) == (1, 2)
        def fail(code, error, text, *more):
            try:
                handle_return((code, 1), *more)
            except error as caught:
                assert text in str(caught), caught
            else:
                raise AssertionError(code)
        fail(driver.CUresult.CUDA_ERROR_INVALID_VALUE, CUDAError, "CUDA_ERROR_INVALID_VALUE (1)")
        fail(runtime.cudaError_t.cudaErrorInvalidValue, CUDAError, "cudaErrorInvalidValue (1)")
        fail(nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION, NVRTCError, "NVRTC_ERROR_COMPILATION (6)")
        program = handle_return(nvrtc.nvrtcCreateProgram(b"wrong", b"name.cu", 0, [], []))
        code, = nvrtc.nvrtcCompileProgram(program, 0, [])
        fail(code, NVRTCError, 'name.cu(1): error', program)
        """
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.cuda_sim
def test_what_libraries_ask_of_objects() -> None:
    """Private attributes that libraries read, such as the context's handle in numba-cuda, would be missing."""
    result = run(
        code=INSTALL
        + """if True:
        from cuda.core import Device
        device = Device()
        device.set_current()
        assert int(device.context._handle) == int(device.context.handle)
        assert type(device.create_stream()).__module__ == "cuda.core"
        """,
        CUDACORE_DRIVER="sim",
    )
    assert result.returncode == 0, result.stderr


def test_child_processes(tmp_path: Path) -> None:
    """Processes that a program starts, such as workers, would import the real ``cuda.core``."""
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, subprocess, sys\n"
        "def which(_=None):\n"
        "    import cuda.core\n"
        "    return cuda.core.Buffer.__module__.split('.')[0]\n"
        "if __name__ == '__main__':\n"
        "    print(which())\n"
        "    code = 'import cuda.core; print(cuda.core.Buffer.__module__.split(\".\")[0])'\n"
        "    print(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout.strip())\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(*pool.map(which, [0]))\n"
    )
    expected = ["cudacore_handles"] * 3
    assert run(sys.executable, str(program)).stdout.split() == expected
    program.write_text("import cudacore.as_cuda_core\ncudacore.as_cuda_core.install()\n" + program.read_text())
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=120)
    assert result.stdout.split() == expected, result.stderr


def test_too_late() -> None:
    """Some modules of a program would use the real ``cuda.core``, and others would use cudacore."""
    pytest.importorskip("cuda.core")
    result = run(code="import cuda.core\n" + INSTALL)
    assert "RuntimeError: cuda.core has been imported already, from " in result.stderr


def test_old_cuda_python(tmp_path: Path) -> None:
    """If ``cuda`` is a regular package, the program would silently run on the real ``cuda.core``."""
    (tmp_path / "cuda" / "core").mkdir(parents=True)
    for folder in ("cuda", "cuda/core"):
        (tmp_path / folder / "__init__.py").touch()
    result = run(code=INSTALL, PYTHONPATH=os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH")))))
    assert "where a namespace package is needed. Uninstall the old cuda-python" in result.stderr


def test_command() -> None:
    """Mistakes on the command line would print tracebacks."""
    assert run("--help").stdout.startswith("usage: python -m cudacore.as_cuda_core COMMAND")
    result = subprocess.run(COMMAND, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("usage:")
    result = run("none.py", "a b")
    assert result.returncode == 127
    assert result.stderr == (
        "cudacore.as_cuda_core: none.py: No such file or directory; "
        "to run Python code: python -m cudacore.as_cuda_core python none.py 'a b'\n"
    )
    assert run(sys.executable, "-c", "raise SystemExit(7)").returncode == 7


def test_import_is_light() -> None:
    """A program that only reads the version would import the compilers, or bindings of CUDA."""
    code = (
        "import sys, cuda.core\nprint([n for n in sys.modules if n.startswith(('cuda.bindings', 'numpy', 'ctypes'))])"
    )
    result = run(sys.executable, "-c", code)
    assert result.stdout == "[]\n", result.stderr
