# SPDX-License-Identifier: Apache-2.0
"""Where the parameters of kernels lie, for drivers before CUDA 12.4, which cannot be asked (cuKernelGetParamInfo).

Code says it itself, as far as it can be read. Where it cannot, the values of each launch must do.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

from cudacore_handles import _native
from cudacore_handles._base.errors import check
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._code.contents import read_contents
from cudacore_handles._code.fat_binary import images
from cudacore_handles._code.param_kinds import ParamKind

Places = tuple[tuple[int, int], ...]  # the offset and the size of each parameter

_SLOT = 16  # values are aligned to so many bytes, which are enough for every type


def places_in(code: bytes, code_type: str, arch: int) -> dict[str, Places]:
    """Read where the parameters of each kernel of some code lie.

    Parameters
    ----------
    code : bytes
        The code.
    code_type : str
        ``"cubin"``, ``"ptx"`` or ``"fatbin"``.
    arch : int
        The device's architecture, such as 90: of several images, the one for it says most.

    Returns
    -------
    dict
        Offsets and sizes by symbols. Kernels of which the code does not tell all are left out.
    """
    places: dict[str, Places] = {}
    for kind, image in _images(code, code_type, arch):
        try:
            kernels = read_contents(image, kind, {}).kernels
        except ValueError:  # damaged: the driver says so
            continue
        for kernel in kernels:
            places.setdefault(kernel.symbol, tuple((offset, size) for offset, size in kernel.parameters))
    return places


def _images(code: bytes, code_type: str, arch: int) -> Iterator[tuple[str, bytes]]:
    if code_type != "fatbin":
        yield code_type, code
        return
    # First what the driver would load: a cubin of this generation, for the newest device that is not too new; or PTX.
    found = sorted(
        images(code),
        key=lambda i: (i.arch <= arch, i.code_type == "cubin" and i.arch // 10 == arch // 10, i.arch),
        reverse=True,
    )
    for image in found:
        yield image.code_type, image.code


def state(box: object, places: Sequence[tuple[int, int]]) -> None:
    """Give a ``cch_kernel`` its parameters."""
    params = ffi.new("cch_param[]", [{"offset": offset, "size": size} for offset, size in places])
    check(lib.cch_kernel_set_params(box, params, len(places)))


def by_values(args: Sequence[object]) -> list[tuple[int, int, ParamKind]]:
    """Make up offsets, sizes and kinds from the arguments of one launch.

    Each value is given in its own size: numbers of Python as 8 bytes. The driver reads as much of it as the parameter
    has.
    """
    made = []
    offset = 0
    for value in args:
        size = _size(value)
        made.append((offset, size, ParamKind.FLOAT if type(value) is float else ParamKind.UNKNOWN))
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
    """Warn, once a kernel, that its arguments are packed by their values."""
    warnings.warn(
        f"the parameters of {kernel!r} are not known: the driver is older than CUDA 12.4, and the code does not tell "
        "them. Arguments are passed in the sizes that their values have, unchecked: give NumPy or ctypes scalars of "
        "the parameters' types",
        RuntimeWarning,
        stacklevel=stacklevel + 1,
    )
