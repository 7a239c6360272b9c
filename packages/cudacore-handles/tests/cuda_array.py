# SPDX-License-Identifier: Apache-2.0
"""An array of a library that supports the CUDA array interface."""

from __future__ import annotations

from typing import Any

import cudacore_handles as ch


class CudaArray:
    """Four elements in the memory of a buffer, which the array keeps."""

    def __init__(self, buffer: ch.Buffer, typestr: str = "<i4") -> None:
        self.buffer = buffer
        self.typestr = typestr

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (4,), "typestr": self.typestr, "data": (self.buffer.handle, False), "version": 3}
