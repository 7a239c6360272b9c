# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ to PTX, cubin and LTO-IR with NVRTC, on any machine: no GPU, no driver and no toolkit needed.

Importing this package loads neither NVRTC nor ``cuda.bindings``: that happens at the first compilation.
"""

from __future__ import annotations

from cudacore_compile import typing
from cudacore_compile._errors import NVRTCError
from cudacore_compile._options import ProgramOptions
from cudacore_compile._program import Program
from cudacore_compile._targets import SUPPORTED_TARGETS

__version__ = "0.1.0"

__all__ = ["SUPPORTED_TARGETS", "NVRTCError", "Program", "ProgramOptions", "typing"]
