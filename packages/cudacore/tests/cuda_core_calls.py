# SPDX-License-Identifier: Apache-2.0
"""Read calls from the standard input, make them with one module, and write the results: ``cuda_core_calls.py MODULE``.

A result is ``["raises", names of the exception's class and its bases, message]`` or ``["gives", value]``. A value of an
ordinary Python type is represented by its repr, and any other value by the name of its type.
"""

from __future__ import annotations

import copy  # noqa: F401 - for the calls
import ctypes  # noqa: F401 - for the calls
import importlib
import json
import os
import pathlib
import pickle  # noqa: F401 - for the calls
import sys
import tempfile
import warnings
import weakref
from typing import Any

import numpy as np
from cuda.bindings import driver

PLAIN = (bool, int, float, str, bytes, tuple, list, dict, type(None))

PTX = (pathlib.Path(__file__).resolve().parents[3] / "tests" / "kernels.ptx").read_bytes()
CUDA = 'extern "C" __global__ void k(int *p) { *p = 1; } template <typename T> __global__ void f(T x) {}'


class Foreign:
    """A stream of another library, with the method ``__cuda_stream__``."""

    def __init__(self, *pair: object) -> None:
        self.pair = pair

    def __cuda_stream__(self) -> Any:
        return self.pair


class Attribute:
    """A stream of another library, with the older form of the protocol: ``__cuda_stream__`` is an attribute."""

    def __init__(self, handle: int) -> None:
        self.__cuda_stream__ = (0, handle)


class Log:
    """A file-like object to which a compiler's log is written."""

    def write(self, text: str) -> None:
        pass


class Interface:
    """An array of another library, which has only ``__cuda_array_interface__``."""

    def __init__(self, address: int, **fields: Any) -> None:
        good = {"shape": (4, 4), "typestr": "<f4", "data": (address, False), "version": 3}
        self.__cuda_array_interface__ = good | fields


class Described:
    """An array of another library, which has only ``__array_interface__``."""

    def __init__(self, **fields: Any) -> None:
        self.__array_interface__ = {"shape": (4, 4), "typestr": "<f4", "data": (0x1000, False), "version": 3} | fields


# ---- the objects that the calls use


def put(target: object, name: str, value: object) -> object:
    setattr(target, name, value)
    return getattr(target, name)


def closed(target: Any) -> Any:
    target.close()
    return target


def hash_stays(target: Any) -> bool:
    before = hash(target)
    target.close()
    return hash(target) == before


def can_be_referenced(target: object) -> bool:
    return weakref.ref(target)() is target


