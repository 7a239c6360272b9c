# SPDX-License-Identifier: Apache-2.0
"""Pickles contain no names of private modules, so other versions can read them."""

from __future__ import annotations

import copy
import copyreg
import pickle
import pickletools
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest

import cudacore as cc
import cudacore_compile
import cudacore_graph
import cudacore_handles


def private_names(data: bytes) -> list[str]:
    """Return the private modules that a pickle names."""
    texts = [argument for _, argument, _ in pickletools.genops(data) if isinstance(argument, str)]
    return [text for text in texts if text.startswith("cudacore") and "._" in text]


@pytest.fixture(autouse=True)
def only_our_reducers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the functions by which other libraries, such as tblib for Dask, pickle exceptions of the whole process."""
    for cls in [cls for cls in copyreg.dispatch_table if isinstance(cls, type) and issubclass(cls, BaseException)]:
        monkeypatch.delitem(copyreg.dispatch_table, cls)


def error() -> cc.CUDAError:
    """Return an error that was raised by a failed allocation."""
    with pytest.raises(cc.CUDAError) as caught:
        cc.Device(0).allocate(1 << 60, stream=cc.Device(0).default_stream)
    return caught.value


PTX = b".version 7.0\n.target sm_70\n.address_size 64\n"
MAKERS: list[Callable[[], Any]] = [
    lambda: cc.Device(0),
    lambda: cc.LaunchConfig(grid=(2, 3), block=4, shmem_size=8),
    lambda: cc.Host(numa_id=0),
    lambda: cc.Host.numa_current(),
    lambda: cc.ObjectCode.from_ptx(PTX, name="x"),
    lambda: cc.Device(0).compute_capability,
    lambda: cc.EventOptions(timing_enabled=True),
    lambda: cc.StreamOptions(nonblocking=True),
    lambda: cc.DeviceMemoryResourceOptions(max_size=1 << 20),
    lambda: cudacore_handles.CopyOptions(),
    lambda: cudacore_handles.ParamKind.POINTER,
    lambda: cudacore_handles.ParamInfo(0, 8, cudacore_handles.ParamKind.POINTER),
    lambda: cc.ProgramOptions(arch="sm_80", std="c++17"),
    lambda: cc.LinkerOptions(arch="sm_80"),
    lambda: cudacore_compile.CompileJob("code", cc.ProgramOptions(arch="sm_80")),
    lambda: cudacore_graph.GraphCompleteOptions(),
    lambda: cudacore_graph.GraphDebugPrintOptions(),
    lambda: cudacore_graph.GraphMemoryResource(0),
    error,
]


@pytest.mark.parametrize("make", MAKERS, ids=range(len(MAKERS)))
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_pickles_name_nothing_private(make: Callable[[], Any], protocol: int) -> None:
    """A pickle could no longer be read after a private module is renamed."""
    cc.Device(0).set_current()
    value = make()
    data = pickle.dumps(value, protocol=protocol)
    assert private_names(data) == []
    for again in (pickle.loads(data), copy.copy(value), copy.deepcopy(value)):
        assert type(again) is type(value)
        assert repr(again) == repr(value) or isinstance(value, cc.ObjectCode)


@pytest.mark.needs_driver("12.0", "memory pools of several processes")
def test_what_processes_share(device: cc.Device) -> None:
    """A process with another version could not open memory or an event that it receives."""
    stream = device.create_stream()
    event = device.create_event(cc.EventOptions(ipc_enabled=True))
    assert private_names(pickle.dumps(event)) == []
    assert private_names(pickle.dumps(event.ipc_descriptor)) == []
    resource = cc.DeviceMemoryResource(device, cc.DeviceMemoryResourceOptions(ipc_enabled=True, max_size=1 << 20))
    buffer = resource.allocate(64, stream=stream)
    assert private_names(pickle.dumps(buffer.ipc_descriptor)) == []
    assert private_names(pickle.dumps(buffer)) == []
    buffer.close()
    resource.close()


def test_a_subclass_keeps_its_own_module() -> None:
    """A user's subclass would be pickled as its base."""
    again = pickle.loads(pickle.dumps(Options(arch="sm_80")))
    assert type(again) is Options


def test_a_class_that_is_loaded_later_than_its_package() -> None:
    """A pickled BatchError could not be read in a process that has not yet imported the module of the class."""
    with pytest.raises(cudacore_compile.BatchError) as caught:
        cudacore_compile.compile_many([cudacore_compile.CompileJob("no C++ at all", cc.ProgramOptions(arch="sm_80"))])
    data = pickle.dumps(caught.value)
    assert private_names(data) == []
    program = f"import pickle; print(type(pickle.loads({data!r})).__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "BatchError"


def test_types_of_options() -> None:
    """Programs that make command lines from options would not find the types of the fields in the public module."""
    for options in (cc.ProgramOptions, cc.StreamOptions, cudacore_handles.ContextOptions):
        assert options.__module__ == options.__module__.partition(".")[0]
        assert typing.get_type_hints(options).keys() == options.__dataclass_fields__.keys()


class Options(cc.ProgramOptions):
    """A user's subclass of ProgramOptions."""
