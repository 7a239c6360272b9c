# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch

ONE_BLOCK = ch.LaunchConfig(grid=1, block=1)

# ---- arguments that do not fit

BAD_ARGUMENTS: list[tuple[str, tuple[Any, ...], type[Exception], str]] = [
    ("add", (), TypeError, r"takes 2 arguments \(parameter sizes: 8, 4 bytes\) but 0 were given"),
    ("add", (0,), TypeError, "takes 2 arguments .* but 1 was given"),
    ("add", (0, 1, 2), TypeError, "takes 2 arguments .* but 3 were given"),
    ("nothing", (0,), TypeError, "takes no arguments but 1 was given"),
    ("echo_int32", (2**32, 0), OverflowError, "argument 0.*4294967296"),
    ("echo_float32", (1e39, 0), OverflowError, "argument 0"),
    ("echo_float16", (1.5, 0), TypeError, "argument 0: a float .* be a __half or an __nv_bfloat16: pass np.float16"),
    ("echo_int32", (1.5j, 0), TypeError, "argument 0"),
    ("echo_record", (b"12345", 0), TypeError, "argument 0.*5 bytes.*24"),
    ("echo_int32", (None, 0), TypeError, "argument 0"),
    ("echo_int32", ([1], 0), TypeError, "argument 0: cannot pass a 'list' to a kernel"),
    ("echo_pointer", (np.zeros(100), 0), TypeError, "argument 0.*host memory.*copy it to the device"),
    ("mixed", (1, 1.0, 1, 0, object()), TypeError, "argument 4: cannot pass a 'object' to a kernel"),
]


@pytest.mark.parametrize(("name", "arguments", "error", "message"), BAD_ARGUMENTS)
def test_bad_arguments(
    code: ch.ObjectCode, stream: ch.Stream, name: str, arguments: Any, error: type[Exception], message: str
) -> None:
    """Arguments that do not fit would reach the kernel as garbage, or the error would only be INVALID_VALUE."""
    kernel = code.get_kernel(name)
    for _ in "ab":  # the first launch of a kernel runs other code than later ones
        with pytest.raises(error, match=message):
            ch.launch(stream, ONE_BLOCK, kernel, *arguments)
        with pytest.raises(error, match=message):
            kernel.prepare(stream, ONE_BLOCK, *arguments)
    ch.launch(stream, ONE_BLOCK, code.get_kernel("nothing"))
    stream.sync()


def test_errors_are_not_chained_to_inner_ones(code: ch.ObjectCode, stream: ch.Stream) -> None:
    """The traceback of an invalid launch would begin with an internal TypeError."""
    kernel = code.get_kernel("add")
    for arguments in ((), (0, "1"), (0, 2**32)):
        for _ in "ab":
            with pytest.raises((TypeError, OverflowError)) as caught:
                ch.launch(stream, ONE_BLOCK, kernel, *arguments)
            assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_closed_objects(device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, pinned: Any) -> None:
    """A kernel would get memory that was freed, or be launched on a destroyed stream."""
    kernel, buffer = code.get_kernel("add"), pinned(4)
    buffer.close()
    with pytest.raises(ValueError, match=r"argument 0: .*Buffer has been closed"):
        ch.launch(stream, ONE_BLOCK, kernel, buffer, 1)
    closed = device.create_stream()
    closed.close()
    with pytest.raises(ValueError, match="Stream has been closed"):
        ch.launch(closed, ONE_BLOCK, kernel, pinned(4), 1)
    ch.launch(stream, ONE_BLOCK, kernel, pinned(4), 1)
    stream.sync()


def test_an_error_of_an_argument_is_not_hidden(code: ch.ObjectCode, stream: ch.Stream) -> None:
    """An error that an array raises would be replaced by another error."""

    class Failing:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise LookupError("not now")

    with pytest.raises(LookupError, match="not now"):
        ch.launch(stream, ONE_BLOCK, code.get_kernel("add"), Failing(), 1)


class Closes:
    """An integer whose conversion closes a buffer."""

    def __init__(self, buffer: ch.Buffer) -> None:
        self.buffer = buffer

    def __index__(self) -> int:
        self.buffer.close()
        return 1


def test_argument_that_a_later_one_closes(code: ch.ObjectCode, device: ch.Device, stream: ch.Stream) -> None:
    """The kernel would write to memory that was freed while its arguments were packed."""
    out = device.allocate(4, stream=stream)
    out.fill(0, stream=stream)
    ch.launch(stream, ONE_BLOCK, code.get_kernel("add"), out, Closes(out))
    assert out.is_closed
    stream.sync()
    with pytest.raises(ch.ClosedError, match="argument 0: "):
        ch.launch(stream, ONE_BLOCK, code.get_kernel("add"), out, 1)


