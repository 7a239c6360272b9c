# SPDX-License-Identifier: Apache-2.0
"""Textures and surfaces: their resources and options, and the memory that they keep alive."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from packing import POINTER, UNKNOWN, check_rows

import cudacore_handles as ch
import cudacore_handles.texture as ct
from cudacore_handles.typing import AddressModeType, ArrayFormatType, FilterModeType, ReadModeType
from interrupts import check_changing_meanwhile
from threads_at_once import in_threads

TAKES_OBJECT = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry take(.param .u64 object, .param .u64 out)
{
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [object];
  ld.param.u64 %rd2, [out];
  st.global.u64 [%rd2], %rd1;
  ret;
}
"""

ASKS_FOR_RESIDENCY = b"""
.version 8.0
.target sm_75
.address_size 64
.visible .entry ask(.param .u64 object, .param .u64 out)
{
  .reg .b64 %rd<3>;
  .reg .f32 %f<9>;
  .reg .b32 %r<9>;
  .reg .pred %p<3>;
  ld.param.u64 %rd1, [object];
  ld.param.u64 %rd2, [out];
  mov.f32 %f1, 0f3FC00000;
  tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}|%p1, [%rd1, {%f1, %f1}];
  tld4.r.2d.v4.f32.f32 {%f5, %f6, %f7, %f8}|%p2, [%rd1, {%f1, %f1}];
  selp.f32 %f3, 0f3F800000, 0f00000000, %p1;
  selp.f32 %f4, 0f3F800000, 0f00000000, %p2;
  st.global.f32 [%rd2], %f2;
  st.global.f32 [%rd2+4], %f3;
  st.global.f32 [%rd2+8], %f4;
  ret;
}
"""


def make_array(
    device: ch.Device, shape: tuple[int, ...] = (8, 4), name: str = "float32", **more: Any
) -> ct.OpaqueArray:
    return device.create_opaque_array(ct.OpaqueArrayOptions(shape, name, **{"num_channels": 1, **more}))


def make_texture(device: ch.Device, array: ct.OpaqueArray, **options: Any) -> ct.TextureObject:
    resource = ct.ResourceDescriptor.from_opaque_array(array)
    return device.create_texture_object(resource=resource, options=ct.TextureObjectOptions(**options))


def make_surface(device: ch.Device) -> ct.SurfaceObject:
    array = make_array(device, is_surface_load_store=True)
    return device.create_surface_object(resource=ct.ResourceDescriptor.from_opaque_array(array))


def described(texture: ct.TextureObject) -> tuple[list[int], list[float]]:
    """Return the integers and the numbers of a texture's CUDA_TEXTURE_DESC; the driver reports no border color."""
    import ctypes

    import cudacore_sim

    words = (ctypes.c_uint32 * 26)()
    assert cudacore_sim.load().cuTexObjectGetTextureDesc(words, ctypes.c_uint64(texture.handle)) == 0
    return list(words[:7]), np.frombuffer(words, np.float32)[7:10].tolist()


# ---- resources


def test_descriptors(device: ch.Device, stream: ch.Stream) -> None:
    """The attributes of a resource descriptor would be wrong."""
    array, buffer = make_array(device), device.allocate(4096, stream=stream)
    levels = device.create_mipmapped_array(ct.MipmappedArrayOptions((8, 8), "uint8", 4, 2))
    of = ct.ResourceDescriptor
    line = of.from_linear(buffer, format=np.float32, num_channels=2)
    rows = of.from_pitch2d(buffer, format="uint8", num_channels=4, width=8, height=9, pitch_bytes=64)
    for made, kind, source in (
        (of.from_opaque_array(array), "array", array),
        (of.from_mipmapped_array(levels), "mipmapped_array", levels),
        (line, "linear", buffer),
        (rows, "pitch2d", buffer),
    ):
        assert made.kind == kind
        assert made.source is source
        assert f"kind={kind!r}" in repr(made)
    assert (line.format, line.num_channels, line.size_bytes, line.width) == (ArrayFormatType.FLOAT32, 2, 4096, None)
    assert (rows.width, rows.height, rows.pitch_bytes, rows.size_bytes) == (8, 9, 64, None)
    assert of.from_linear(buffer, format="uint8", num_channels=1, size_bytes=100).size_bytes == 100


