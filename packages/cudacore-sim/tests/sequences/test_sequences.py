# SPDX-License-Identifier: Apache-2.0
"""Sequences of driver calls give the same results as on an H200: ``recordings``, which record.py writes."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import recordings
import sweep

import cudacore_sim

HERE = Path(__file__).parent
SEQUENCES = recordings.read_sequences()


class Runner:
    """A child process (run.py) that runs each sequence in a process of its own."""

    def __init__(self, library: str, settings: dict[str, str]) -> None:
        command = [sys.executable, str(HERE / "run.py"), library]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | settings
        )

    def run(self, name: str) -> tuple[str, list[str]]:
        """Run a sequence; return its description, and its listing."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["about"], answer["listing"]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@pytest.fixture(scope="module")
def runner(on_gpu: bool) -> Iterator[Runner]:
    """Yield a runner of sequences on the driver that ``--cuda-driver`` selects, by default the simulator."""
    if on_gpu:
        runner = Runner("libcuda.so.1", {})
    else:
        version = recordings.read_gpu()["driver_version"]
        settings = {
            "CUDACORE_SIM_DRIVER_VERSION": f"{version // 1000}.{version % 1000 // 10}",
            "CUDACORE_SIM_DEVICES": "1",
            "CUDACORE_SIM_REPORTS": "0",
        }
        runner = Runner(cudacore_sim.get_library(), settings)
    yield runner
    runner.close()


def explain(name: str, about: str, expected: list[str], listing: list[str]) -> str:
    """Return the listing of a sequence up to the first difference, and this difference."""
    same = 0
    while same < min(len(expected), len(listing)) and expected[same] == listing[same]:
        same += 1
    lines = [f"{name}: {about}", *(f"      {line}" for line in listing[:same])]
    lines += [f"  H200 {line}" for line in expected[same : same + 1] or ["(nothing more)"]]
    lines += [f"  here {line}" for line in listing[same : same + 1] or ["(nothing more)"]]
    changed = [line for line in difflib.ndiff(expected, listing) if line[0] in "+-"]
    return "\n".join([*lines, f"{len(changed)} lines differ in all"])


LISTED = subprocess.run([sys.executable, str(HERE / "run.py")], stdout=subprocess.PIPE, text=True, check=True)


@pytest.mark.parametrize("name", LISTED.stdout.split())
def test_sequence(runner: Runner, name: str) -> None:
    """A program would get a different error or result than on a GPU."""
    if name not in SEQUENCES:
        pytest.skip("not recorded yet: record.py --missing does it where there is a GPU")
    about, listing = runner.run(name)
    assert listing == SEQUENCES[name], explain(name, about, SEQUENCES[name], listing)


def test_the_sweep_lists_differences(on_gpu: bool) -> None:
    """``ci/gpu.sh`` would pass although a GPU differs from its recording, or would fail although none differs."""
    library = "libcuda.so.1" if on_gpu else cudacore_sim.get_library()
    same, other = "events.null", "events.recorded"
    expected = {same: SEQUENCES[same], other: [*SEQUENCES[other], "one more line"]}
    assert sweep.compare(library, expected) == {other: ["- one more line"]}


def test_no_recording_is_forgotten() -> None:
    """Some recordings of a GPU would never be compared with the simulator."""
    assert sorted(set(SEQUENCES) - set(LISTED.stdout.split())) == []
