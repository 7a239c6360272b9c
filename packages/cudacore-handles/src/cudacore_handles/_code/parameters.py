# SPDX-License-Identifier: Apache-2.0
"""Layouts of kernel parameters for drivers before CUDA 12.4, which lack cuKernelGetParamInfo.

The layout is read from the code. If the code cannot be read, it is derived from the values of each launch.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

from cudacore_handles import _native
from cudacore_handles._base.errors import check
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._code.contents import read_contents
from cudacore_handles._code.fat_binary import entries
from cudacore_handles._code.param_kinds import ParamInfo, ParamKind

_SLOT = 16  # values are aligned to this many bytes, which is enough for every type


def places_in(code: bytes, code_type: str) -> dict[str, Sequence[ParamInfo]]:
    """Read the layouts of the parameters of all kernels in some code.

    Parameters
    ----------
    code : bytes
        The code.
    code_type : str
        ``"cubin"``, ``"ptx"`` or ``"fatbin"``. Of the images in a fat binary, the one that the current device would run
        is preferred.

    Returns
    -------
    dict
        The parameters by symbols, without kernels for which the code does not give all parameters.
    """
    places: dict[str, Sequence[ParamInfo]] = {}
    for kind, image in _images(code, code_type):
        try:
            kernels = read_contents(image, kind, {}).kernels
        except ValueError:  # damaged code: the driver reports the error
            continue
        for kernel in kernels:
            places.setdefault(kernel.symbol, kernel.parameters)
    return places


def _images(code: bytes, code_type: str) -> Iterator[tuple[str, bytes]]:
    if code_type != "fatbin":
        yield code_type, code
        return
    from cudacore_handles._driver.device import Device

    arch = int(Device().arch)
    # The image that the driver would load comes first: of the cubins for this generation, the newest that the device
    # can run; otherwise PTX.
    found = sorted(
        entries(code),
        key=lambda i: (i.arch <= arch, i.code_type == "cubin" and i.arch // 10 == arch // 10, i.arch),
        reverse=True,
    )
    for entry in found:
        image = entry.unpack()
        if image is not None:
            yield entry.code_type, image


def state(box: object, parameters: Sequence[ParamInfo]) -> None:
    """Set the parameters of a ``cch_kernel``."""
    params = ffi.new("cch_param[]", [{"offset": offset, "size": size} for offset, size in parameters])
    check(lib.cch_kernel_set_params(box, params, len(parameters)))


def by_values(args: Sequence[object]) -> list[ParamInfo]:
    """Derive a kernel's parameters from the arguments of one launch.

    Each value is passed in its own size; Python numbers have 8 bytes. The driver reads as many bytes as the parameter
    has.
    """
    made = []
    offset = 0
    for value in args:
        size = _size(value)
        made.append(ParamInfo(offset, size, ParamKind.FLOAT if type(value) is float else ParamKind.UNKNOWN))
        offset += -(-size // _SLOT) * _SLOT
    return made


def _size(value: object) -> int:
    if isinstance(value, complex):
        dtype = getattr(value, "dtype", None)
        return 16 if dtype is None else int(dtype.itemsize)
    if isinstance(value, _native.Handle) or hasattr(value, "__cuda_array_interface__"):
        return 8
    try:
        return memoryview(value).nbytes  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return 8


def warn_unknown(kernel: object, *, stacklevel: int) -> None:
    """Warn, once per kernel, that its arguments are packed according to their values."""
    warnings.warn(
        f"the parameters of {kernel!r} are unknown: the driver is older than CUDA 12.4, and the code does not list "
        "them. Arguments are passed in the sizes of their values, unchecked: give NumPy or ctypes scalars of the "
        "parameters' types",
        RuntimeWarning,
        stacklevel=stacklevel + 1,
    )
