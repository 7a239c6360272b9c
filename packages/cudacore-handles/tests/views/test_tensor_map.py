# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import gc
import pickle
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pytest
from dlpack_producers import Interface
from packing import BYTES, one

import cudacore_handles as ch
import cudacore_handles.typing as ct

T = TypeVar("T")

# A kernel that copies the bytes of its tensor map into its second argument.
PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy_map(.param .align 64 .b8 map[128], .param .u64 out) {
  .reg .b64 %rd<7>; .reg .b32 %r1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd1, %r1, 8;
  mov.b64 %rd2, map;
  cvta.param.u64 %rd3, %rd2;
  add.u64 %rd3, %rd3, %rd1;
  ld.b64 %rd4, [%rd3];
  ld.param.u64 %rd5, [out];
  add.u64 %rd5, %rd5, %rd1;
  st.global.b64 [%rd5], %rd4;
  ret;
}
.visible .entry pointer(.param .u64 .ptr map) { ret; }
"""
SIXTEEN = ch.LaunchConfig(grid=1, block=16)
SIZE = 1 << 16


@pytest.fixture
def device(device: ch.Device) -> ch.Device:
    """Give the device. Skip the test if the device does not support tensor maps."""
    if not device.properties.tensor_map_access_supported:
        pytest.skip("needs tensor maps: compute capability 9.0")
    return device


@pytest.fixture
def memory(device: ch.Device, stream: ch.Stream) -> Iterator[ch.Buffer]:
    with device.allocate(SIZE, stream=stream) as buffer:
        yield buffer


@pytest.fixture
def view(memory: ch.Buffer) -> ch.StridedMemoryView:
    """Give a view of 64 rows of 64 numbers."""
    return view_of(memory)


def view_of(
    memory: ch.Buffer, shape: tuple[int, ...] = (64, 64), strides: tuple[int, ...] | None = None, dtype: str = "float32"
) -> ch.StridedMemoryView:
    return ch.StridedMemoryView.from_buffer(memory, shape, strides, dtype=dtype)


@pytest.fixture
def kernel(device: ch.Device) -> ch.Kernel:
    return ch.ObjectCode.from_ptx(PTX).get_kernel("copy_map")


@pytest.fixture
def arrived(kernel: ch.Kernel, stream: ch.Stream, pinned: Callable[[int], ch.Buffer]) -> Callable[[Any], bytes]:
    """Give a function that launches a kernel with a tensor map, and returns the bytes that the kernel got."""

    def launch(tensor_map: Any) -> bytes:
        out = pinned(128)
        ch.launch(stream, SIXTEEN, kernel, tensor_map, out)
        stream.sync()
        return bytes(out.__buffer__())

    return launch


# ---- arguments of kernels


def test_it_arrives(view: ch.StridedMemoryView, arrived: Callable[[Any], bytes]) -> None:
    """The bytes of the driver's descriptor would be changed on the way to the kernel."""
    tensor_map = view.as_tensor_map((8, 8))
    assert arrived(tensor_map) == bytes(tensor_map)
    assert any(bytes(tensor_map))


def test_other_parameters(view: ch.StridedMemoryView, stream: ch.Stream, memory: ch.Buffer) -> None:
    """A kernel with a pointer parameter would get the beginning of the descriptor, or bytes after its end."""
    kernel = ch.ObjectCode.from_ptx(PTX).get_kernel("pointer")
    with pytest.raises(
        TypeError, match=r"argument 0: .*TensorMapDescriptor is passed as its 128 bytes, but .* of 8 is"
    ):
        ch.launch(stream, SIXTEEN, kernel, view.as_tensor_map((8, 8)))


def test_it_keeps_the_memory(memory: ch.Buffer, kernel: ch.Kernel, stream: ch.Stream, device: ch.Device) -> None:
    """A kernel would copy from memory that was freed and given to another buffer."""
    before = ch.live_counts()["deviceptr"]
    buffer = device.allocate(SIZE, stream=stream)
    tensor_map = view_of(buffer).as_tensor_map((8, 8))
    prepared = kernel.prepare(stream, SIXTEEN, tensor_map, memory)
    buffer.close()
    assert ch.live_counts()["deviceptr"] == before + 1
    del tensor_map
    gc.collect()
    assert ch.live_counts()["deviceptr"] == before + 1
    prepared()
    stream.sync()
    del prepared
    gc.collect()
    assert ch.live_counts()["deviceptr"] == before


