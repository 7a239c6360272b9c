# SPDX-License-Identifier: Apache-2.0
"""Run numba-cuda's own tests from its wheel on the simulated driver: ``numba_suite.py [MODULE...]``.

Each module of tests has its own process, because an error of a kernel affects the whole process. Known failures are in
`KNOWN` with the reason, and are not run. Any other failing test fails this program.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDERS = ("cudadrv", "cudapy", "nrt", "doc_examples")
TIMEOUT = 1800  # time limit of a module in seconds; test_ufuncs takes half of this time on one core

# Known failures: a part of the test's name, with the reason.
KNOWN = {
    "test_dispatcher_cpointer_arguments": "reads beyond the end of its arrays, which is found here",
    "test_localmem.TestCudaLocalMem.test_struct_model_type_arr": "writes beyond the end of its arrays of one element",
    "cudapy.test_ipc.": "needs an attribute of CUipcMemHandle that cuda-bindings 13.5 does not have",
    "test_device_arch_specific": "needs tensormap.replace, an instruction of tensor maps",
    "test_nrt_detect_linked_ptx_file": "calls, in PTX, functions of LTO-IR that nothing in the LTO-IR calls",
    "CUDAAndCPUCachingTest.test_cpu_and_cuda_reuse": "is about numba on the host",
    "CUDAAndCPUCachingTest.test_cpu_and_cuda_targets": "is about numba on the host",
}


def modules() -> list[str]:
    """Return the names of all modules of tests."""
    tests = importlib.import_module("numba.cuda.tests")
    (folder,) = map(Path, tests.__path__)
    return [
        f"{tests.__name__}.{part}.{path.stem}" for part in FOLDERS for path in sorted((folder / part).glob("test_*.py"))
    ]


def each(suite: Any) -> Iterator[unittest.TestCase]:
    """Yield the tests of a suite, which can contain other suites."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def run_module(name: str) -> int:
    """Run the tests of a module, and write their results to stdout as JSON."""
    import pytest

    def skip(reason: str = "", **_: Any) -> Any:  # pytest.skip() fails outside of pytest
        raise unittest.SkipTest(reason)

    def importorskip(module: str, *_: Any, **__: Any) -> Any:
        try:
            return importlib.import_module(module)
        except ImportError as error:
            return skip(str(error))

    pytest.skip, pytest.importorskip = skip, importorskip  # type: ignore[assignment]
    try:
        found = list(each(unittest.defaultTestLoader.loadTestsFromName(name)))
    except unittest.SkipTest:  # the whole module is skipped
        found = []
    run = [test for test in found if not any(known in test.id() for known in KNOWN)]
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(run))
    failed = [test.id() for test, _ in result.failures + result.errors] + [t.id() for t in result.unexpectedSuccesses]
    counts = {"run": result.testsRun, "skipped": len(result.skipped), "known": len(found) - len(run)}
    sys.__stdout__.write("\n" + json.dumps(counts | {"failed": failed}) + "\n")  # type: ignore[union-attr]
    return bool(failed)


def main(names: list[str]) -> int:
    """Run modules, each in its own process, and print a summary."""
    total = {"run": 0, "skipped": 0, "known": 0}
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names or modules():
            command = [sys.executable, __file__, "--module", name]
            log = Path(folder, "log")
            with log.open("wb") as errors:
                try:
                    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, timeout=TIMEOUT, check=False)
                    output = done.stdout.decode(errors="replace").strip().splitlines()
                    said = json.loads(output[-1]) if output and output[-1].startswith('{"run"') else None
                except subprocess.TimeoutExpired:
                    said = None
            if said is None:
                said = {"run": 0, "skipped": 0, "known": 0, "failed": [f"{name}: did not come to its end"]}
            for key in total:
                total[key] += said[key]
            failed += said["failed"]
            print(name, said, flush=True)
            if said["failed"]:
                sys.stderr.write(log.read_text(errors="replace"))
    print(f"numba-cuda's tests: {total['run']} run, {total['skipped']} of them skipped, {total['known']} known to fail")
    print(f"{len(failed)} failed", *failed, sep="\n  ")
    return bool(failed)


if __name__ == "__main__":
    # Some tests fill half of the simulated device's memory, which is host memory. No test needs more than 4 GB.
    os.environ.setdefault("CUDACORE_SIM_MEMORY", "4G")
    if sys.argv[1:2] == ["--module"]:
        sys.exit(run_module(sys.argv[2]))
    sys.exit(main(sys.argv[1:]))
