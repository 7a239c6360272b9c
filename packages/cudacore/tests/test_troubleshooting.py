# SPDX-License-Identifier: Apache-2.0
"""The error messages on the page about troubleshooting, and the mistakes that cause them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "help" / "troubleshooting.rst"

BEGIN = """
import multiprocessing
import cudacore as core
import numpy as np
from cudacore.graph import GraphDefinition

device = core.Device()
device.set_current()
stream = device.create_stream()
one = core.LaunchConfig(grid=1, block=1)


def kernel(code, name="k", **options):
    return core.Program(code, "c++", core.ProgramOptions(**options)).compile("cubin").get_kernel(name)


def launch(parameters, *args, config=one, body=""):
    code = f'extern "C" __global__ void k({parameters}) {{ {body} }}'
    core.launch(stream, config, kernel(code), *args)


def buffer(size=16):
    return device.allocate(size, stream=stream)


def of(mistake):
    try:
        mistake()
    except Exception as error:
        print("@", type(error).__name__, error)
    else:
        print("no error")
"""
# One process makes all of these mistakes, one after the other.
MISTAKES = """
of(lambda: core.Device(5))
of(lambda: kernel("__global__ void k() { x = 1; }"))
of(lambda: kernel('#include <foo.h>'))
of(lambda: kernel('#include <vector>'))
of(lambda: kernel('__device__ half x;'))
of(lambda: kernel('extern __device__ int f(); extern "C" __global__ void k(int *x) { *x = f(); }'))
of(lambda: kernel("", arch="sm_1"))
template = core.Program("template <class T> __global__ void k(T *x) {}", "c++")
of(lambda: template.compile("cubin", name_expressions=("j<float>",)))
of(lambda: template.compile("cubin").get_kernel("k<float>"))
of(lambda: kernel("__global__ void k() {}"))
of(lambda: kernel('extern "C" __global__ void k() {}', arch="sm_80"))
of(lambda: launch("int a, float b", 1))
of(lambda: launch("int a", 1.5))
of(lambda: launch("int a", 2**40))
of(lambda: launch("float *a", [1, 2]))
of(lambda: launch("float *a", np.zeros(3)))
of(lambda: core.launch(1, one, kernel('extern "C" __global__ void k() {}')))
of(lambda: launch("", config=core.LaunchConfig(grid=1, block=2048)))
of(lambda: core.launch(stream, core.LaunchConfig(grid=1, block=1024),
                       kernel('extern "C" __global__ void __launch_bounds__(128) k() {}')))
of(lambda: launch("", config=core.LaunchConfig(grid=1, block=1, shmem_size=1 << 20)))
of(lambda: launch("", config=core.LaunchConfig(grid=100_000, block=1024, is_cooperative=True)))
of(lambda: device.allocate(1 << 50, stream=stream))
closed = buffer()
closed.close()
of(lambda: closed.fill(0, stream=stream))
of(lambda: buffer(10).copy_from(np.zeros(3), stream=stream))
builder = stream.create_graph_builder()
of(lambda: core.launch(builder, one, kernel('extern "C" __global__ void k() {}')))
values = buffer(12)
builder.begin_building()
of(lambda: values.copy_to(np.zeros(3, np.float32), stream=builder))
of(stream.sync)
builder.close()
first = GraphDefinition()
memset = first.memset(buffer(), 0, 8)
of(lambda: first.instantiate().update(GraphDefinition()))
memset.pred.add(memset.memset(buffer(), 0, 8))
of(first.instantiate)
stream = device.create_stream()
begin, end = stream.record(), stream.record()
of(lambda: end - begin)
timing = core.EventOptions(timing_enabled=True)
of(lambda: device.create_event(timing) - stream.record(options=timing))
of(lambda: buffer().__buffer__())
of(lambda: np.from_dlpack(buffer()))
of(lambda: core.utils.StridedMemoryView.from_any_interface(object(), stream))
child = multiprocessing.get_context("fork").Process(target=lambda: of(stream.sync))
child.start()
child.join()
"""
NO_DRIVER = {"CUDACORE_DRIVER": "/none/libcuda.so.1"}
# Each of these mistakes needs a separate process.
OTHERS = {
    "no driver": ("of(core.Device)", NO_DRIVER),
    "no device": ('of(lambda: core.Program("", "c++").compile("cubin"))', NO_DRIVER),
    "old driver": (
        """of(lambda: core.Program('extern "C" __global__ void k() {}', "c++").compile("ptx").get_kernel("k"))""",
        {"CUDACORE_SIM_DRIVER_VERSION": "12.0"},
    ),
    "newer cubin": (
        """import cudacore_sim
cudacore_sim.fail("cuLibraryGetKernel", 1, 200)
of(lambda: kernel('extern "C" __global__ void k() {}'))""",
        {},
    ),
    "two drivers": (
        """import os, warnings
warnings.simplefilter("error")
os.environ["CUDACORE_DRIVER"] = "/other/libcuda.so.1"
of(lambda: core.ObjectCode.from_ptx(b"").get_kernel("k"))""",
        {},
    ),
    "address": ('launch("float *a", 16, body="*a = 1;")\nof(stream.sync)', {}),
    "assertion": ('launch("int n", 1, body="assert(n == 2);")\nof(stream.sync)', {}),
}

pytestmark = pytest.mark.cuda_sim


def run(program: str, **environment: str) -> str:
    """Run a program with unbuffered output, and return what it prints."""
    variables = os.environ | {"CUDACORE_DRIVER": "sim"} | environment
    ran = subprocess.run([sys.executable, "-uc", program], env=variables, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert "no error" not in ran.stdout, ran.stdout
    return ran.stdout


def test_messages() -> None:
    """A reader would not find a message on the page, or would find it under another class of errors."""
    text = PAGE.read_text(encoding="utf-8")
    entries = re.findall(r"^(``.*``)\n~+\n\n:Error: (.*)$", text, re.MULTILINE)
    assert len(entries) == len(re.findall("^~+$", text, re.MULTILINE))
    listed = [(message, errors) for title, errors in entries for message in title[2:-2].split("``, ``")]
    assert len(listed) > 30
    printed = run(BEGIN + MISTAKES)
    without_device = BEGIN.partition("device = ")[0] + BEGIN[BEGIN.index("def of") :]
    for name, (program, environment) in OTHERS.items():
        begin = without_device if name in ("no driver", "no device") else BEGIN
        printed += run(begin + program, **environment)
    messages = re.sub(r"\s+", " ", printed).split("@ ")
    assert [
        message
        for message, errors in listed
        if not any(message in each and f"``{each.partition(' ')[0]}``" in errors for each in messages)
    ] == []
