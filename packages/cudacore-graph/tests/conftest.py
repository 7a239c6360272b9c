# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of this package; those for the tests of all packages are in tests/pytest_cudacore.py."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import cudacore_handles as ch
from cudacore_graph import GraphDefinition, GraphMemoryResource

TESTS = Path(__file__).resolve().parent
sys.path.append(str(TESTS))

import graph_tools  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def _graph_memory(first_device: ch.Device) -> None:
    """Create objects that are made at first use and kept, so that they do not look like leaks of the first test."""
    GraphMemoryResource(first_device)


@pytest.fixture
def code(device: ch.Device) -> ch.ObjectCode:
    """Give the loaded code of graph_tools.PTX."""
    return ch.ObjectCode.from_ptx(graph_tools.PTX)


@pytest.fixture
def conditional(device: ch.Device, need_driver: Callable[[str, str], None]) -> ch.ObjectCode:
    """Give the loaded code of graph_tools.CONDITIONAL, whose kernels set conditions."""
    need_driver("12.3", "conditional nodes")
    return ch.ObjectCode.from_ptx(graph_tools.CONDITIONAL)


@pytest.fixture
def add(code: ch.ObjectCode) -> ch.Kernel:
    """Give the kernel ``*out += amount``."""
    return code.get_kernel("add")


@pytest.fixture
def times(code: ch.ObjectCode) -> ch.Kernel:
    """Give the kernel ``*out *= factor``."""
    return code.get_kernel("times")


@pytest.fixture
def numbers(device: ch.Device) -> graph_tools.Numbers:
    """Give 16 numbers in device memory."""
    return graph_tools.Numbers(16)


@pytest.fixture
def definition(device: ch.Device) -> GraphDefinition:
    """Give an empty definition."""
    return GraphDefinition()


@pytest.fixture
def run(stream: ch.Stream) -> Callable[[GraphDefinition], None]:
    """Instantiate a definition, launch it once, and wait."""

    def run(definition: GraphDefinition) -> None:
        with definition.instantiate() as graph:
            graph.launch(stream)
            stream.sync()

    return run


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run code in a fresh interpreter, with the driver of this process."""

    def run(text: str, timeout: float = 240, **env: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "child.py"
        script.write_text(textwrap.dedent(text))
        child_env = os.environ | {"PYTHONPATH": os.pathsep.join((os.environ.get("PYTHONPATH", ""), str(TESTS)))} | env
        command = [sys.executable, "-X", "faulthandler", str(script)]
        return subprocess.run(command, env=child_env, capture_output=True, text=True, timeout=timeout, check=False)

    return run