def test_it_keeps_the_memory_of_then(
    memory: ch.Buffer, kernel: ch.Kernel, stream: ch.Stream, device: ch.Device, pinned: Callable[[int], ch.Buffer]
) -> None:
    """When a descriptor gets another address, a prepared launch would lose the old memory, which it still uses."""
    before = ch.live_counts()["deviceptr"]
    buffer = device.allocate(SIZE, stream=stream)
    tensor_map = view_of(buffer).as_tensor_map((8, 8))
    then = bytes(tensor_map)
    out = pinned(128)
    prepared = kernel.prepare(stream, SIXTEEN, tensor_map, out)
    tensor_map.replace_address(memory)
    buffer.close()
    assert ch.live_counts()["deviceptr"] == before + 2
    prepared()
    stream.sync()
    assert bytes(out.__buffer__()) == then != bytes(tensor_map)
    prepared[0] = tensor_map
    assert ch.live_counts()["deviceptr"] == before + 1
    prepared()
    stream.sync()
    assert bytes(out.__buffer__()) == bytes(tensor_map)


def array_of(memory: ch.Buffer) -> Interface:
    """Return an array of another library."""
    return Interface(shape=(64, 64), data=(int(memory.handle), False))


def test_it_keeps_an_array(memory: ch.Buffer, kernel: ch.Kernel, stream: ch.Stream) -> None:
    """A kernel would copy from freed memory of another library, because its array was not kept."""
    array = array_of(memory)
    seen = weakref.ref(array)
    tensor_map = ch.StridedMemoryView.from_any_interface(array, stream_ptr=-1).as_tensor_map((8, 8))
    del array
    prepared = kernel.prepare(stream, SIXTEEN, tensor_map, memory)
    del tensor_map
    gc.collect()
    assert seen() is not None
    del prepared
    gc.collect()
    assert seen() is None


def test_the_memory_of_another_device(
    view: ch.StridedMemoryView, memory: ch.Buffer, kernel: ch.Kernel, other_device: ch.Device
) -> None:
    """A kernel on another device would fault if the devices have no access to each other."""
    if other_device.can_access_peer(ch.Device(0)):
        pytest.skip("the devices have access to each other")
    stream = other_device.create_stream()
    with pytest.raises(ch.CUDAError, match="is given to a launch on device 1"):
        ch.launch(stream, SIXTEEN, kernel, view.as_tensor_map((8, 8)), memory)


# ---- valid and invalid tensors


TYPES = "uint8 uint16 uint32 int32 uint64 int64 float16 float32 float64 bfloat16".split()


@pytest.mark.parametrize("name", TYPES)
def test_types(memory: ch.Buffer, name: str) -> None:
    """Elements would be copied as another type, or not be copied."""
    tensor_map = view_of(memory, (16, 32), dtype=name).as_tensor_map((4, 16))
    assert repr(tensor_map) == f"TensorMapDescriptor(tiled, rank=2, dtype={name.upper()}, swizzle=NONE)"


def test_a_type_of_the_same_size(memory: ch.Buffer, view: ch.StridedMemoryView) -> None:
    """Another data type of the same size, such as TF32, could not be requested, or a type of another size could be."""
    for data_type in (
        ct.TensorMapDataType.TFLOAT32,
        ct.TensorMapDataType.FLOAT32_FTZ,
        np.int32,
        "uint32",
        np.dtype("f4"),
    ):
        view.as_tensor_map((8, 8), data_type=data_type)
    view_of(memory, dtype="int8").as_tensor_map((8, 16), data_type="uint8")
    for data_type, error, message in (
        ("float16", ValueError, "data_type is FLOAT16, whose elements have 2 bytes, but the view's have 4"),
        ("int8", ValueError, "data_type is 'int8', which tensor maps do not have; they have UINT8, "),
        (7, TypeError, "data_type must be a TensorMapDataType, or a dtype of NumPy or ml_dtypes, not 7, of type int"),
        ("x", TypeError, "data_type must be .*, not 'x'"),
    ):
        with pytest.raises(error, match=message):
            view.as_tensor_map((8, 8), data_type=data_type)
    with pytest.raises(
        ValueError, match="tensor maps do not have the view's type of elements, complex64; give data_type"
    ):
        view_of(memory, dtype="complex64").as_tensor_map((8, 8))


