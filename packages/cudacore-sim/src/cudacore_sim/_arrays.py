# SPDX-License-Identifier: Apache-2.0
"""Arrays in device memory, for tests of programs whose own array library does not run on the simulator."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

from cudacore_sim._library import SimulatorError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class DeviceArray:
    """A contiguous array in the memory of the current device, whose contents are undefined at first.

    It has the methods of a PyTorch tensor that Triton uses, and ``__cuda_array_interface__`` for other libraries. It
    calls only the driver, so it works on a GPU, too. The memory is freed with the object. NumPy must be installed.

    Parameters
    ----------
    shape : int or tuple of int
        The shape.
    dtype : dtype_like
        The type of the elements; types of ``ml_dtypes``, such as ``bfloat16``, too.

    Attributes
    ----------
    shape : tuple of int
        The shape.
    dtype : numpy.dtype
        The type of the elements.

    Raises
    ------
    SimulatorError
        If the driver fails: there is no memory left, or a kernel has failed.
    """

    def __init__(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._pointer = ctypes.c_uint64()
        import numpy as np

        self.shape: tuple[int, ...] = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._use_context()
        self._call("cuMemAlloc_v2", ctypes.byref(self._pointer), ctypes.c_size_t(max(self.nbytes, 1)))

    def __del__(self) -> None:
        if self._pointer:
            self._driver.cuMemFree_v2(self._pointer)

    @classmethod
    def from_numpy(cls, values: npt.ArrayLike) -> DeviceArray:
        """Return a copy of an array of NumPy, or of anything that NumPy converts to an array.

        Parameters
        ----------
        values : array_like
            The contents.

        Returns
        -------
        DeviceArray
            The copy.
        """
        import numpy as np

        contents = np.asarray(values, order="C")
        self = cls(contents.shape, contents.dtype)
        self._call("cuMemcpyHtoD_v2", self._pointer, ctypes.c_void_p(contents.ctypes.data), self._bytes)
        return self

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (self.data_ptr(), False)
        return {"shape": self.shape, "typestr": self.dtype.str, "data": data, "version": 3, "strides": None}

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def _bytes(self) -> ctypes.c_size_t:
        return ctypes.c_size_t(self.nbytes)

    def data_ptr(self) -> int:
        """Return the address of the first element.

        Returns
        -------
        int
            A device address.
        """
        return self._pointer.value

    def stride(self, dim: int | None = None) -> Any:
        """Return how many elements are between neighbours in a dimension.

        Parameters
        ----------
        dim : int, optional
            The dimension; by default, all of them.

        Returns
        -------
        int or tuple of int
            The stride, or those of all dimensions.
        """
        strides = tuple(math.prod(self.shape[index + 1 :]) for index in range(len(self.shape)))
        return strides if dim is None else strides[dim]

    def numpy(self) -> npt.NDArray[Any]:
        """Return a copy of the contents, after the work of the default stream is done.

        Returns
        -------
        numpy.ndarray
            The copy.
        """
        import numpy as np

        contents = np.empty(self.shape, self.dtype)
        self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(contents.ctypes.data), self._pointer, self._bytes)
        return contents

    def _use_context(self) -> None:
        """If no context is current, make the primary context of device 0 current, as CUDA's runtime does."""
        context = ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuCtxGetCurrent", ctypes.byref(context))
        if not context:
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
            self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._driver, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorName(status, ctypes.byref(text))
            raise SimulatorError(f"{name}: {(text.value or b'unknown error').decode()}")
