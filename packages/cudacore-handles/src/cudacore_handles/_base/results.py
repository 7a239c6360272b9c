# SPDX-License-Identifier: Apache-2.0
"""Results of failed calls, and the driver's codes that Python code handles: ``CUDA_ERROR_*`` without the prefix."""

from __future__ import annotations

INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
INVALID_IMAGE = 200
NO_BINARY_FOR_GPU = 209
NOT_MAPPED_AS_POINTER = 213
INVALID_PTX = 218
INVALID_GRAPHICS_CONTEXT = 219
UNSUPPORTED_PTX_VERSION = 222
OPERATING_SYSTEM = 304
INVALID_HANDLE = 400
ILLEGAL_STATE = 401
NOT_FOUND = 500
LAUNCH_OUT_OF_RESOURCES = 701
HOST_MEMORY_ALREADY_REGISTERED = 712
COOPERATIVE_LAUNCH_TOO_LARGE = 720
NOT_PERMITTED = 800
NOT_SUPPORTED = 801
STREAM_CAPTURE_UNSUPPORTED = 900
GRAPH_EXEC_UPDATE_FAILURE = 910
INVALID_CLUSTER_SIZE = 912
INVALID_RESOURCE_CONFIGURATION = 915
UNKNOWN = 999


class Status(int):
    """The result of a failed call of the library, with the record of the failure.

    The extension modules make it in the call that failed (``src/native/base/failure.h``). It cannot be made later,
    because a garbage collection can run finalizers, whose calls replace the thread's record.

    Attributes
    ----------
    domain, code, operation, message
        The fields of ``cch_error``.
    node : int
        The ``CUgraphNode`` that failed; 0 if none did.
    why : str
        The driver's explanation; most drivers have none.
    """

    domain: int
    code: int
    operation: str
    message: str
    node: int
    why: str

    def __new__(cls, status: int, domain: int, code: int, operation: str, message: str, node: int, why: str) -> Status:
        """Make a status from the fields of a ``cch_error``."""
        self = super().__new__(cls, status)
        self.domain, self.code, self.operation, self.message = domain, code, operation, message
        self.node, self.why = node, why
        return self
