# SPDX-License-Identifier: Apache-2.0
"""For cudacore.interop: allocators of the C library."""

from cudacore_handles._memory.allocator import make_allocator, set_torch_allocator

__all__ = ["make_allocator", "set_torch_allocator"]
