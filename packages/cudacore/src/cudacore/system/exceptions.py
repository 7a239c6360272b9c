# SPDX-License-Identifier: Apache-2.0
"""The errors of NVML: one class for each result code. All of them are :class:`cudacore.CUDAError`."""

from __future__ import annotations

from typing import ClassVar

from cudacore_handles import CUDAError

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


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


class NvmlError(CUDAError):
    """An NVML call failed.

    Attributes
    ----------
    operation : str
        The function that failed, such as ``"cuda.bindings.nvml.device_get_name"``.
    code : int
        Its result, an ``nvmlReturn_t``.
    code_name : str
        The name of the code, such as ``"NVML_ERROR_NOT_SUPPORTED"``.
    meaning : str
        NVML's description of the code.
    hint : str
        What to do about it.
    """

    status: ClassVar[int] = 999
    """int: the ``nvmlReturn_t`` of the class."""


class UninitializedError(NvmlError):
    """NVML_ERROR_UNINITIALIZED: NVML was not initialized."""

    status = 1


class InvalidArgumentError(NvmlError):
    """NVML_ERROR_INVALID_ARGUMENT: an argument is invalid."""

    status = 2


class NotSupportedError(NvmlError):
    """NVML_ERROR_NOT_SUPPORTED: the device does not support the request."""

    status = 3


class NoPermissionError(NvmlError):
    """NVML_ERROR_NO_PERMISSION: the user lacks the permission."""

    status = 4


class AlreadyInitializedError(NvmlError):
    """NVML_ERROR_ALREADY_INITIALIZED: NVML was initialized already."""

    status = 5


class NotFoundError(NvmlError):
    """NVML_ERROR_NOT_FOUND: there is no such object."""

    status = 6


class InsufficientSizeError(NvmlError):
    """NVML_ERROR_INSUFFICIENT_SIZE: a buffer is too small."""

    status = 7


class InsufficientPowerError(NvmlError):
    """NVML_ERROR_INSUFFICIENT_POWER: a power cable of the device is not attached."""

    status = 8


class DriverNotLoadedError(NvmlError):
    """NVML_ERROR_DRIVER_NOT_LOADED: the NVIDIA kernel module is not loaded."""

    status = 9


class TimeoutError(NvmlError):  # noqa: A001
    """NVML_ERROR_TIMEOUT: nothing happened within the timeout."""

    status = 10


class IrqIssueError(NvmlError):
    """NVML_ERROR_IRQ_ISSUE: the kernel has an interrupt issue with a GPU."""

    status = 11


class LibraryNotFoundError(NvmlError):
    """NVML_ERROR_LIBRARY_NOT_FOUND: NVML is not installed, or cannot be loaded."""

    status = 12


class FunctionNotFoundError(NvmlError):
    """NVML_ERROR_FUNCTION_NOT_FOUND: the installed NVML does not have the function."""

    status = 13


class CorruptedInforomError(NvmlError):
    """NVML_ERROR_CORRUPTED_INFOROM: the InfoROM of the device is corrupted."""

    status = 14


class GpuIsLostError(NvmlError):
    """NVML_ERROR_GPU_IS_LOST: the GPU has fallen off the bus, or cannot be reached."""

    status = 15


class ResetRequiredError(NvmlError):
    """NVML_ERROR_RESET_REQUIRED: the GPU must be reset before it can be used again."""

    status = 16


class OperatingSystemError(NvmlError):
    """NVML_ERROR_OPERATING_SYSTEM: the operating system blocks the GPU's control device."""

    status = 17


class LibRmVersionMismatchError(NvmlError):
    """NVML_ERROR_LIB_RM_VERSION_MISMATCH: NVML and the kernel module are of different versions."""

    status = 18


class InUseError(NvmlError):
    """NVML_ERROR_IN_USE: the GPU is in use."""

    status = 19


class MemoryError(NvmlError):  # noqa: A001
    """NVML_ERROR_MEMORY: there is not enough memory."""

    status = 20


class NoDataError(NvmlError):
    """NVML_ERROR_NO_DATA: there is no data."""

    status = 21


class VgpuEccNotSupportedError(NvmlError):
    """NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: virtual GPUs are not available with ECC enabled."""

    status = 22


class InsufficientResourcesError(NvmlError):
    """NVML_ERROR_INSUFFICIENT_RESOURCES: a resource other than memory is used up."""

    status = 23


class FreqNotSupportedError(NvmlError):
    """NVML_ERROR_FREQ_NOT_SUPPORTED: the frequency is not supported."""

    status = 24


class ArgumentVersionMismatchError(NvmlError):
    """NVML_ERROR_ARGUMENT_VERSION_MISMATCH: the installed NVML does not take this version of a structure."""

    status = 25


class DeprecatedError(NvmlError):
    """NVML_ERROR_DEPRECATED: the function is deprecated."""

    status = 26


class NotReadyError(NvmlError):
    """NVML_ERROR_NOT_READY: the system is not ready for the request."""

    status = 27


class GpuNotFoundError(NvmlError):
    """NVML_ERROR_GPU_NOT_FOUND: no GPU was found."""

    status = 28


class InvalidStateError(NvmlError):
    """NVML_ERROR_INVALID_STATE: the resource is not in the right state."""

    status = 29


class ResetTypeNotSupportedError(NvmlError):
    """NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: the device does not support this type of reset."""

    status = 30


class UnknownError(NvmlError):
    """NVML_ERROR_UNKNOWN: an internal error of the driver, or a code that this release does not have."""

    status = 999


for _name in __all__:
    globals()[_name].__module__ = "cudacore.system"  # the module name that tracebacks show
