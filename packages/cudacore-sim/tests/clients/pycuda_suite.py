# SPDX-License-Identifier: Apache-2.0
"""Build PyCUDA from its source distribution and run its own tests on the simulated driver: ``pycuda_suite.py``.

PyCUDA has no wheels. It is built with the toolkit of NVIDIA's wheels. Its tests start the toolkit's nvcc. Known
failures are in `KNOWN` with the reason, and are not run. Any other failing test fails this program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

import cudacore_sim

VERSION = "2026.1"
MODULES = ("test_driver", "test_cumath", "test_gpuarray")
TIMEOUT = 1800  # time limit of a module in seconds

# Known failures: a part of the test's name, with the reason.
KNOWN = {
    "test_recursive_launch": "launches a kernel from a kernel, which is not simulated",
    "test_jit_link_module": "launches a kernel from a kernel, which is not simulated",
}


def toolkit() -> Path:
    """Return the folder of the CUDA toolkit in this environment."""
    major = version("nvidia-cuda-nvcc").partition(".")[0]
    return Path(sysconfig.get_path("purelib"), "nvidia", f"cu{major}")


def run(*arguments: str, **environment: str) -> None:
    """Run a Python module as a program, without the simulator."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | environment
    subprocess.run([sys.executable, "-m", *arguments], check=True, env=environment)


def build(folder: Path) -> Path:
    """Install PyCUDA, and return the folder of its tests."""
    run("pip", "download", "-q", "--no-deps", "--no-binary", "pycuda", "-d", str(folder), f"pycuda=={VERSION}")
    with tarfile.open(folder / f"pycuda-{VERSION}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    # NVIDIA's wheels have no libraries with the unversioned names that the linker looks for.
    names = folder / "lib"
    names.mkdir()
    (names / "libcuda.so").symlink_to(cudacore_sim.get_library())
    (names / "libcurand.so").symlink_to(next((toolkit() / "lib").glob("libcurand.so.*")))
    environment = {
        "PATH": f"{toolkit() / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "CUDA_ROOT": str(toolkit()),
        "LIBRARY_PATH": str(names),
        "LDFLAGS": f"-Wl,-rpath,{toolkit() / 'lib'}",
    }
    source = folder / f"pycuda-{VERSION}"
    run("pip", "install", "-q", str(source), **environment)
    return source / "test"


def main() -> int:
    """Build and test."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tests = build(folder)
        known = " and ".join(f"not {part}" for part in KNOWN)
        environment = os.environ | {
            "PATH": f"{toolkit() / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(folder / "cache"),
            # Some tests fill most of the simulated device's memory, which is host memory.
            "CUDACORE_SIM_MEMORY": "4G",
        }
        failed = []
        for module in MODULES:
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:cudacore_sim"]
            command += ["--tb=short", "-k", known, f"{module}.py"]
            done = subprocess.run(command, cwd=tests, env=environment, timeout=TIMEOUT, check=False)
            failed += [module] * (done.returncode != 0)
    print("PyCUDA's tests:", "failed in " + ", ".join(failed) if failed else "passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