def test_descriptors_are_not_pickled(device: ch.Device, stream: ch.Stream) -> None:
    """Another process could send its buffer, and would not check there whether the device can sample it."""
    buffer = device.allocate(4096, stream=stream)
    resource = ct.ResourceDescriptor.from_linear(buffer, format="uint8", num_channels=1)
    for function in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="a ResourceDescriptor cannot be pickled or copied"):
            function(resource)


def test_closed_sources(device: ch.Device, stream: ch.Stream) -> None:
    """The error would be about an address, or a flag of an array, that do not exist any more."""
    buffer, array = device.allocate(4096, stream=stream), make_array(device)
    resource = ct.ResourceDescriptor.from_linear(buffer[16:], format="uint8", num_channels=1)
    surface = ct.ResourceDescriptor.from_opaque_array(array)
    resource.source.close()
    array.close()
    with pytest.raises(ch.ClosedError, match="Buffer has been closed"):
        device.create_texture_object(resource=resource)
    with pytest.raises(ch.ClosedError, match="OpaqueArray has been closed"):
        device.create_surface_object(resource=surface)


def test_bad_descriptors(device: ch.Device, stream: ch.Stream) -> None:
    """A texture would read beyond a buffer, or from memory that is not suitable for textures."""
    array, buffer = make_array(device), device.allocate(4096, stream=stream)
    of = ct.ResourceDescriptor
    texel: dict[str, Any] = {"format": "float32", "num_channels": 1}
    rows: dict[str, Any] = {**texel, "width": 8, "height": 8, "pitch_bytes": 64}
    with pytest.raises(RuntimeError, match="from_opaque_array"):
        of()
    with pytest.raises(TypeError, match="array must be an OpaqueArray"):
        of.from_opaque_array(buffer)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a MipmappedArray"):
        of.from_mipmapped_array(array)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="buffer must be a Buffer"):
        of.from_linear(array, **texel)  # type: ignore[arg-type]
    for size, message in ((5000, "the buffer has 4096"), (0, "at least one"), (6, "not a multiple of the 4 bytes")):
        with pytest.raises(ValueError, match=message):
            of.from_linear(buffer, size_bytes=size, **texel)
    for more, message in (
        ({"pitch_bytes": 31}, "less than the 32 bytes of a row"),
        ({"width": 0}, "width is 0"),
        ({"height": 65}, "the image ends 4128 bytes into the buffer"),
    ):
        with pytest.raises(ValueError, match=message):
            of.from_pitch2d(buffer, **{**rows, **more})
    array.close()
    with pytest.raises(ch.ClosedError):
        of.from_opaque_array(array)


# ---- options


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"address_mode": "nope"}, ValueError, "one of 'wrap', 'clamp', 'mirror', 'border'"),
        ({"address_mode": ()}, ValueError, "one to three"),
        ({"address_mode": ("wrap",) * 4}, ValueError, "one to three"),
        ({"address_mode": 0}, TypeError, "one to three"),
        ({"filter_mode": "cubic"}, ValueError, "one of 'point', 'linear'"),
        ({"mipmap_filter_mode": 1}, ValueError, "one of 'point', 'linear'"),
        ({"read_mode": "x"}, ValueError, "one of 'element_type', 'normalized_float'"),
        ({"normalized_coords": "yes"}, TypeError, "must be True or False"),
        ({"max_anisotropy": 17}, ValueError, "from 0 to 16"),
        ({"max_anisotropy": 1.5}, TypeError, "must be an int"),
        ({"mipmap_level_bias": float("nan")}, ValueError, "must be a number"),
        ({"mipmap_level_bias": "1"}, TypeError, "must be a number"),
        ({"min_mipmap_level_clamp": 2, "max_mipmap_level_clamp": 1}, ValueError, "more than max_mipmap_level_clamp"),
        ({"border_color": (1, 2, 3)}, ValueError, "a tuple of four numbers"),
        ({"border_color": 3}, TypeError, "a tuple of four numbers"),
        ({"border_color": (1, 2, 3, "x")}, TypeError, r"border_color\[3\]"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    """CUDA would accept or ignore meaningless options."""
    with pytest.raises(error, match=message):
        ct.TextureObjectOptions(**options)


@pytest.mark.cuda_sim
def test_options_reach_the_driver(device: ch.Device) -> None:
    """A texture would not be sampled according to its options."""
    texture = make_texture(
        device, make_array(device), address_mode=("wrap", AddressModeType.BORDER), filter_mode="linear",
        normalized_coords=True, disable_trilinear_optimization=True, max_anisotropy=4, mipmap_filter_mode="linear",
        mipmap_level_bias=0.5, min_mipmap_level_clamp=1, max_mipmap_level_clamp=2.5, border_color=(1, 2, 3, 4),
    )  # fmt: skip
    assert described(texture) == ([0, 3, 3, 1, 0x01 | 0x02 | 0x20, 4, 1], [0.5, 1, 2.5])
    assert texture.options.filter_mode is FilterModeType.LINEAR
    assert texture.options.address_mode == ("wrap", AddressModeType.BORDER)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("uint8", {"filter_mode": "linear"}, "integers are filtered with read_mode='normalized_float'"),
        ("int32", {"filter_mode": "linear", "read_mode": "normalized_float"}, "integers of 32 bits cannot be filtered"),
        ("float32", {"srgb": True}, "only channels of 8 bits can be sRGB"),
    ],
)
def test_options_that_do_not_suit(device: ch.Device, name: str, options: dict[str, Any], message: str) -> None:
    """Options that the array's format does not support would be ignored by CUDA, without an error."""
    with pytest.raises(ValueError, match=message):
        make_texture(device, make_array(device, name=name), **options)


