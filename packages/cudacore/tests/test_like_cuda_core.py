# SPDX-License-Identifier: Apache-2.0
"""Calls that must have the same result in cuda.core and cudacore, or differ on purpose. Each has its own process."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cudacore

SCRIPT = Path(__file__).with_name("cuda_core_calls.py")


def read_calls() -> dict[str, str]:
    """Return the calls of the table, each with what is said of it: nothing, if both packages must do the same."""
    found: dict[str, str] = {}
    for line in SCRIPT.with_suffix(".txt").read_text().replace("\n    @", "  @").splitlines():
        row, _, said = line.partition("  ## ")
        pattern, *values = row.split("  @")
        for call in [pattern.replace("@", value.strip()) for value in values] or [pattern]:
            if call and not line.startswith("# "):
                assert call not in found, f"the table has {call} twice"
                found[call] = said
    return found


CALLS = read_calls()
DIFFERENT = {call: tuple(said.split(" -> ")) for call, said in CALLS.items() if said}
ALIKE = [call for call, said in CALLS.items() if not said]

# The beginnings of cuda.core's messages that programs compare with.
OPENINGS = {
    "type(ctx)()": "Context objects cannot be instantiated directly",
    "core.Stream()": "Stream objects cannot be instantiated directly",
    "core.Event()": "Event objects cannot be instantiated directly",
    "core.Buffer()": "Buffer objects cannot be instantiated directly",
    "core.Kernel()": "Kernel objects cannot be instantiated directly",
    "dev.allocate(16, stream=None)": "stream is required and must not be None",
    "dev.allocate(16, stream=3)": "Stream or GraphBuilder expected, got int",
    "b.copy_to(small, stream=s)": "buffer sizes mismatch between src and dst (sizes are: src=64, dst=8)",
    'b.fill(b"abc", stream=s)': "value must be 1, 2, or 4 bytes, got 3",
    'dev.allocate(7, stream=s).fill(b"ab", stream=s)': "buffer size (7) must be divisible by 2",
    "core.Buffer.from_handle(b.handle, 16, mr=mymr, owner=b)": "owner and memory resource cannot be both specified",
    "core.ObjectCode()": "ObjectCode objects cannot be instantiated directly",
    "cs.sync()": "Stream has been closed",
    "ce.sync()": "Event has been closed",
    "cb.fill(0, stream=s)": "Buffer has been closed",
    "cmr.allocate(8, stream=s)": "DeviceMemoryResource has been closed",
    'cprog.compile("ptx")': "Program has been closed",
    "core.Device(-1)": "device_id must be >= 0, got -1",
    "core.Device(99)": "device_id must be within [0, 2), got 99",
    "dev.create_stream(Foreign(0, int(s.handle)), options=core.StreamOptions())": "obj and options cannot be both spec",
    "core.LaunchConfig()": "LaunchConfig.grid must be an int, or a tuple with up to 3 ints",
    "core.LaunchConfig(grid=0, block=1)": "LaunchConfig.grid value must be >= 1",
    'core.Program(CUDA, "cuda")': "Unsupported code_type='cuda'",
    'prog.compile("fatbin")': 'Unsupported target_type="fatbin" for ',
    'lto.get_kernel("x")': 'Unsupported code type "ltoir"',
    'core.Program(CUDA, "c++", 3)': "The Program options must be provided as an object of type ProgramOptions or",
    'core.Program(CUDA, "c++", core.ProgramOptions(extra_sources=[("a", "b")]))': (
        "extra_sources is not supported by the NVRTC backend"
    ),
}


@functools.cache
def run(module: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cudacore_sim", sys.executable, str(SCRIPT), module]
    env = os.environ | {"CUDACORE_SIM_DEVICES": "2", "CUDA_VISIBLE_DEVICES": "0,1"}
    # cuda.core frees the names of what it links, and nvJitLink writes what is there then to the standard error.
    return subprocess.run(
        command, input=json.dumps([*CALLS]), capture_output=True, text=True, errors="replace", env=env
    )


@functools.cache
def outcomes(module: str) -> dict[str, Any]:
    """Return the result of each call, made with cuda.core or with cudacore."""
    result = run(module)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def theirs(call: str) -> Any:
    """Return the result of a call with cuda.core. Skip the test if the bindings are too old for cuda.core's feature."""
    outcome = outcomes("cuda.core")[call]
    if outcome[0] == "raises" and "requires cuda-bindings" in outcome[2]:
        pytest.skip("cuda.core has this with newer cuda-bindings alone")
    missing = (
        r"requires CUDA 13|name '[cp]?man2?' is not defined|Unsupported allocation_type: 'managed'"
        r"|requires cuda.bindings with CUDA checkpoint API support"
    )
    if outcome[0] == "raises" and re.search(missing, outcome[2]):
        pytest.skip("cuda.core has this on CUDA 13 alone")
    return outcome


def short(outcome: Any) -> str:
    return outcome[1][0] if outcome[0] == "raises" else outcome[1]


VERSIONS = [one.version for one in importlib.metadata.distributions(name="cuda-core")]
# The table has calls that need a driver for CUDA 13.0.
pytestmark = [
    pytest.mark.needs_driver("13.0", "all that cuda.core is compared in"),
    pytest.mark.skipif(
        not VERSIONS or VERSIONS[0] != cudacore.CUDA_CORE_VERSION,
        reason=f"needs cuda.core {cudacore.CUDA_CORE_VERSION}, with which the table was made",
    ),
]


@pytest.mark.parametrize("call", ALIKE)
def test_alike(call: str) -> None:
    """A program for cuda.core would get another result, or an exception that it does not catch."""
    wanted, given = theirs(call), outcomes("cudacore")[call]
    assert short(wanted) != "NameError"  # a NameError would mean that the call itself is wrong
    assert wanted[0] == given[0], f"{short(wanted)} -> {short(given)}"
    if wanted[0] == "raises":
        assert short(wanted) in given[1]
    else:
        assert wanted[1] == given[1]


@pytest.mark.parametrize("call", DIFFERENT)
def test_different_on_purpose(call: str) -> None:
    """The table and the migration guide would describe a difference incorrectly, or one that does not exist."""
    wanted, given = DIFFERENT[call]
    assert short(theirs(call)) in wanted.split(" or ")
    assert short(outcomes("cudacore")[call]) == given


@pytest.mark.parametrize("call", OPENINGS)
def test_openings_of_messages(call: str) -> None:
    """A program that compares the beginning of a message would not recognize cudacore's message."""
    for module in ("cuda.core", "cudacore"):
        kind, _, message = outcomes(module)[call]
        assert kind == "raises"
        assert message.startswith(OPENINGS[call])
