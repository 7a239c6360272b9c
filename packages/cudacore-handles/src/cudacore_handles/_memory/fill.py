# SPDX-License-Identifier: Apache-2.0
"""The values with which memory is filled."""

from __future__ import annotations

from cudacore_handles._base.address import as_integer
from cudacore_handles._cffi import ffi
from cudacore_handles._memory.arrays import check_values, has_protocol, is_numpy_scalar, memory_of
from cudacore_handles._stream.stream import IsStreamType, Stream, Stream_accept


def fill_pattern(value: object, stream: Stream | IsStreamType, *, max_size: int = 8) -> tuple[int, int]:
    """Return the pattern of a fill as an integer, and its size in bytes, at most `max_size`."""
    check_values(value, "value")
    try:
        # Tried first, because NumPy's integers are numbers too, but have a definite size.
        pattern = bytes(memoryview(value))  # type: ignore[arg-type]
    # not a buffer, or elements that buffers do not support, such as bfloat16
    except (TypeError, ValueError, BufferError):
        if is_numpy_scalar(value):
            pattern = value.tobytes()  # type: ignore[attr-defined]
        elif has_protocol(value, "__dlpack__"):
            pattern = _host_bytes(value, stream)
        else:
            return _fill_byte(value, max_size), 1
    if len(pattern) not in (1, 2, 4, max_size):
        more = "; a buffer can also be filled with 8 bytes" if max_size == 8 else ""
        raise ValueError(f"value must be 1, 2, or 4 bytes, got {len(pattern)}{more}")
    return int.from_bytes(pattern, "little"), len(pattern)


def _host_bytes(value: object, stream: Stream | IsStreamType) -> bytes:
    """Return the bytes of a DLPack object in host memory."""
    with memory_of(value, "value", Stream_accept(stream, allow_stream_protocol=True)) as memory:
        if not memory.on_host:
            raise TypeError("value is in device memory; copy it to the host first")
        return bytes(ffi.buffer(ffi.cast("char *", memory.address), memory.nbytes))


def _fill_byte(value: object, max_size: int) -> int:
    number = as_integer(value)
    if number is None:
        more = f"; np.float32({value}) fills with floats" if isinstance(value, float) else ""
        raise TypeError(f"value must be an int from 0 to 255, or a value with a size, not {type(value).__name__}{more}")
    if not 0 <= number < 256:
        fitting = [name for name, low, end in _WIDER[max_size] if low <= number < end]
        if not fitting:
            raise OverflowError(
                f"value is an int of {number.bit_length()} bits; an int fills bytes, 0 to 255, and no NumPy integer of "
                f"up to {max_size} bytes can hold it"
            )
        raise OverflowError(
            f"value is {number}; an int fills bytes, 0 to 255; give np.{fitting[0]}({number}) for wider values"
        )
    return number


# NumPy's integers that are wider than a byte, with their ranges, by the maximum size of a value.
_UP_TO_4 = (("int32", -(2**31), 2**31), ("uint32", 0, 2**32))
_WIDER = {4: _UP_TO_4, 8: (*_UP_TO_4, ("int64", -(2**63), 2**63), ("uint64", 0, 2**64))}
