# SPDX-License-Identifier: Apache-2.0
"""The driver's linker (cuLinkCreate), which is used if there is no nvJitLink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cudacore_handles._base.driver_calls import driver_status, driver_version
from cudacore_handles._base.errors import CUDAError, check
from cudacore_handles._base.handle import out_box
from cudacore_handles._cffi import ffi, lib

_LOG_BYTES = 64 * 1024
# Numbers of CUjit_option.
_INFO_LOG, _INFO_LOG_SIZE, _ERROR_LOG, _ERROR_LOG_SIZE = 3, 4, 5, 6
OPTIONS = {
    "max_register_count": 0,
    "optimization_level": 7,
    "target": 9,
    "debug": 11,
    "verbose": 12,
    "lineinfo": 13,
    "cache_mode": 14,
}
_WALL_TIME = 2
# Numbers of CUjitInputType.
_INPUTS = {"cubin": 0, "ptx": 1, "fatbin": 2, "object": 3, "library": 4}


def link_with_driver(
    inputs: Sequence[tuple[str, bytes, bytes]], options: Mapping[str, int], *, time: bool
) -> tuple[bytes, bytes, bytes]:
    """Link code to a cubin, in the current context or, if there is none, in the context of device 0.

    Parameters
    ----------
    inputs : sequence of (str, bytes, bytes)
        Type, code and name of each input.
    options : mapping of str to int
        Values for :data:`OPTIONS`.
    time : bool
        Whether the info log contains the time that linking took.

    Returns
    -------
    tuple of bytes
        The cubin, the error log and the info log.

    Raises
    ------
    CUDAError
        If linking fails; it has the error log.
    """
    check(lib.cch_driver_init())
    before = out_box("cch_context")
    check(lib.cch_context_current(before))
    if before[0] != ffi.NULL:
        return _link(inputs, options, time=time)
    context = out_box("cch_context")
    check(lib.cch_context_primary(context, 0))
    try:
        check(lib.cch_context_set_current(context[0]))
        return _link(inputs, options, time=time)
    finally:
        check(lib.cch_context_restore(ffi.NULL))


def driver_cuda_version() -> tuple[int, int]:
    """Return the version of CUDA that the driver is for (cuDriverGetVersion)."""
    version = driver_version()
    return version // 1000, version % 1000 // 10


def _link(
    inputs: Sequence[tuple[str, bytes, bytes]], options: Mapping[str, int], *, time: bool
) -> tuple[bytes, bytes, bytes]:
    info, errors = (ffi.new("char[]", _LOG_BYTES) for _ in range(2))
    given: dict[int, Any] = {OPTIONS[name]: value for name, value in options.items()}
    given |= {_INFO_LOG: info, _INFO_LOG_SIZE: _LOG_BYTES - 1, _ERROR_LOG: errors, _ERROR_LOG_SIZE: _LOG_BYTES - 1}
    if time:
        given[_WALL_TIME] = 0
    keys = ffi.new("int[]", list(given))
    # the driver also writes to this array: it replaces the values of some options by results, such as the time
    values = ffi.new("void *[]", [ffi.cast("void *", value) for value in given.values()])
    state, cubin, size = ffi.new("void **"), ffi.new("void **"), ffi.new("size_t *")
    status, function = driver_status("cuLinkCreate", len(keys), keys, values, state), "cuLinkCreate"
    try:
        for code_type, code, name in inputs:
            if not status:
                function = "cuLinkAddData"
                status = driver_status(function, state[0], _INPUTS[code_type], code, len(code), name, 0, 0, 0)
        if not status:
            status, function = driver_status("cuLinkComplete", state[0], cubin, size), "cuLinkComplete"
        if status:
            raise _failure(function, status, _text(errors))
        linked = bytes(ffi.buffer(cubin[0], size[0]))  # the linker owns this memory, and frees it when destroyed
    finally:
        if state[0] != ffi.NULL:
            driver_status("cuLinkDestroy", state[0])
    text = _text(info)
    if time:
        bits = int(ffi.cast("uintptr_t", values[list(given).index(_WALL_TIME)])) & 0xFFFFFFFF
        took = ffi.cast("float *", ffi.new("uint32_t *", bits))[0]
        text += b"linking took %.3f ms\n" % took
    return linked, _text(errors), text


def _failure(function: str, status: int, log: bytes) -> CUDAError:
    name = ffi.string(lib.cch_error_name(status)).decode()
    meaning = ffi.string(lib.cch_error_string(status)).decode()
    return CUDAError(function, int(status), name, meaning, log=log.decode("utf-8", "replace").strip())


def _text(chars: Any) -> bytes:
    return bytes(ffi.string(chars))
