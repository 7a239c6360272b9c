# SPDX-License-Identifier: Apache-2.0
"""The trace of calls and work."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., subprocess.CompletedProcess[str]]

# The traced work: a kernel, a fill on another stream that waits for it, and copies in two branches of a graph.
PROGRAM = '''
import threading, time
cu.cuInit(0)
context = c_void_p()
cu.cuDevicePrimaryCtxRetain(byref(context), 0)
cu.cuCtxSetCurrent(context)
first, second, done, memory = c_void_p(), c_void_p(), c_void_p(), c_uint64()
cu.cuStreamCreate(byref(first), 1)
cu.cuStreamCreate(byref(second), 1)
cu.cuEventCreate(byref(done), 2)
cu.cuMemAlloc_v2(byref(memory), c_size_t(1 << 20))
PTX = b""".version 8.0
.target sm_90
.address_size 64
.visible .entry _Z4waitIfEvT_(.param .f32 p) { .reg .b32 %r; mov.u32 %r, %tid.x; ret; }
\\0"""
module, function = c_void_p(), c_void_p()
assert cu.cuModuleLoadData(byref(module), PTX) == 0
cu.cuModuleGetFunction(byref(function), module, b"_Z4waitIfEvT_")
value = c_float(1)
arguments = (c_void_p * 1)(cast(pointer(value), c_void_p))
# Nothing runs before all is there.
there = threading.Event()
gate = CFUNCTYPE(None, c_void_p)(lambda _: there.wait(20))
cu.cuLaunchHostFunc(first, gate, None)
assert cu.cuLaunchKernel(function, 2, 1, 1, 32, 1, 1, 0, first, arguments, None) == 0
cu.cuEventRecord(done, first)
cu.cuStreamWaitEvent(second, done, 0)
assert cu.cuMemsetD8Async(memory, 0, c_size_t(1000), second) == 0
there.set()
nap = CFUNCTYPE(None, c_void_p)(lambda _: time.sleep(0.2))
class Host(Structure):
    _fields_ = [("fn", c_void_p), ("data", c_void_p)]
host = Host(cast(nap, c_void_p), None)
graph, executable, node = c_void_p(), c_void_p(), c_void_p()
cu.cuGraphCreate(byref(graph), 0)
for _ in range(2):
    assert cu.cuGraphAddHostNode(byref(node), graph, None, c_size_t(0), byref(host)) == 0
assert cu.cuGraphInstantiateWithFlags(byref(executable), graph, c_uint64(0)) == 0
cu.cuGraphLaunch(executable, first)
cu.cuCtxSynchronize()
'''


def read(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_text())
    return events


def names(events: list[dict[str, Any]], kind: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == kind}


def test_trace(run_python: Run, tmp_path: Path) -> None:
    """The trace would lack work or its dependencies, or show work at a wrong time or in a wrong stream."""
    path = tmp_path / "trace.json"
    result = run_python(PROGRAM, TRACE=path)
    assert result.returncode == 0, result.stderr
    events = read(path)
    tracks = names(events, "thread_name")
    slices = {e["name"]: e for e in events if e["ph"] == "X"}
    kernel, fill = slices["void wait<float>(float)"], slices["fill"]
    assert kernel["args"] == {"grid": "(2,1,1)", "block": "(32,1,1)", "dynamic shared memory": 0}
    assert fill["args"] == {"bytes": 1000}
    place = {name: (e["pid"], e["tid"]) for name, e in slices.items()}
    assert tracks[place["void wait<float>(float)"]] != tracks[place["fill"]]
    assert tracks[place["fill"]].startswith("stream 0x")
    assert kernel["ts"] + kernel["dur"] <= fill["ts"]
    # Arrows lead from each call to the work it enqueued, and from the kernel to the fill that waited for the kernel.
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    arrows = [(e, ends[e["id"]]) for e in events if e["ph"] == "s"]
    launch = slices["cuLaunchKernel"]
    assert any(
        e["ts"] == launch["ts"] and (e["pid"], e["tid"]) == (launch["pid"], launch["tid"]) and f["ts"] == kernel["ts"]
        for e, f in arrows
    )
    (waited,) = ((e, f) for e, f in arrows if e["cat"] == "dependency")
    assert kernel["ts"] <= waited[0]["ts"] <= kernel["ts"] + kernel["dur"]
    assert waited[1]["ts"] == fill["ts"]
    assert [e["name"] for e in events if e["ph"] == "i"].count("event record") == 1
    assert "cuGetProcAddress" not in slices
    (device,) = {pid for pid, tid in tracks if names(events, "process_name").get((pid, 0), "").startswith("GPU 0: ")}
    assert device == kernel["pid"] != launch["pid"]


def test_what_runs_at_once(run_python: Run, tmp_path: Path) -> None:
    """Work of one stream that runs at the same time would be drawn on top of each other."""
    path = tmp_path / "trace.json"
    assert run_python(PROGRAM, TRACE=path).returncode == 0
    events = read(path)
    one, other = (e for e in events if e["ph"] == "X" and e["name"] == "host function of a graph")
    assert one["ts"] < other["ts"] + other["dur"]
    assert other["ts"] < one["ts"] + one["dur"]
    assert one["tid"] != other["tid"]
    tracks = names(events, "thread_name")
    assert {tracks[e["pid"], e["tid"]].endswith(", at the same time (1)") for e in (one, other)} == {True, False}


def test_process_that_is_killed(run_python: Run, tmp_path: Path) -> None:
    """The trace of a killed process would be lost, or two processes would write into one file."""
    result = run_python(
        PROGRAM + "import os, signal; print(os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGKILL)",
        TRACE=tmp_path / "trace-%p.json",
    )
    text = (tmp_path / f"trace-{result.stdout.strip()}.json").read_text()
    events = json.loads(text.rstrip(",\n") + "]")
    assert "cuCtxSynchronize" in {e["name"] for e in events}


def test_file_that_cannot_be(run_python: Run, tmp_path: Path) -> None:
    """A program would fail because its trace cannot be written, or the error message would not give a reason."""
    result = run_python(PROGRAM, TRACE=tmp_path / "none" / "trace.json")
    assert result.returncode == 0
    assert result.stderr.count("CUDACORE_SIM_TRACE") == 1
    assert "No such file or directory" in result.stderr


def test_work_that_is_skipped(run_python: Run, tmp_path: Path) -> None:
    """Work that did not run because a kernel failed would be shown as if it had run."""
    path = tmp_path / "trace.json"
    bad = PROGRAM.replace("mov.u32 %r, %tid.x;", "mov.u32 %r, %tid.x; trap;").replace("time.sleep", "exec")
    run_python(bad, TRACE=path)
    (fill,) = (e for e in read(path) if e["name"] == "fill")
    assert fill["ph"] == "i"
