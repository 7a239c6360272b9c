# SPDX-License-Identifier: Apache-2.0
"""Names of CuPy, PyTorch, Numba and the CUDA runtime, which newcomers try, and what to write instead."""

from __future__ import annotations

from typing import NoReturn

from cudacore_handles._base.suggest import instead
from cudacore_handles._code.kernel import Kernel
from cudacore_handles._code.object_code import ObjectCode
from cudacore_handles._driver.device import Device
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._stream.event import Event
from cudacore_handles._stream.stream import Stream
from cudacore_handles._views.view import StridedMemoryView

_LAUNCH = "write launch(stream, LaunchConfig(grid=..., block=...), kernel, ...)"
_COPY_TO = "use copy_to(array, stream=stream)"

instead(
    Stream,
    synchronize="use sync()",
    query="event = stream.record() has is_done",
    wait_event="use wait(event)",
    wait_stream="use wait(stream)",
    record_event="use record(event)",
    add_callback="use callback(fn)",
    launch_host_func="use callback(fn)",
    launch=_LAUNCH,
    ptr="handle has the CUstream, and int(stream.handle) its address",
    cuda_stream="handle has the CUstream, and int(stream.handle) its address",
)
instead(
    Event,
    synchronize="use sync()",
    wait="use sync(), or stream.wait(event) to make a stream wait",
    query="use is_done",
    record="use stream.record(event)",
    elapsed_time="subtract events: end - start is in milliseconds",
    ptr="handle has the CUevent, and int(event.handle) its address",
)
instead(
    Device,
    synchronize="use sync()",
    use="use set_current()",
    id="use device_id",
    attributes="use properties",
    mem_info="use memory_info",
    malloc="use allocate(size, stream=stream)",
    alloc="use allocate(size, stream=stream)",
    Stream="use create_stream()",
    Event="use create_event()",
    stream="use create_stream(), or default_stream",
    event="use create_event()",
    create_buffer="use allocate(size, stream=stream)",
    compile="use Program(code, 'c++').compile('cubin')",
    __enter__="use set_current(); a device stays current until another one is",
)
instead(
    Buffer,
    ptr="use handle",
    nbytes="use size",
    free="use close()",
    shape="a Buffer has size bytes; view(dtype) is an array",
    dtype="a Buffer has size bytes; view(dtype) is an array",
    get=_COPY_TO,
    set="use copy_from(array, stream=stream)",
    numpy=_COPY_TO,
    copy_to_host=_COPY_TO,
    copy_from_host="use copy_from(array, stream=stream)",
)
instead(
    StridedMemoryView,
    fill="fill the buffer: buffer.fill(value, stream=stream)",
    zero_="fill the buffer: buffer.fill(0, stream=stream)",
    get=_COPY_TO,
    numpy=_COPY_TO,
    cpu=_COPY_TO,
    tolist=_COPY_TO,
    copy_to_host=_COPY_TO,
    set="use copy_from(array, stream=stream)",
    ndim="use len(shape)",
    nbytes="use size * dtype.itemsize",
    data_ptr="use ptr",
    reshape="make a view of the buffer: buffer.view(dtype, shape)",
    astype="a view has no arithmetic: give it to a library such as CuPy or PyTorch, by from_dlpack(view)",
)
instead(
    ObjectCode,
    get_function="use get_kernel(name)",
    from_file="use from_cubin(path), from_ptx(path) or another, by the type of the file",
    load="it is loaded when it is used: use get_kernel(name)",
)
instead(Kernel, launch=_LAUNCH)


def _not_callable(*args: object, **kwargs: object) -> NoReturn:
    raise TypeError(f"a Kernel is not called: {_LAUNCH}")


# CuPy, PyCUDA and Numba call or index a kernel to launch it. The loop hides the methods from type checkers.
for _name in ("__call__", "__getitem__"):
    setattr(Kernel, _name, _not_callable)
