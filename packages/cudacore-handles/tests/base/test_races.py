# SPDX-License-Identifier: Apache-2.0
"""Races of threads for one object. Without a GIL, each of them was a use after free, a lost count or a leak."""

from __future__ import annotations

import gc
import os
import struct
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from packing import UNKNOWN

import cudacore_handles as ch
import cudacore_handles.texture as ct
from cudacore_handles import _native
from threads_at_once import GIL, in_threads

ONE_BLOCK = ch.LaunchConfig(grid=1, block=1)
free_threaded = pytest.mark.skipif(GIL, reason="needs a Python without a GIL")


def race(*functions: Callable[[], object], times: int = 200) -> None:
    """Call each function in a thread of its own, again and again. Uses of closed objects may fail."""

    def work(function: Callable[[], object]) -> None:
        for _ in range(times):
            try:
                function()
            except ch.ClosedError:
                pass

    in_threads(work, functions)


@free_threaded
def test_import_leaves_the_gil_off(run_python: Any) -> None:
    """A module that does not declare that it needs no GIL turns the GIL on for the whole program."""
    done = run_python("import sys, cudacore_handles._native, cudacore_handles._cffi; print(sys._is_gil_enabled())")
    assert (done.stdout.strip(), done.stderr) == ("False", "")


@free_threaded
@pytest.mark.parametrize("config", ["legacy", "isolated"])
def test_subinterpreters_are_refused_with_the_reason(run_python: Any, config: str) -> None:
    """CPython's own message does not name the module that is the reason, or what to use instead."""
    done = run_python(f"""
        import _interpreters
        failure = _interpreters.run_string(_interpreters.create("{config}"), "import cudacore_handles")
        print(failure.msg)
    """)
    assert "because cffi cannot: use threads of the main interpreter" in done.stdout


@free_threaded
def test_the_environment_is_not_read_while_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """getenv() would read the environment that another thread's assignment to os.environ moves or frees."""
    name = "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM"
    monkeypatch.setattr(os, "environ", {name: "1"})  # getenv() does not see it
    assert ch.default_stream() is ch.PER_THREAD_DEFAULT_STREAM
    monkeypatch.setattr(os, "environ", {})
    assert ch.default_stream() is ch.LEGACY_DEFAULT_STREAM


def test_use_and_close(device: ch.Device) -> None:
    """A lost count of users would free the stream while it is used, or never."""
    for _ in range(100):
        stream = device.create_stream()
        race(*[stream.record] * 3, stream.close, times=5)
        assert stream.is_closed
        with pytest.raises(ch.ClosedError):
            stream.sync()


def test_close_by_two_threads(host_memory: Any, stream: ch.Stream) -> None:
    """Both threads would release the memory resource and the owner of the buffer."""

    class Owner:
        pass

    for _ in range(100):
        owner = Owner()
        gone = weakref.ref(owner)
        buffer = ch.Buffer.from_handle(4096, 8, owner=owner)
        del owner
        race(buffer.close, buffer.close, lambda buffer=buffer: buffer.owner, times=2)
        del buffer
        gc.collect()
        assert gone() is None


def test_layout_of_a_kernel(code: ch.ObjectCode, stream: ch.Stream, pinned: Callable[[int], ch.Buffer]) -> None:
    """A launch would read a layout that another thread stores or replaces."""
    out = pinned(4)
    out_value = memoryview(out.__buffer__()).cast("i")  # type: ignore[attr-defined]
    for _ in range(20):
        kernel = code.get_kernel("add")
        before = out_value[0]
        race(*[lambda kernel=kernel: ch.launch(stream, ONE_BLOCK, kernel, out, 1)] * 4, times=3)
        stream.sync()
        assert out_value[0] - before == 12
        layout = kernel._layout
        kernel._layout = struct.pack("=3I", 0, 8, UNKNOWN)
        assert kernel._layout is layout  # launches on other threads read it
    del out_value


def test_close_of_a_kernel_that_is_launched(
    code: ch.ObjectCode, stream: ch.Stream, pinned: Callable[[int], ch.Buffer]
) -> None:
    """The code would be unloaded while a launch uses it, or never, because launches are counted by thread."""
    out = pinned(4)
    for _ in range(100):
        kernel = code.get_kernel("add")
        kernel.arguments_info  # noqa: B018 - launches in C need the layout
        before = ch.live_counts()["kernel"]
        launches = [lambda kernel=kernel: ch.launch(stream, ONE_BLOCK, kernel, out, 1)] * 3
        race(*launches, kernel.close, kernel.close, times=5)
        assert kernel.is_closed
        assert ch.live_counts()["kernel"] == before - 1
        with pytest.raises(ch.ClosedError):
            launches[0]()
    stream.sync()


def test_values_of_a_prepared_launch(
    code: ch.ObjectCode, stream: ch.Stream, pinned: Callable[[int], ch.Buffer]
) -> None:
    """The owners of old values would be released while a launch uses them, or twice."""
    outs = [pinned(4) for _ in range(3)]
    prepared = code.get_kernel("add").prepare(stream, ONE_BLOCK, outs[0], 1)

    def replace() -> None:
        prepared[0] = outs[1]

    race(prepared, lambda: prepared(outs[2], 1), replace, prepared, times=300)
    stream.sync()
    done = [memoryview(out.__buffer__()).cast("i")[0] for out in outs]  # type: ignore[attr-defined]
    assert sum(done) == 900