def test_bytes_as_elements(memory: ch.Buffer) -> None:
    """A Buffer, which has bytes, could not be described as elements of another type, or by its number of bytes."""
    octets, floats = ch.StridedMemoryView.from_any_interface(memory, -1), memory.view("float32")
    made = octets.as_tensor_map((64,), data_type="float32")
    assert one(made, 128, BYTES) == one(floats.as_tensor_map((64,)), 128, BYTES)
    rows = view_of(memory, (8, 64), dtype="uint8").as_tensor_map((8, 8), data_type="float32")
    assert one(rows, 128, BYTES) == one(view_of(memory, (8, 16)).as_tensor_map((8, 8)), 128, BYTES)
    with pytest.raises(ValueError, match=r"extent \(66\) must be divisible by 4"):
        view_of(memory, (8, 66), dtype="uint8").as_tensor_map((8, 8), data_type="float32")


def test_ranks_and_options(memory: ch.Buffer) -> None:
    """A tensor map for one to five axes could not be made, or a valid option would be refused."""
    for shape in ((64,), (4, 64), (4, 4, 64), (2, 2, 4, 64), (2, 2, 2, 2, 64)):
        view_of(memory, shape).as_tensor_map((1,) * (len(shape) - 1) + (8,), element_strides=(1,) * len(shape))
    view = view_of(memory, (8, 16, 64))
    for swizzle in ct.TensorMapSwizzle:
        for promotion in ct.TensorMapL2Promotion:
            view.as_tensor_map((2, 4, 8), swizzle=swizzle, l2_promotion=promotion)
    view.as_tensor_map((2, 4, 8), oob_fill=ct.TensorMapOOBFill.NAN_REQUEST_ZERO_FMA, element_strides=(8, 2, 1))
    view.as_tensor_map((2, 4, 4), interleave=ct.TensorMapInterleave.INTERLEAVE_16B)
    view.as_tensor_map(
        (2, 4, 8), interleave=ct.TensorMapInterleave.INTERLEAVE_32B, swizzle=ct.TensorMapSwizzle.SWIZZLE_32B
    )


def test_options_object(view: ch.StridedMemoryView) -> None:
    """Options in an options object or a mapping would have another effect than the same options as arguments."""
    swizzle = ct.TensorMapSwizzle.SWIZZLE_64B
    options = ch.TensorMapDescriptorOptions([8, 16], swizzle=swizzle)  # type: ignore[arg-type]
    assert options.box_dim == (8, 16)

    class Named(ch.TensorMapDescriptorOptions):
        """A program's own options, with an attribute that is not a field of ours."""

        name = "q"

    named = Named((8, 16), swizzle=swizzle)
    named.__dict__["name"] = "k"
    made = view.as_tensor_map((8, 16), swizzle=swizzle)
    sizes = np.array([8, 16])
    assert bytes(view.as_tensor_map(sizes, swizzle=swizzle)) == bytes(made)
    for given in (options, named, *({"box_dim": box, "swizzle": swizzle} for box in ((8, 16), sizes))):
        assert bytes(view.as_tensor_map(options=given)) == bytes(made)
    with pytest.raises(TypeError, match="give either options or the individual arguments of the tensor map, not both"):
        view.as_tensor_map((8, 16), options=options)
    with pytest.raises(TypeError, match="box_dim is missing"):
        view.as_tensor_map()
    for wrong, message in (
        ({"box_dim": 8}, "box_dim must be a tuple of ints, not 8, of type int"),
        ({"box_dim": np.array(8)}, r"box_dim must be a tuple of ints, not array\(8\), of type ndarray"),
        ({"box_dim": (8, "a")}, r"box_dim\[1\] must be an int, not 'a', of type str"),
        ({"box_dim": (8, 8), "swizzle": 1}, "swizzle must be a TensorMapSwizzle, not 1, of type int"),
        ({"box_dim": (8, 8), "interleave": "x"}, "interleave must be a TensorMapInterleave, not 'x', of type str"),
        ({"box_dim": (8, 8), "data_type": 3}, "data_type must be a TensorMapDataType"),
    ):
        with pytest.raises(TypeError, match=message):
            ch.TensorMapDescriptorOptions(**wrong)