def names(core: Any, folder: str) -> dict[str, Any]:
    """Return the objects that the calls use, by name. Write a PTX file for the calls into the folder."""
    dev, dev1 = core.Device(0), core.Device(1)
    dev1.set_current()
    s_dev1 = dev1.create_stream()
    dev.set_current()
    s, s2, cs = dev.create_stream(), dev.create_stream(), closed(dev.create_stream())
    timed = core.EventOptions(timing_enabled=True)
    code = core.ObjectCode.from_ptx(PTX, name="n")
    other_code = core.ObjectCode.from_ptx(PTX + b"\n")
    path = pathlib.Path(folder, "k.ptx")
    path.write_bytes(PTX)

    vmr = core.VirtualMemoryResource(dev)

    class Bare(core.MemoryResource):  # type: ignore[misc]
        def deallocate(self, ptr: int, size: int, *, stream: object = None) -> None:
            pass

    class Whole(Bare):
        is_device_accessible = is_host_accessible = True
        device_id = -1

    class Resource(Bare):
        seen: list[str]

        def __getattribute__(self, name: str) -> Any:
            if name.startswith("is_") or name == "device_id":
                self.seen.append(name)
                return -1 if name == "device_id" else True
            return super().__getattribute__(name)

    def asked(name: str) -> list[str]:
        """Read or call an attribute of a buffer. Return the properties that this reads from its memory resource."""
        resource = Resource()
        resource.seen = []
        value = getattr(core.Buffer.from_handle(4096, 16, mr=resource), name)
        if callable(value):
            value()
        return resource.seen

    def options(**fields: Any) -> Any:
        return core.ProgramOptions(arch="sm_90", **fields)

    def split(count: Any, **fields: Any) -> Any:
        groups, rest = sm.split(core.SMResourceOptions(count=count, **fields))
        return [group.sm_count for group in groups], rest.sm_count

    def make_green(*resources: Any) -> Any:
        return dev.create_context(core.ContextOptions(resources=resources))

    def program(source: Any = CUDA, **fields: Any) -> Any:
        return core.Program(source, "c++", options(**fields))

    array = np.arange(16, dtype=np.float32).reshape(4, 4)
    read_only = array.copy()
    read_only.flags.writeable = False
    layout = importlib.import_module(f"{core.__name__}._layout")._StridedLayout
    views = importlib.import_module(f"{core.__name__}.utils")
    device_view = views.StridedMemoryView.from_buffer(dev.allocate(64, stream=s), (4, 4), dtype=array.dtype)

    texture = importlib.import_module(f"{core.__name__}.texture")
    opaque, describe = texture.OpaqueArrayOptions, texture.ResourceDescriptor

    def make_array(shape: Any = (8, 4), format: Any = "float32", channels: Any = 1, **fields: Any) -> Any:  # noqa: A002
        return dev.create_opaque_array(opaque(shape, format, channels, **fields))

    def make_texture(array: Any, **fields: Any) -> Any:
        chosen = texture.TextureObjectOptions(**fields)
        return dev.create_texture_object(resource=describe.from_opaque_array(array), options=chosen)

    stored = make_array(is_surface_load_store=True)
    stores = describe.from_opaque_array(stored)
    levels = dev.create_mipmapped_array(texture.MipmappedArrayOptions((8, 4), "uint8", 4, 3))

    sm = dev.resources.sm
    (group, group2), rest = sm.split(core.SMResourceOptions(count=[16, 16]))
    green = dev.create_context(core.ContextOptions([group]))

    managed = {}
    try:
        for name in "pman", "cman":
            managed[name] = core.ManagedMemoryResource().allocate(64, stream=s)
        managed["cman"].close()
        for name in "man", "man2":  # memory of pools does not accept advice
            managed[name] = core.ManagedBuffer.from_handle(int(driver.cuMemAllocManaged(64, 1)[1]), 64)
    except RuntimeError as error:
        # cuda.core has no managed memory before CUDA 13. Calls that use it then raise NameError.
        if "requires CUDA 13" not in str(error):
            raise

    ctx = dev.context
    dry = sm.split(core.SMResourceOptions(count=16), dry_run=True)[0][0]
    sm_dev1 = dev1.resources.sm
    gs = green.create_stream()
    cgreen = closed(dev.create_context(core.ContextOptions([group2])))
    e = dev.create_event()
    e1 = s.record(options=timed)
    unrecorded = dev.create_event(timed)
    ce = closed(dev.create_event())
    mr = core.DeviceMemoryResource(dev)
    own = core.DeviceMemoryResource(dev, core.DeviceMemoryResourceOptions(max_size=1 << 24))
    cmr = closed(core.DeviceMemoryResource(dev, core.DeviceMemoryResourceOptions()))
    pin = core.LegacyPinnedMemoryResource()
    mymr = Whole()
    bare = Bare()
    b = dev.allocate(64, stream=s)
    b2 = dev.allocate(64, stream=s)
    small = dev.allocate(8, stream=s)
    p = core.LegacyPinnedMemoryResource().allocate(64)
    p64 = core.LegacyPinnedMemoryResource().allocate(64)
    utils = importlib.import_module(f"{core.__name__}.utils")
    cb = closed(dev.allocate(64, stream=s))
    lto = core.ObjectCode.from_ltoir(b"x")
    k = code.get_kernel("nothing")
    add = code.get_kernel("add")
    cfg = core.LaunchConfig(grid=1, block=1)
    prog = program()
    cprog = closed(program())
    viewable = views.args_viewable_as_strided_memory
    f = layout.dense((3, 4), 4, "F")
    a = array
    ro = read_only
    f4 = array.dtype
    d = device_view
    arr = make_array()
    carr = closed(make_array())
    clevels = closed(dev.create_mipmapped_array(texture.MipmappedArrayOptions((8, 4), "uint8", 4, 3)))
    tex = make_texture(stored)
    ctex = closed(make_texture(stored))
    surf = dev.create_surface_object(resource=stores)
    csurf = closed(dev.create_surface_object(resource=stores))
    texels = dev.allocate(1024, stream=s)
    h = views.StridedMemoryView.from_dlpack(array, -1)
    others = {"L": layout, "l": layout((3, 4), None, 4), "V": views.StridedMemoryView, "T": texture, "R": describe}
    return globals() | locals() | managed | others | {"path": str(path)}


def outcome(call: str, scope: dict[str, Any]) -> list[Any]:
    try:
        value = eval(call, scope)
    except Exception as error:
        return ["raises", [cls.__name__ for cls in type(error).__mro__], str(error)]
    return ["gives", repr(value) if isinstance(value, PLAIN) else type(value).__name__]


def main() -> None:
    warnings.simplefilter("ignore")
    module = importlib.import_module(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        calls, scope = json.load(sys.stdin), names(module, folder)
        json.dump({call: outcome(call, scope) for call in calls}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # the behaviour of cuda.core at exit is not compared


if __name__ == "__main__":
    main()