MANY = 70  # more than the owners that a launch has room for at first, twice
STORES = "".join(f"ld.param.u64 %rd2, [p{i}]; st.u64 [%rd1+{8 * i}], %rd2;\n" for i in range(MANY))
STORE_ADDRESSES = f"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry store_addresses({", ".join(f".param .u64 p{i}" for i in range(MANY))})
{{ .reg .u64 %rd<3>; ld.param.u64 %rd1, [p0]; {STORES} ret; }}
"""


@pytest.mark.parametrize("others", ["none", "ints", "all"])
def test_many_buffers(device: ch.Device, stream: ch.Stream, pinned: Any, others: str) -> None:
    """Addresses would be in the places of others, or a closed Buffer among many would be used, or leave them in use."""
    kernel = ch.ObjectCode.from_ptx(STORE_ADDRESSES.encode()).get_kernel("store_addresses")
    buffers = [pinned(8 * MANY), *(device.allocate(8, stream=stream) for _ in range(MANY - 1))]
    arguments: list[Any] = list(buffers)
    if others != "none":
        arguments[3:40:5] = [2**64 - i for i in range(1, 9)]
    if others == "all":
        foreign = ch.Buffer.from_handle(int(buffers[0].handle) + 8, 8)
        arguments[11:60:12] = [None, np.uint64(2**63), np.int64(-5), -1, foreign]
    expected = [int(each.handle) if isinstance(each, ch.Buffer) else int(each or 0) % 2**64 for each in arguments]
    for launch in (
        lambda: ch.launch(stream, ONE_BLOCK, kernel, *arguments),
        kernel.prepare(stream, ONE_BLOCK, *arguments),
    ):
        np.from_dlpack(buffers[0]).view(np.uint64)[:] = 7
        launch()
        stream.sync()
        assert np.from_dlpack(buffers[0]).view(np.uint64).tolist() == expected
    for closed in (MANY - 1, 50, 0):
        buffers[closed].close()
        with pytest.raises(ch.ClosedError, match=f"argument {closed}: "):
            ch.launch(stream, ONE_BLOCK, kernel, *arguments)


@pytest.mark.parametrize(
    ("stream", "config", "kernel", "message"),
    [
        (None, ONE_BLOCK, "kernel", "stream is required and must not be None: a Stream is needed, or an object"),
        (0, ONE_BLOCK, "kernel", "Stream or GraphBuilder expected, got int: a Stream is needed"),
        ("stream", None, "kernel", "config must be a LaunchConfig, not NoneType"),
        ("stream", {"grid": 1, "block": 1}, "kernel", "config must be a LaunchConfig, not dict"),
        ("stream", ONE_BLOCK, "code", r"kernel must be a Kernel, not ObjectCode; ObjectCode\.get_kernel\(\) gives one"),
        ("stream", ONE_BLOCK, None, "kernel must be a Kernel, not NoneType"),
        ("kernel", ONE_BLOCK, "stream", "a Stream is needed"),
    ],
)
def test_wrong_types(
    code: ch.ObjectCode, device: ch.Device, stream: Any, config: Any, kernel: Any, message: str
) -> None:
    """A launch with arguments of wrong types would crash, or the error would not explain the mistake."""
    good = {"kernel": code.get_kernel("nothing"), "code": code, "stream": device.create_stream()}
    stream, kernel = (good.get(name, name) if isinstance(name, str) else name for name in (stream, kernel))
    with pytest.raises(TypeError, match=message):
        ch.launch(stream, config, kernel)
    ch.launch(good["stream"], ONE_BLOCK, good["kernel"])
    good["stream"].sync()


# ---- the device and the stream of a launch


@pytest.mark.cuda_misuse_ok("launches that exceed a limit are reported")
def test_limits(device: ch.Device, code: ch.ObjectCode, stream: ch.Stream) -> None:
    """If a launch exceeds a limit, the error would lack the wanted number or the limit."""
    kernel = code.get_kernel("nothing")
    per_multiprocessor = kernel.occupancy.max_active_blocks_per_multiprocessor(256, 0)
    most = per_multiprocessor * device.properties.multiprocessor_count
    with pytest.raises(ch.CUDAError, match="CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE") as caught:
        ch.launch(stream, ch.LaunchConfig(grid=most + 1, block=256, is_cooperative=True), kernel)
    assert f"The launch has {most + 1} blocks" in caught.value.hint
    assert f"with 256 threads a block and 0 bytes of shared memory, at most {most} do" in caught.value.hint
    ch.launch(stream, ch.LaunchConfig(grid=most, block=256, is_cooperative=True), kernel)
    stream.sync()
    if device.compute_capability.major < 9:
        pytest.skip("needs a device with clusters")
    for cluster, part in ((9, "The cluster has 9 blocks, and "), ((4, 4), "The cluster has 16 blocks, and ")):
        with pytest.raises(ch.CUDAError, match="CUDA_ERROR_INVALID_CLUSTER_SIZE") as caught:
            ch.launch(stream, ch.LaunchConfig(grid=1, cluster=cluster, block=32), kernel)
        assert part in caught.value.hint
        assert "can have at most 8" in caught.value.hint
