# SPDX-License-Identifier: Apache-2.0
"""The examples of the guide about sharing between processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import cudacore as core
from guide_programs import blocks_of

TIMEOUT = 240


@pytest.fixture
def environment(on_sim: bool) -> dict[str, str]:
    """Return the environment in which an example uses the same driver as this process."""
    return os.environ | ({"CUDACORE_DRIVER": "sim"} if on_sim else {})


def examples() -> list[str]:
    return [block.code for block in blocks_of("sharing", "python")]


def start(code: str, folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    script = folder / f"example{len(list(folder.iterdir()))}.py"
    script.write_text(code)
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, script], cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True)


def said(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, err) == (0, "")
    return out


def is_listening(folder: Path) -> bool:
    if not (folder / "exporter.socket").exists():
        return False  # the list of sockets below has no folders, so check this folder first
    listening = "00010000"
    sockets = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    return any(fields[-1] == "exporter.socket" and fields[3] == listening for fields in sockets)


def test_multiprocessing(tmp_path: Path, environment: dict[str, str]) -> None:
    """The guide's program with multiprocessing would not work."""
    assert said(start(examples()[0], tmp_path, environment)) == "{42}\n"


def test_sockets(tmp_path: Path, environment: dict[str, str]) -> None:
    """The guide's two programs would not connect, or not share memory."""
    exporting, importing = examples()[1:3]
    exporter = start(exporting, tmp_path, environment)
    until = time.monotonic() + TIMEOUT
    while not is_listening(tmp_path) and exporter.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    assert said(start(importing, tmp_path, environment)) == "{7}\n"
    assert said(exporter) == ""


def test_virtual_memory(device: Any) -> None:
    """The guide's functions would not send virtual memory to another process."""
    code: dict[str, Any] = {}
    exec(compile(examples()[3], "sharing.rst", "exec"), code)
    stream, resource = device.create_stream(), core.VirtualMemoryResource(device)
    buffer = resource.allocate(1, stream=stream)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        code["send"](ours, resource, buffer[8:16])
        part = code["receive"](theirs, resource)
    part.fill(5, stream=stream)
    back = bytearray(16)
    buffer[:16].copy_to(back, stream=stream)
    assert back[8:] == b"\5" * 8