def test_options_are_copied(device: ch.Device) -> None:
    """The reported options of a texture would be wrong."""
    options = ct.TextureObjectOptions(read_mode=ReadModeType.NORMALIZED_FLOAT)
    resource = ct.ResourceDescriptor.from_opaque_array(make_array(device))
    texture = device.create_texture_object(resource=resource, options=options)
    options.filter_mode = "linear"
    assert texture.options.filter_mode is FilterModeType.POINT
    assert device.create_texture_object(resource=resource, options={"filter_mode": "linear"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="resource must be a ResourceDescriptor"):
        device.create_texture_object(resource=resource.source)  # type: ignore[arg-type]


@pytest.mark.cuda_sim
def test_options_are_recognized_by_their_values(device: ch.Device) -> None:
    """After options are changed, a new texture would still be made with the old options."""
    resource = ct.ResourceDescriptor.from_opaque_array(make_array(device))
    modes: Any = ["wrap"]
    options = ct.TextureObjectOptions(address_mode=("wrap",), mipmap_level_bias=1.5)

    def read(given: ct.TextureObjectOptions, **changes: Any) -> tuple[int, float]:
        for name, value in changes.items():
            setattr(given, name, value)
        texture = device.create_texture_object(resource=resource, options=given)
        assert texture.options == given
        assert texture.options is not given
        integers, numbers = described(texture)
        return integers[0], numbers[0]

    assert read(options) == read(options) == read(copy.copy(options)) == (0, 1.5)
    assert read(pickle.loads(pickle.dumps(options)), mipmap_level_bias=3) == (0, 3)
    assert read(options, mipmap_level_bias=2) == read(options, address_mode=modes) == (0, 2)
    modes[0] = "clamp"
    assert read(options) == read(options, address_mode="clamp") == (1, 2)
    with pytest.raises(TypeError, match="mipmap_level_bias is 'much'; it must be a number"):
        read(options, mipmap_level_bias="much")
    with pytest.raises(TypeError, match="must be True or False"):
        read(options, mipmap_level_bias=0, normalized_coords=2)
    options.normalized_coords, options.address_mode = True, "wrap"
    assert read(options) == (0, 0)
    del options.address_mode  # now the class attribute, which is the default, is used
    assert read(options) == (1, 0)
    assert device.create_texture_object(resource=resource).options == ct.TextureObjectOptions()


def test_options_are_checked_once(device: ch.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each texture, or the first one, would cost the check of its options, which takes longer than the rest."""
    resource = ct.ResourceDescriptor.from_opaque_array(make_array(device))
    made = ct.TextureObjectOptions(address_mode="wrap")
    checks: list[ct.TextureObjectOptions] = []
    read = ct.TextureObjectOptions._read

    def counted(self: ct.TextureObjectOptions) -> Any:
        checks.append(self)
        return read(self)

    monkeypatch.setattr(ct.TextureObjectOptions, "_read", counted)
    for options in (made, copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        checks.clear()
        for _ in range(2):
            assert device.create_texture_object(resource=resource, options=options).options == made
        assert len(checks) == (options is not made)  # the constructor has checked its object


@pytest.mark.parametrize("is_new", [True, False])
def test_options_that_another_thread_changes_meanwhile(device: ch.Device, is_new: bool) -> None:
    """The options as they were before would be used by all later calls."""
    resource = ct.ResourceDescriptor.from_opaque_array(make_array(device))

    def make() -> ct.TextureObjectOptions:
        options = ct.TextureObjectOptions(address_mode="wrap")
        if not is_new:  # they are checked again at their next use
            options.filter_mode = "linear"
        return options

    def use(options: ct.TextureObjectOptions) -> None:
        for _ in range(2):
            before = options.normalized_coords
            texture = device.create_texture_object(resource=resource, options=options)
            assert texture.options.normalized_coords or not before

    check_changing_meanwhile(make, lambda options: setattr(options, "normalized_coords", True), use, ch)


def test_options_of_subclasses(device: ch.Device) -> None:
    """Options of a subclass would be refused, or sampled as those of their base class."""

    @dataclasses.dataclass
    class Nearest(ct.TextureObjectOptions):
        address_mode: Any = "wrap"
        comment: str = ""

        def __post_init__(self) -> None:
            self.comment = f"wraps: {self.comment}"

    array = make_array(device)
    resource = ct.ResourceDescriptor.from_opaque_array(array)
    for options in (Nearest(), Nearest(address_mode="mirror")):
        texture = device.create_texture_object(resource=resource, options=options)
        assert texture.options.address_mode == options.address_mode
        assert type(texture.options) is Nearest
    with pytest.raises(ValueError, match="srgb is True"):
        device.create_texture_object(resource=resource, options=Nearest(srgb=True))


def test_alignment(device: ch.Device, stream: ch.Stream) -> None:
    """The driver would refuse memory without saying what is wrong with it."""
    buffer = device.allocate(1 << 16, stream=stream)
    of = ct.ResourceDescriptor
    texel: dict[str, Any] = {"format": "float32", "num_channels": 1}
    rows: dict[str, Any] = {**texel, "width": 8, "height": 2}
    with pytest.raises(ValueError, match=r"not a multiple of \d+ \(texture_alignment\)"):
        device.create_texture_object(resource=of.from_linear(buffer[16:], **texel))
    with pytest.raises(ValueError, match=r"pitch_bytes is 36, not a multiple of \d+ \(texture_pitch_alignment\)"):
        device.create_texture_object(resource=of.from_pitch2d(buffer, **rows, pitch_bytes=36))
    device.create_texture_object(resource=of.from_linear(buffer, **texel))
    device.create_texture_object(resource=of.from_pitch2d(buffer, **rows, pitch_bytes=64))


# ---- textures and surfaces


def test_texture(device: ch.Device) -> None:
    """A texture would have another resource than the one that it was made of, or would never be destroyed."""
    array = make_array(device)
    texture, other = make_texture(device, array), make_texture(device, array)
    assert texture.handle
    assert texture.device == device
    assert texture.resource.source is array
    assert texture != other
    assert hash(texture) == hash(texture)
    assert f"handle={texture.handle:#x}" in repr(texture)
    with texture:
        pass
    assert (texture.handle, texture.is_closed, repr(texture)) == (0, True, "<TextureObject closed>")
    assert texture.options is texture.options
    with pytest.raises(RuntimeError, match=r"use Device\.create_texture_object"):
        ct.TextureObject()


def test_surface(device: ch.Device, stream: ch.Stream) -> None:
    """A surface could be made of an array that kernels cannot store to."""
    surface = make_surface(device)
    assert surface.handle
    assert surface.device == device
    assert surface.resource.kind == "array"
    of = ct.ResourceDescriptor
    refused = "resource: a surface needs an array that was created with is_surface_load_store=True"
    with pytest.raises(ValueError, match=refused):
        device.create_surface_object(resource=of.from_opaque_array(make_array(device)))
    buffer = device.allocate(4096, stream=stream)
    with pytest.raises(ValueError, match=refused):
        device.create_surface_object(resource=of.from_linear(buffer, format="uint8", num_channels=1))
    with surface:
        pass
    assert (surface.handle, repr(surface)) == (0, "<SurfaceObject closed>")
    with pytest.raises(RuntimeError, match=r"use Device\.create_surface_object"):
        ct.SurfaceObject()


def test_the_source_lives(device: ch.Device, stream: ch.Stream) -> None:
    """A texture would read memory that was freed and allocated to other code."""
    before = ch.live_counts()
    array = make_array(device, is_surface_load_store=True)
    buffer = device.allocate(4096, stream=stream)
    resource = ct.ResourceDescriptor.from_opaque_array(array)
    linear = ct.ResourceDescriptor.from_linear(buffer, format="uint8", num_channels=1)
    made: list[Any] = [
        device.create_texture_object(resource=resource),
        device.create_surface_object(resource=resource),
        device.create_texture_object(resource=linear),
    ]
    array.close()
    buffer.close()
    del resource, linear
    counts = ch.live_counts()
    assert counts["array"] == before["array"] + 1
    assert counts["deviceptr"] == before["deviceptr"] + 1
    with pytest.raises(ch.ClosedError):
        device.create_texture_object(resource=made[0].resource)
    for one in made:
        one.close()
        assert one.resource is None
    del array, buffer
    assert ch.live_counts() == before  # although the closed Python objects still exist


@pytest.mark.parametrize("kind", ["texture", "surface"])
def test_kernel_arguments(device: ch.Device, stream: ch.Stream, kind: str) -> None:
    """A kernel would get a wrong handle, or the handle of a closed texture without an error."""
    made = make_texture(device, make_array(device)) if kind == "texture" else make_surface(device)
    kernel = ch.ObjectCode.from_ptx(TAKES_OBJECT).get_kernel("take")
    out = ch.LegacyPinnedMemoryResource().allocate(8)
    config = ch.LaunchConfig(grid=1, block=1)
    handle = made.handle
    prepared = kernel.prepare(stream, config, made, out)
    for launch in (lambda: ch.launch(stream, config, kernel, made, out), lambda: prepared()):
        np.asarray(out)[:] = 0
        launch()
        stream.sync()
        assert np.asarray(out).view(np.uint64)[0] == handle
    made.close()
    with pytest.raises(ch.ClosedError):
        ch.launch(stream, config, kernel, made, out)


def test_residency(device: ch.Device, stream: ch.Stream) -> None:
    """A kernel that asks whether texels are resident could not be loaded, or would be told that they are not."""
    array = make_array(device)
    array.copy_from(np.arange(32, dtype=np.float32).reshape(4, 8), stream=stream)
    texture = make_texture(device, array)
    kernel = ch.ObjectCode.from_ptx(ASKS_FOR_RESIDENCY).get_kernel("ask")
    out = ch.LegacyPinnedMemoryResource().allocate(16)
    ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel, texture, out)
    stream.sync()
    assert np.asarray(out).view(np.float32)[:3].tolist() == [9, 1, 1]


def test_a_pointer_is_no_texture(device: ch.Device) -> None:
    """If a texture is passed instead of an array, the kernel would use the handle as an address."""
    texture = make_texture(device, make_array(device))
    check_rows([
        (texture, 8, POINTER, (TypeError, "the parameter is a pointer")),
        (texture, 4, UNKNOWN, (TypeError, "bytes")),
    ])  # fmt: skip


def test_captured_copies(device: ch.Device, stream: ch.Stream) -> None:
    """A graph would copy from memory that was freed, or would read host memory after the captured call has returned."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    array, buffer = make_array(device, (4,)), device.allocate(16, stream=stream)
    out = device.allocate(16, stream=stream)
    buffer.copy_from(np.arange(4, dtype=np.float32), stream=stream)
    with stream.create_graph_builder() as builder:
        array.copy_from(buffer, stream=builder)
        array.copy_to(out, stream=builder)
        with pytest.raises(ValueError, match="the stream is being captured"):
            array.copy_from(bytes(16), stream=builder)
    graph = builder.complete()
    before = ch.live_counts()["array"]
    array.close()
    buffer.close()
    assert ch.live_counts()["array"] == before
    graph.launch(stream)
    got = np.zeros(4, np.float32)
    out.copy_to(got, stream=stream)
    assert got.tolist() == [0, 1, 2, 3]


def test_close_on_a_thread_without_a_context(device: ch.Device, capfd: pytest.CaptureFixture[str]) -> None:
    """The driver destroys textures and surfaces only with a current context: they would be leaked."""
    for made in (make_texture(device, make_array(device)), make_surface(device)):
        in_threads(lambda made: made.close(), [made])
    assert capfd.readouterr().err == ""