def test_types_that_are_registered_while_they_are_read(code: ch.ObjectCode) -> None:
    """The table of types would be moved or changed while it is read, and a converter freed while it is called."""

    class Value:
        pass

    kept: list[weakref.ref[Any]] = []

    def register() -> None:
        def convert(value: object, size: int, kind: int) -> int:
            return 5

        kept.append(weakref.ref(convert))
        _native.register(Value, convert)

    def grow() -> None:
        _native.register(type("Other", (), {}), lambda value, size, kind: 6)

    register()
    layout, value = struct.pack("=3I", 0, 8, UNKNOWN), Value()

    def pack() -> None:
        assert _native.pack(layout, (value,), None) == struct.pack("=Q", 5)

    race(pack, pack, register, grow, times=1000)
    gc.collect()
    assert sum(ref() is not None for ref in kept) == 1  # converters that were replaced are released


def test_code_that_is_replaced_while_it_is_read() -> None:
    """A thread that reads a code could bring it back after it was replaced."""

    class Value:
        def __index__(self) -> int:
            return 5

        def __float__(self) -> float:
            return 5.0

    layout, value = struct.pack("=3I", 0, 8, UNKNOWN), Value()
    codes = {_native.SIGNED: struct.pack("=q", 5), _native.FLOAT: struct.pack("=d", 5.0)}
    _native.register(Value, _native.SIGNED)

    def pack() -> None:
        assert _native.pack(layout, (value,), None) in codes.values()

    def replace() -> None:
        for code, packed in codes.items():
            _native.register(Value, code)
            assert _native.pack(layout, (value,), None) == packed

    race(pack, pack, pack, replace, times=2000)


def test_shared_views(device: ch.Device, stream: ch.Stream) -> None:
    """What a view makes at first use would be released while another thread reads it."""
    buffer = device.allocate(64, stream=stream)
    for _ in range(100):
        view = ch.StridedMemoryView.from_buffer(buffer, (4, 4), dtype=np.float32)
        made = in_threads(lambda view: (view.dtype, view._layout), [view] * 4)
        assert all(layout is made[0][1] for _, layout in made)


def test_a_capsule_is_taken_once(device: ch.Device, stream: ch.Stream) -> None:
    """Two threads would own one tensor, and delete it twice."""

    class Producer:
        def __init__(self, capsule: object) -> None:
            self.capsule = capsule

        def __dlpack__(self, **_: object) -> object:
            return self.capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return device_of

    buffer = device.allocate(64, stream=stream)
    device_of = buffer.__dlpack_device__()

    def take(producer: Producer) -> bool:
        try:
            ch.StridedMemoryView.from_dlpack(producer, stream_ptr=-1)
        except ValueError:
            return False
        return True

    for _ in range(100):
        assert sum(in_threads(take, [Producer(buffer.__dlpack__(stream=-1))] * 4)) == 1


def test_a_bytearray_that_is_resized() -> None:
    """The bytes would be read after they were freed."""
    data = bytearray(8)

    def resize() -> None:
        data.extend(bytes(4096))
        del data[8:]

    def pack() -> None:
        try:
            _native.pack(struct.pack("=3I", 0, 8, UNKNOWN), (data,), None)
        except (TypeError, BufferError):
            pass  # it had another size, or was exported at that moment

    def safely(function: Callable[[], object]) -> Callable[[], object]:
        def call() -> None:
            try:
                function()
            except BufferError:
                pass

        return call

    race(safely(resize), pack, pack, times=1000)


def test_a_tensor_map_that_gets_other_memory(device: ch.Device, stream: ch.Stream) -> None:
    """A launch would read half of the old map and half of the new one, or keep the wrong memory."""
    if not device.properties.tensor_map_access_supported:
        pytest.skip("needs tensor maps: compute capability 9.0")
    views = [device.allocate(4096, stream=stream).view("float32", (32, 32)) for _ in range(2)]
    tensor_map = views[0].as_tensor_map((8, 8))
    layout = struct.pack("=3I", 0, 128, UNKNOWN)
    whole = set()
    for view in views:
        tensor_map.replace_address(view)
        whole.add(_native.pack(layout, (tensor_map,), None))
    packed: set[bytes] = set()
    race(
        *(lambda view=view: tensor_map.replace_address(view) for view in views),
        *[lambda: packed.add(_native.pack(layout, (tensor_map,), None))] * 2,
        lambda: repr(tensor_map),
    )
    assert len(whole) == 2
    assert packed <= whole


def test_close_of_a_texture(device: ch.Device) -> None:
    """Two threads would release the resource of the texture, or one would read it after that."""
    options = ct.OpaqueArrayOptions((8, 4), "float32", num_channels=1)
    for _ in range(50):
        array = device.create_opaque_array(options)
        gone = weakref.ref(array)
        resource = ct.ResourceDescriptor.from_opaque_array(array)
        texture = device.create_texture_object(resource=resource, options=ct.TextureObjectOptions())
        del array, resource
        race(texture.close, texture.close, lambda texture=texture: (texture.resource, texture.options), times=2)
        assert texture.is_closed
        del texture
        gc.collect()
        assert gone() is None
