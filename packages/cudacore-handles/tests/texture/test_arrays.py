# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays and mipmapped arrays: valid options, and copies."""

from __future__ import annotations

import copy
import pickle
from array import array as python_array
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch
from cudacore_handles.texture import MipmappedArray, MipmappedArrayOptions, OpaqueArray, OpaqueArrayOptions
from cudacore_handles.typing import ArrayFormatType

LINE: dict[str, Any] = {"shape": (8,), "format": "float32", "num_channels": 1}


def make(device: ch.Device, **options: Any) -> OpaqueArray:
    return device.create_opaque_array(OpaqueArrayOptions(**{**LINE, **options}))


def make_levels(device: ch.Device, **options: Any) -> MipmappedArray:
    given = {"shape": (16, 8), "format": "float32", "num_channels": 1, "num_levels": 3}
    return device.create_mipmapped_array(MipmappedArrayOptions(**{**given, **options}))


@pytest.mark.parametrize("shape", [(8,), (8, 4), (8, 4, 3)])
@pytest.mark.parametrize(("name", "channels"), [("uint8", 4), ("float16", 2), ("float32", 1), ("int32", 4)])
def test_facts_and_copies(
    device: ch.Device, stream: ch.Stream, shape: tuple[int, ...], name: str, channels: int
) -> None:
    """The texels of an array would differ from those copied to it, or its properties would be wrong."""
    array = make(device, shape=shape, format=name, num_channels=channels)
    dtype = np.dtype(name)
    assert (array.shape, array.format, array.num_channels) == (shape, ArrayFormatType(name), channels)
    assert array.element_bytes == dtype.itemsize * channels
    assert array.size_bytes == array.element_bytes * int(np.prod(shape))
    assert (array.device, array.is_surface_load_store, array.is_closed) == (device, False, False)
    texels = np.arange(array.size_bytes // dtype.itemsize).astype(dtype)
    back = np.zeros_like(texels)
    array.copy_from(texels, stream=stream)
    assert array.copy_to(back, stream=stream) is back
    assert np.array_equal(texels, back)
    buffer = device.allocate(array.size_bytes + 16, stream=stream)
    buffer.copy_from(bytes(range(1, 17)) * (buffer.size // 16) + bytes(buffer.size % 16), stream=stream)
    array.copy_from(buffer, stream=stream)
    target = device.allocate(array.size_bytes, stream=stream)
    assert array.copy_to(target, stream=stream) is target
    got, wanted = bytearray(array.size_bytes), bytearray(buffer.size)
    target.copy_to(got, stream=stream)
    buffer.copy_to(wanted, stream=stream)
    assert got == wanted[: len(got)]
    array.copy_to(target.view(np.uint8), stream=stream)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"shape": ()}, ValueError, "one to three extents"),
        ({"shape": (1, 2, 3, 4)}, ValueError, "one to three extents"),
        ({"shape": 8}, TypeError, "a tuple of one to three ints"),
        ({"shape": (8, 0)}, ValueError, r"shape\[1\] is 0"),
        ({"shape": (2.5,)}, TypeError, r"shape\[0\] must be an int"),
        ({"format": "float64"}, ValueError, "one of 'uint8'"),
        ({"format": np.float64}, ValueError, "one of 'uint8'"),
        ({"format": np.dtype(">f4")}, ValueError, "one of 'uint8'"),
        ({"format": None}, ValueError, "one of 'uint8'"),
        ({"num_channels": 3}, ValueError, "1, 2 or 4"),
        ({"num_channels": True}, ValueError, "1, 2 or 4"),
        ({"is_surface_load_store": "yes"}, TypeError, "must be True or False"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    """Invalid options would be accepted, and fail in the driver without a reason."""
    with pytest.raises(error, match=message):
        OpaqueArrayOptions(**{**LINE, **options})
    with pytest.raises(error, match=message):
        MipmappedArrayOptions(**{**LINE, "num_levels": 1, **options})


def test_dtypes_name_formats() -> None:
    """A NumPy dtype would not be accepted as a format."""
    for given in (np.float16, np.dtype("f2"), "float16", ArrayFormatType.FLOAT16):
        assert OpaqueArrayOptions((8,), given, 1).format is ArrayFormatType.FLOAT16


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("surface", [False, True])
def test_limits_of_the_device(device: ch.Device, rank: int, surface: bool) -> None:
    """The driver would refuse a large array without saying which limit it exceeds."""
    shape = (1 << 20, 1, 1)[:rank]
    with pytest.raises(ValueError, match=rf"shape\[0\] is 1048576; device 0 takes .* \(maximum_texture{rank}d_width\)"):
        make(device, shape=shape, format="uint8", is_surface_load_store=surface)
    with pytest.raises(ValueError, match="maximum_texture"):
        make_levels(device, shape=shape, num_levels=1)
    if surface and rank == 1:
        width = device.properties.maximum_surface1d_width + 1
        with pytest.raises(ValueError, match="maximum_surface1d_width"):
            make(device, shape=(width,), format="uint8", is_surface_load_store=True)


def test_alternate_limits(device: ch.Device) -> None:
    """Deep arrays, which have their own limits, would be refused."""
    depth = device.properties.maximum_texture3d_depth_alternate
    assert make(device, shape=(1, 1, depth), format="uint8").shape == (1, 1, depth)
    with pytest.raises(ValueError, match=r"shape\[2\] is"):
        make(device, shape=(1, 1, depth + 1), format="uint8")


def test_changed_options(device: ch.Device) -> None:
    """After options are changed, an array would have the earlier extents, or invalid options would not be detected."""
    options = OpaqueArrayOptions((8, 4), "float32", 1)
    shape: Any = [3, 4]
    for given, wanted in (((8, 4), (8, 4)), ((8, 5), (8, 5)), (shape, (3, 4))):
        options.shape = given
        assert device.create_opaque_array(options).shape == wanted
    shape[1] = 6
    assert device.create_opaque_array(options).shape == (3, 6)
    for name, bad, error in (("shape", (8.0, 5), TypeError), ("num_channels", True, ValueError)):
        setattr(options, name, bad)
        with pytest.raises(error, match=r"shape\[0\] must be an int|1, 2 or 4"):
            device.create_opaque_array(options)
        options.shape = (8, 5)
    with pytest.raises(TypeError):
        device.create_opaque_array(None)  # type: ignore[arg-type]


OTHER_TYPES: list[tuple[str, Any]] = [
    ("float32", np.zeros(8)),
    ("float32", np.zeros(8, np.int32)),
    ("float32", np.zeros(16, np.float16)),
    ("float32", np.zeros(8, ">f4")),
    ("float32", np.zeros(8, "M8[s]")),
    ("float32", python_array("d", bytes(64))),
    ("float32", memoryview(bytearray(32)).cast("i")),
    ("uint32", np.zeros(8, np.float32)),
    ("uint32", np.zeros(16, np.uint16)),
    ("uint8", np.zeros(8, np.float32)),
    ("float16", np.zeros(16, np.int16)),
]


@pytest.mark.parametrize(("name", "texels"), OTHER_TYPES, ids=lambda v: str(getattr(v, "dtype", v))[:12])
def test_texels_of_another_type(device: ch.Device, stream: ch.Stream, name: str, texels: Any) -> None:
    """Numbers of another type would be copied as bytes: float64 to float32 gives other numbers."""
    channels = 4 if name == "uint8" else 2 if name == "float16" else 1
    to = make(device, format=name, num_channels=channels)
    for copy_texels in (to.copy_from, to.copy_to):
        with pytest.raises(ValueError, match=f"is an array of .*, and the texels are of {name}: convert it to that"):
            copy_texels(texels, stream=stream)


def test_views_of_another_type(device: ch.Device, stream: ch.Stream) -> None:
    """The type of a view or of an array in device memory would be ignored."""
    to, memory = make(device), device.allocate(64, stream=stream)
    with pytest.raises(ValueError, match="src is an array of float64, and the texels are of float32"):
        to.copy_from(memory.view("float64"), stream=stream)
    with pytest.raises(ValueError, match="dst is an array of int32, and the texels are of float32"):
        to.copy_to(memory.view("int32"), stream=stream)
    to.copy_to(memory.view("float32"), stream=stream)
    for fields in ([("x", "f8")], [("x", "f4"), ("y", "i4")], [("x", "f4"), ("y", "M8[us]", (1,))]):
        numbers = np.zeros(32 // np.dtype(fields).itemsize + 1, fields)
        with pytest.raises(ValueError, match=r"src is an array of .*, and the texels are of float32"):
            to.copy_from(numbers, stream=stream)


def test_texels_of_equal_types(device: ch.Device, stream: ch.Stream) -> None:
    """Texels with the other sign, as bytes, structures or complex numbers would be refused."""
    numbers = np.arange(8, dtype=np.float32)
    pairs = make(device, shape=(4,), num_channels=2)
    for texels in (numbers, numbers.view("c8"), numbers.view([("x", "f4"), ("y", "f4")]), numbers.view("u1")):
        pairs.copy_from(texels, stream=stream)
        pairs.copy_to(texels, stream=stream)
        assert texels.view("f4").tolist() == numbers.tolist()
    for texels in (bytearray(32), python_array("f", bytes(32)), memoryview(bytearray(32))):
        pairs.copy_to(texels, stream=stream)
        assert bytes(texels) == numbers.tobytes()
    unsigned = make(device, format="uint32")
    unsigned.copy_from(np.full(8, -1, np.int32), stream=stream)
    got = np.zeros(8, np.int32)
    unsigned.copy_to(got, stream=stream)
    assert (got == -1).all()


def test_bad_copies(device: ch.Device, stream: ch.Stream) -> None:
    """A copy with invalid arguments, or to or from memory that is too small, would be made."""
    array, buffer = make(device), device.allocate(16, stream=stream)
    for source in (buffer, np.zeros(7, np.float32)):
        with pytest.raises(ValueError, match="and the array 32; it must have at least as many"):
            array.copy_from(source, stream=stream)
    with pytest.raises(ValueError, match="read-only"):
        array.copy_to(bytes(32), stream=stream)
    with pytest.raises(TypeError, match="not an OpaqueArray: copy by a Buffer"):
        array.copy_from(make(device), stream=stream)
    with pytest.raises(TypeError, match="src must be a Buffer"):
        array.copy_from(5, stream=stream)
    with pytest.raises(TypeError, match="stream is required"):
        array.copy_from(buffer, stream=None)  # type: ignore[arg-type]
    buffer.close()
    with pytest.raises(ch.ClosedError):
        array.copy_from(buffer, stream=stream)
    array.close()
    with pytest.raises(ch.ClosedError):
        array.copy_to(bytearray(32), stream=stream)


def test_closing(device: ch.Device) -> None:
    """A closed array would return its handle, or change its hash."""
    array, other = make(device), make(device)
    before = hash(array)
    assert array.handle
    assert array == array  # noqa: PLR0124
    assert array != other
    with array:
        assert repr(array) == "<OpaqueArray shape=(8,) format='float32' num_channels=1>"
    assert (array.handle, array.is_closed, hash(array)) == (0, True, before)
    assert repr(array) == "<OpaqueArray closed>"
    array.close()
    with pytest.raises(ch.ClosedError):
        array.shape  # noqa: B018
    for function in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            function(other)


def test_levels(device: ch.Device, stream: ch.Stream) -> None:
    """A level would have wrong extents or texels, or be destroyed when its mipmapped array is closed."""
    array = make_levels(device, is_surface_load_store=True)
    assert (array.shape, array.num_levels, array.num_channels, array.device) == ((16, 8), 3, 1, device)
    assert (array.format, array.is_surface_load_store) == (ArrayFormatType.FLOAT32, True)
    levels = [array.get_level(number) for number in range(3)]
    assert [level.shape for level in levels] == [(16, 8), (8, 4), (4, 2)]
    assert levels[1] == array.get_level(1)
    assert levels[1].is_surface_load_store
    for number, level in enumerate(levels):
        level.copy_from(np.full(level.size_bytes // 4, number, np.float32), stream=stream)
    array.close()
    assert repr(array) == "<MipmappedArray closed>"
    for number, level in enumerate(levels):
        got = np.zeros(level.size_bytes // 4, np.float32)
        level.copy_to(got, stream=stream)
        assert (got == number).all()


def test_bad_levels(device: ch.Device) -> None:
    """If too many levels are requested, CUDA would create fewer of them without an error."""
    with pytest.raises(ValueError, match="has at most 5 levels"):
        make_levels(device, num_levels=6)
    with pytest.raises(ValueError, match="num_levels is 0"):
        make_levels(device, num_levels=0)
    array = make_levels(device)
    for level in (-1, 3):
        with pytest.raises(ValueError, match="the array has 3 levels, from 0 to 2"):
            array.get_level(level)
    with pytest.raises(TypeError, match="level must be an int"):
        array.get_level(1.0)  # type: ignore[arg-type]