FLOATS = {"oob_fill": ct.TensorMapOOBFill.NAN_REQUEST_ZERO_FMA}
IN_16, IN_32 = ({"interleave": one} for one in list(ct.TensorMapInterleave)[1:])
WRONG = [
    ({}, (8,), {}, "box_dim has 1 elements; it must have 2"),
    ({}, (8, 8.0), {}, "box_dim[1] must be an int, not float"),
    ({}, (0, 8), {}, "box_dim[0] is 0; it must be from 1 to 256"),
    ({}, (257, 8), {}, "box_dim[0] is 257; it must be from 1 to 256"),
    ({}, (2**70, 8), {}, "box_dim[0] is 9223372036854775807; it must be from 1 to 256"),
    ({}, (8, 3), {}, "box_dim[1] is 3, which is 12 bytes of FLOAT32; it must be a multiple of 16 bytes"),
    ({}, (8, 12), {"swizzle": ct.TensorMapSwizzle.SWIZZLE_32B},
     "box_dim[1] is 12, which is 48 bytes of FLOAT32; SWIZZLE_32B takes at most 32"),
    ({"shape": (256, 64)}, (256, 256), {}, "a copy moves 262144 bytes, and a multiprocessor of device 0 has 2"),
    ({}, (8, 8), {"element_strides": (1,)}, "element_strides has 1 elements; it must have 2"),
    ({}, (8, 8), {"element_strides": (0, 1)}, "element_strides[0] is 0; it must be from 1 to 8"),
    ({}, (8, 8), {"element_strides": (9, 1)}, "element_strides[0] is 9; it must be from 1 to 8"),
    ({"dtype": "int32"}, (8, 8), FLOATS, "which only floating-point types have, and the data type is INT32"),
    ({"shape": ()}, (), {}, "the tensor has 0 axes; a tensor map takes from 1 to 5"),
    ({"shape": (1,) * 5 + (64,)}, (8,), {}, "the tensor has 6 axes; a tensor map takes from 1 to 5"),
    ({}, (8, 8), IN_16, "the tensor has 2 axes; an interleaved layout takes from 3 to 5"),
    ({"shape": (4, 4, 64)}, (1, 1, 8), IN_32, "interleave is INTERLEAVE_32B, which needs the swizzle SWIZZLE_32B"),
    ({"shape": (0, 64)}, (8, 8), {}, "shape[0] is 0; it must be from 1 to 4294967296"),
    ({"strides": (65, 1)}, (8, 8), {}, "the stride of axis 0 is 260 bytes; it must be a multiple of 16, and less than"),
    ({"strides": (1, 64)}, (8, 8), {}, "the stride of axis 1 is 256 bytes; the elements of the last axis must be"),
    ({"shape": (64,), "strides": (2,)}, (8,), {}, "the stride of axis 0 is 8 bytes; the elements of the last axis"),
]  # fmt: skip


@pytest.mark.parametrize(("tensor", "box", "options", "message"), WRONG)
def test_rules(memory: ch.Buffer, tensor: Any, box: Any, options: Any, message: str) -> None:
    """Invalid tensors and options would reach the driver, whose error is only CUDA_ERROR_INVALID_VALUE."""
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        view_of(memory, **tensor).as_tensor_map(box, **options)


def test_the_memory(memory: ch.Buffer, view: ch.StridedMemoryView, pinned: Callable[[int], ch.Buffer]) -> None:
    """A tensor map could be made for memory that no device can access, or that is not aligned."""
    with pytest.raises(ValueError, match=r"the address 0x\w+ of the tensor is not a multiple of 16 bytes"):
        view_of(memory[8:], (16, 16)).as_tensor_map((8, 8))
    with pytest.raises(ValueError, match="the tensor must be device-accessible, and is in host memory"):
        ch.StridedMemoryView.from_any_interface(np.zeros((16, 16)), stream_ptr=-1).as_tensor_map((8, 8))
    assert view.as_tensor_map((8, 8)).device == ch.Device(0)
    assert view_of(pinned(SIZE)).as_tensor_map((8, 8)).device is None


