# SPDX-License-Identifier: Apache-2.0
"""Capsules, by which other extension modules use our handles."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_sources import PTX

import cudacore_handles as ch
from bindings import call_bindings
from cudacore_handles._base.handle import adopt
from cudacore_handles._cffi import ffi, lib

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "extension"

capsule_new = ctypes.pythonapi.PyCapsule_New
capsule_new.restype, capsule_new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
capsule_name = ctypes.pythonapi.PyCapsule_GetName
capsule_name.restype, capsule_name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def make(kind: str, device: ch.Device) -> Any:
    """Make an object that has a handle of the given kind."""
    stream = device.create_stream()
    objects: dict[str, Callable[[], Any]] = {
        "context": lambda: device.context,
        "stream": lambda: stream,
        "event": lambda: device.create_event(),
        "deviceptr": lambda: device.allocate(64, stream=stream),
        "pool": lambda: ch.DeviceMemoryResource(device, ch.DeviceMemoryResourceOptions()),
        "kernel": lambda: ch.ObjectCode.from_ptx(PTX).get_kernel("add"),
        "library": lambda: ch.ObjectCode.from_ptx(PTX),
    }
    return objects[kind]()


FACES = ["context", "stream", "event", "deviceptr", "pool", "kernel"]


@pytest.mark.parametrize("kind", [*FACES, "library"])
def test_capsules_are_named_for_their_kind(device: ch.Device, kind: str) -> None:
    """An extension module would accept a capsule with a handle of another kind."""
    capsule = make(kind, device).__cudacore_handle__()
    name = f"cudacore_handles.{kind}".encode()
    assert capsule_name(capsule) == name
    box = ffi.cast("void *", capsule_pointer(capsule, name))
    assert lib.cch_kind_of(box) == getattr(lib, f"CCH_KIND_{kind.upper()}")


@pytest.mark.parametrize("kind", FACES)
def test_there_and_back(device: ch.Device, kind: str) -> None:
    """An object that is passed through a capsule would come back with another class, or for another resource."""
    there = make(kind, device)
    back = ch.from_capsule(there.__cudacore_handle__())
    assert type(back) is type(there)
    assert int(back.handle) == int(there.handle)
    if kind != "pool":
        assert back == there
    if kind == "pool":
        assert back.device_id == device.device_id
        assert not back.is_handle_owned
        back.allocate(64, stream=device.create_stream()).close()
    if kind == "deviceptr":
        assert back.size == 64
        assert back.memory_resource is None


def test_an_event_of_an_unknown_context(device: ch.Device, stream: ch.Stream) -> None:
    """For an event with an unknown context, reading the context would raise an error about addresses."""
    raw = call_bindings("cuEventCreate", 0)
    out = ffi.new("cch_event **")
    assert lib.cch_event_wrap(out, ffi.cast("CUevent", int(raw)), ffi.NULL, ffi.NULL) == 0
    event = adopt(ch.Event, out)
    assert event.context is None
    assert event.device is None
    stream.record(event)
    event.sync()
    call_bindings("cuEventDestroy", raw)


@pytest.mark.parametrize("kind", ["stream", "event", "deviceptr"])
def test_a_capsule_keeps_the_handle(device: ch.Device, kind: str) -> None:
    """A handle would be destroyed while an extension module has it, or would remain when nothing refers to it."""
    before = ch.live_counts()[kind]
    face = make(kind, device)
    capsule = face.__cudacore_handle__()
    alive = ch.live_counts()[kind]
    face.close()
    assert ch.live_counts()[kind] == alive
    back: Any = ch.from_capsule(capsule)
    del capsule
    assert ch.live_counts()[kind] == alive
    assert not back.is_closed
    back.close()
    del face, back
    assert ch.live_counts()[kind] == before


@pytest.mark.parametrize("kind", ["context", "stream", "event", "deviceptr", "pool"])
def test_what_is_closed_has_no_handle(device: ch.Device, kind: str) -> None:
    """A closed object would give an extension module NULL instead of an error."""
    face = make(kind, device)
    face.close()
    with pytest.raises(ch.ClosedError, match="closed"):
        face.__cudacore_handle__()


@pytest.mark.parametrize("value", [None, 0, "stream", object()])
def test_what_is_no_capsule(value: object) -> None:
    """Any value would be accepted as a capsule with a handle."""
    with pytest.raises(TypeError, match="capsule must be a capsule of a handle"):
        ch.from_capsule(value)


def test_capsules_of_other_kinds(device: ch.Device) -> None:
    """A capsule without a handle, or with a wrong name, would be treated as a handle, and the process would crash."""
    with pytest.raises(TypeError, match="capsule must be a capsule of a handle"):
        ch.from_capsule(ch.api)
    with pytest.raises(
        TypeError, match="holds a library, which cannot be converted to an object; supported are: context, stream"
    ):
        ch.from_capsule(make("library", device).__cudacore_handle__())
    stream = device.create_stream()
    pointer = capsule_pointer(stream.__cudacore_handle__(), b"cudacore_handles.stream")
    with pytest.raises(ValueError, match=r'named "cudacore_handles\.event", but does not hold such a handle'):
        ch.from_capsule(capsule_new(pointer, b"cudacore_handles.event", None))


def test_the_table_is_the_librarys() -> None:
    """An extension module would call another copy of the library, or call through a NULL pointer."""
    table = capsule_pointer(ch.api, b"cudacore_handles.api")
    assert ctypes.c_size_t.from_address(table).value > 60 * ctypes.sizeof(ctypes.c_void_p)
    version = ctypes.c_void_p.from_address(table + ctypes.sizeof(ctypes.c_size_t)).value
    assert version == ctypes.cast(ctypes.CDLL(ch.get_library()).cch_version, ctypes.c_void_p).value


# ---- the example of an extension module


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the example by its setup.py, without a warning; return the folder with the module."""
    pytest.importorskip("setuptools")
    if not EXAMPLE.is_dir():
        pytest.skip("needs the documentation's sources")
    folder = tmp_path_factory.mktemp("extension")
    for source in ("filler.c", "setup.py"):
        shutil.copy(EXAMPLE / source, folder)
    result = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env=os.environ | {"CFLAGS": "-Wall -Wextra -Werror"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_the_example(example: Path, run_on_driver: Callable[..., str]) -> None:
    """The documented example of an extension module would not compile or work, or would leak or destroy a handle."""
    run_on_driver(
        f"""
        import gc, sys
        sys.path.insert(0, {str(example)!r})
        import sysconfig
        import cudacore_handles as ch
        import filler

        assert not sysconfig.get_config_var("Py_GIL_DISABLED") or not sys._is_gil_enabled()
        device = ch.Device(0)
        device.set_current()
        stream = device.create_stream()
        host = ch.LegacyPinnedMemoryResource().allocate(64)
        buffer = device.allocate(64, stream=stream)
        before = ch.live_counts()

        filler.fill(buffer, ch.LEGACY_DEFAULT_STREAM, 41).sync()
        done = filler.fill(buffer, stream, 42)
        assert type(done) is ch.Event
        buffer.copy_to(host, stream=stream)
        done.sync()
        stream.sync()
        assert bytes(host.__buffer__()) == bytes([42]) * 64

        closed = device.allocate(64, stream=stream)
        closed.close()
        for bad, error in ((closed, ch.ClosedError), (None, AttributeError), (stream, ValueError)):
            try:
                filler.fill(bad, stream, 1)
            except error:
                pass
            else:
                raise AssertionError(bad)
        done.close()
        gc.collect()
        assert ch.live_counts() == before, ch.live_counts()
        """
    )
