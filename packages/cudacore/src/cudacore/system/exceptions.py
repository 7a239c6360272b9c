# SPDX-License-Identifier: Apache-2.0
"""The errors of NVML: one class for each result code. All of them are :class:`cudacore.CUDAError`."""

from __future__ import annotations

from typing import Any, ClassVar

from cudacore_handles import CUDAError
from cudacore_handles._sdk import finish_module as _finish_module

__all__ = [
    "AlreadyInitializedError",
    "ArgumentVersionMismatchError",
    "CorruptedInforomError",
    "DeprecatedError",
    "DriverNotLoadedError",
    "FreqNotSupportedError",
    "FunctionNotFoundError",
    "GpuIsLostError",
    "GpuNotFoundError",
    "InUseError",
    "InsufficientPowerError",
    "InsufficientResourcesError",
    "InsufficientSizeError",
    "InvalidArgumentError",
    "InvalidStateError",
    "IrqIssueError",
    "LibRmVersionMismatchError",
    "LibraryNotFoundError",
    "MemoryError",
    "NoDataError",
    "NoPermissionError",
    "NotFoundError",
    "NotReadyError",
    "NotSupportedError",
    "NvmlError",
    "OperatingSystemError",
    "ResetRequiredError",
    "ResetTypeNotSupportedError",
    "TimeoutError",
    "UninitializedError",
    "UnknownError",
    "VgpuEccNotSupportedError",
]

_finish_module(globals())


class NvmlError(CUDAError):
    """An NVML call failed.

    Attributes
    ----------
    operation : str
        The function that failed, such as ``"cuda.bindings.nvml.device_get_name"``.
    code : int
        The result of the function, an ``nvmlReturn_t``.
    code_name : str
        The name of the code, such as ``"NVML_ERROR_NOT_SUPPORTED"``.
    meaning : str
        NVML's description of the code.
    hint : str
        What to do about the error.
    """

    status: ClassVar[int] = 999
    """int: the ``nvmlReturn_t`` of the class."""

    def __init_subclass__(cls, status: int | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if status is not None:
            cls.status = status


class UninitializedError(NvmlError, status=1):
    """NVML_ERROR_UNINITIALIZED: NVML was not initialized."""


class InvalidArgumentError(NvmlError, status=2):
    """NVML_ERROR_INVALID_ARGUMENT: an argument is invalid."""


class NotSupportedError(NvmlError, status=3):
    """NVML_ERROR_NOT_SUPPORTED: the device does not support the request."""


class NoPermissionError(NvmlError, status=4):
    """NVML_ERROR_NO_PERMISSION: the user lacks the permission."""


class AlreadyInitializedError(NvmlError, status=5):
    """NVML_ERROR_ALREADY_INITIALIZED: NVML was initialized already."""


class NotFoundError(NvmlError, status=6):
    """NVML_ERROR_NOT_FOUND: there is no such object."""


class InsufficientSizeError(NvmlError, status=7):
    """NVML_ERROR_INSUFFICIENT_SIZE: a buffer is too small."""


class InsufficientPowerError(NvmlError, status=8):
    """NVML_ERROR_INSUFFICIENT_POWER: a power cable of the device is not attached."""


class DriverNotLoadedError(NvmlError, status=9):
    """NVML_ERROR_DRIVER_NOT_LOADED: the NVIDIA kernel module is not loaded."""


class TimeoutError(NvmlError, status=10):  # noqa: A001
    """NVML_ERROR_TIMEOUT: nothing happened within the timeout."""


class IrqIssueError(NvmlError, status=11):
    """NVML_ERROR_IRQ_ISSUE: the kernel has an interrupt issue with a GPU."""


class LibraryNotFoundError(NvmlError, status=12):
    """NVML_ERROR_LIBRARY_NOT_FOUND: NVML is not installed, or cannot be loaded."""


class FunctionNotFoundError(NvmlError, status=13):
    """NVML_ERROR_FUNCTION_NOT_FOUND: the installed NVML does not have the function."""


class CorruptedInforomError(NvmlError, status=14):
    """NVML_ERROR_CORRUPTED_INFOROM: the InfoROM of the device is corrupted."""


class GpuIsLostError(NvmlError, status=15):
    """NVML_ERROR_GPU_IS_LOST: the GPU has fallen off the bus, or cannot be reached."""


class ResetRequiredError(NvmlError, status=16):
    """NVML_ERROR_RESET_REQUIRED: the GPU must be reset before it can be used again."""


class OperatingSystemError(NvmlError, status=17):
    """NVML_ERROR_OPERATING_SYSTEM: the operating system blocks the GPU's control device."""


class LibRmVersionMismatchError(NvmlError, status=18):
    """NVML_ERROR_LIB_RM_VERSION_MISMATCH: NVML and the kernel module are of different versions."""


class InUseError(NvmlError, status=19):
    """NVML_ERROR_IN_USE: the GPU is in use."""


class MemoryError(NvmlError, status=20):  # noqa: A001
    """NVML_ERROR_MEMORY: there is not enough memory."""


class NoDataError(NvmlError, status=21):
    """NVML_ERROR_NO_DATA: there is no data."""


class VgpuEccNotSupportedError(NvmlError, status=22):
    """NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: virtual GPUs are not available with ECC enabled."""


class InsufficientResourcesError(NvmlError, status=23):
    """NVML_ERROR_INSUFFICIENT_RESOURCES: a resource other than memory is used up."""


class FreqNotSupportedError(NvmlError, status=24):
    """NVML_ERROR_FREQ_NOT_SUPPORTED: the frequency is not supported."""


class ArgumentVersionMismatchError(NvmlError, status=25):
    """NVML_ERROR_ARGUMENT_VERSION_MISMATCH: the installed NVML does not take this version of a structure."""


class DeprecatedError(NvmlError, status=26):
    """NVML_ERROR_DEPRECATED: the function is deprecated."""


class NotReadyError(NvmlError, status=27):
    """NVML_ERROR_NOT_READY: the system is not ready for the request."""


class GpuNotFoundError(NvmlError, status=28):
    """NVML_ERROR_GPU_NOT_FOUND: no GPU was found."""


class InvalidStateError(NvmlError, status=29):
    """NVML_ERROR_INVALID_STATE: the resource is not in the right state."""


class ResetTypeNotSupportedError(NvmlError, status=30):
    """NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: the device does not support this type of reset."""


class UnknownError(NvmlError, status=999):
    """NVML_ERROR_UNKNOWN: an internal error of the driver, or a code that this release does not have."""


for _name in __all__:
    globals()[_name].__module__ = "cudacore.system"  # the module name that tracebacks show