def test_without_a_context(view: ch.StridedMemoryView, in_new_thread: Callable[[Callable[[], T]], T]) -> None:
    """A tensor map could not be made on a thread without a current context, because the driver refuses that."""

    def make() -> tuple[bytes, int]:
        return bytes(view.as_tensor_map((8, 8))), ch._native.current_device()

    assert in_new_thread(make) == (bytes(view.as_tensor_map((8, 8))), -1)


def test_images(memory: ch.Buffer) -> None:
    """Tensor maps for the images of convolutions could not be made."""
    for shape in ((2, 8, 16), (2, 8, 8, 16), (2, 4, 4, 4, 16)):
        corner = (-1,) * (len(shape) - 2)
        swizzle = ct.TensorMapSwizzle.SWIZZLE_32B
        made = ch.TensorMapDescriptor.from_im2col(view_of(memory, shape), corner, corner, 8, 64, swizzle=swizzle)
        assert repr(made) == f"TensorMapDescriptor(im2col, rank={len(shape)}, dtype=FLOAT32, swizzle=SWIZZLE_32B)"


@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        ((2, 8, 8, 16), ((0,), (0, 0), 8, 64), "pixel_box_lower_corner has 1 elements; it must have 2"),
        ((2, 8, 8, 16), (0, (0, 0), 8, 64), "pixel_box_lower_corner must be a tuple of ints, not int"),
        ((2, 8, 8, 16), (np.array(0), (0, 0), 8, 64), "pixel_box_lower_corner must be a tuple of ints, not numpy.ndar"),
        ((2, 8, 8, 16), ((0, -129), (0, 0), 8, 64), "pixel_box_lower_corner[1] is -129; it must be from -128 to 127"),
        ((2, 8, 8, 16), ((0, 0), (128, 0), 8, 64), "pixel_box_upper_corner[0] is 128; it must be from -128 to 127"),
        ((2, 8, 8, 16), ((0, 4), (0, -4), 8, 64), "the bounding box is empty along axis 2, which has 8 pixels: its "),
        ((2, 8, 8, 16), ((0, 0), (0, 0), 257, 64), "channels_per_pixel is 257; it must be from 1 to 256"),
        ((2, 8, 8, 16), ((0, 0), (0, 0), 8, 0), "pixels_per_column is 0; it must be from 1 to 1024"),
        ((2, 8, 8, 16), ((0, 0), (0, 0), 8, "x"), "pixels_per_column must be an int, not str"),
        ((2, 8, 8, 16), ((0, 0), (0, 0), 3, 64), "channels_per_pixel is 3, which is 12 bytes of FLOAT32; it must be "),
        ((64, 64), ((), (), 8, 64), "the tensor has 2 axes; an im2col tensor map takes from 3 to 5"),
    ],
)
def test_rules_of_images(memory: ch.Buffer, shape: Any, arguments: Any, message: str) -> None:
    """Invalid tensor maps of images would reach the driver, whose error is only CUDA_ERROR_INVALID_VALUE."""
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        ch.TensorMapDescriptor.from_im2col(view_of(memory, shape), *arguments)


def test_images_are_a_view(memory: Any) -> None:
    """A buffer instead of a view would raise an AttributeError for an attribute that nobody knows."""
    for make in (ch.TensorMapDescriptor.from_im2col, ch.TensorMapDescriptor.from_im2col_wide):
        with pytest.raises(TypeError, match="view must be a StridedMemoryView, not Buffer"):
            make(memory, 0, 0, 8, 64)


def test_wide_images(memory: ch.Buffer, device: ch.Device) -> None:
    """Features that only later devices have would fail in the driver, without a reason."""
    if device.compute_capability >= (10, 0):
        pytest.skip("the device has im2col-wide tensor maps")
    make = ch.TensorMapDescriptor.from_im2col_wide
    image = view_of(memory, (2, 8, 8, 16))
    with pytest.raises(ValueError, match=r"capability 9.0; im2col-wide tensor maps need 10.0 or later"):
        make(image, -1, -1, 8, 64)
    with pytest.raises(ValueError, match="swizzle is 0; an im2col-wide map needs SWIZZLE_64B or SWIZZLE_128B"):
        make(image, -1, -1, 8, 64, swizzle=None, mode=ct.TensorMapIm2ColWideMode.W128)


# ---- replacing the address


def test_replace_address(memory: ch.Buffer, view: ch.StridedMemoryView, device: ch.Device, stream: ch.Stream) -> None:
    """After replace_address(), a descriptor would refer to wrong memory, or to memory that nothing keeps."""
    with device.allocate(SIZE, stream=stream) as other:
        expected = bytes(view_of(other).as_tensor_map((8, 8)))
        for tensor in (other, view_of(other), view_of(other, dtype="int32"), array_of(other)):
            tensor_map = view.as_tensor_map((8, 8))
            tensor_map.replace_address(tensor)
            assert bytes(tensor_map) == expected
            tensor_map.replace_address(view)
            assert bytes(tensor_map) == bytes(view.as_tensor_map((8, 8)))


def test_memory_that_does_not_fit(memory: ch.Buffer, view: ch.StridedMemoryView) -> None:
    """A descriptor could get memory that is too small for its tensor, and copies would go beyond its end."""
    tensor_map = view.as_tensor_map((8, 8))
    then = bytes(tensor_map)
    for tensor, message in (
        (view_of(memory, (63, 64)), "the new tensor has 16128 bytes, and the tensor map describes 16384"),
        (memory[: 64 * 64 * 4 - 1], "the new tensor has 16383 bytes"),
        (memory[8:], "the address 0x[0-9a-f]+ of the tensor is not a multiple of 16 bytes"),
        (np.zeros((64, 64), "f4"), "the tensor must be device-accessible"),
    ):
        with pytest.raises(ValueError, match=message):
            tensor_map.replace_address(tensor)
    with pytest.raises(BufferError, match="does not support any data exchange protocol"):
        tensor_map.replace_address(memory.handle)
    assert bytes(tensor_map) == then


# ---- the descriptor object


def test_it_is_made_of_views(view: ch.StridedMemoryView, arrived: Callable[[Any], bytes]) -> None:
    """An uninitialized descriptor would reach a kernel as zeros, or one could be copied without keeping its memory."""
    with pytest.raises(RuntimeError, match=r"cannot be instantiated directly; use StridedMemoryView\.as_tensor_map"):
        ch.TensorMapDescriptor()
    tensor_map = view.as_tensor_map((8, 8))
    for function in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            function(tensor_map)
    never_made = object.__new__(ch.TensorMapDescriptor)
    assert never_made.device is None
    with pytest.raises(TypeError, match="was never made"):
        never_made.replace_address(view)
    with pytest.raises(TypeError, match=r"argument 0: .*TensorMapDescriptor"):
        arrived(never_made)


@pytest.mark.cuda_sim
def test_failures(view: ch.StridedMemoryView, cuda_sim: Any) -> None:
    """A failure of the driver would leave a descriptor without a tensor, or keep the memory forever."""
    with cuda_sim.failing("cuTensorMapEncodeTiled"), pytest.raises(ch.CUDAError, match="cuTensorMapEncodeTiled"):
        view.as_tensor_map((8, 8))
    tensor_map = view.as_tensor_map((8, 8))
    then = bytes(tensor_map)
    with cuda_sim.failing("cuTensorMapEncodeTiled"), pytest.raises(ch.CUDAError, match="cuTensorMapEncodeTiled"):
        tensor_map.replace_address(view)
    assert bytes(tensor_map) == then
    with cuda_sim.failing("cuTensorMapEncodeIm2col"), pytest.raises(ch.CUDAError, match="cuTensorMapEncodeIm2col"):
        ch.TensorMapDescriptor.from_im2col(view_of(tensor_map._tensor.exporting_obj, (2, 8, 16)), (0,), (0,), 8, 8)


@pytest.mark.cuda_sim
def test_devices_without_tensor_maps(run_on_sim: Callable[..., str]) -> None:
    """The error would not say that the device has no tensor maps."""
    run_on_sim(
        """
        import pytest
        import cudacore_handles as ch
        device = ch.Device(0)
        device.set_current()
        with device.allocate(4096, stream=device.default_stream) as buffer:
            view = ch.StridedMemoryView.from_buffer(buffer, (16, 16), dtype="float32")
            with pytest.raises(ValueError, match="device 0 has the compute capability 8.6; tensor maps need 9.0"):
                view.as_tensor_map((8, 8))
        """,
        CUDACORE_SIM_COMPUTE_CAPABILITY="8.6",
    )
