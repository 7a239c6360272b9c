# SPDX-License-Identifier: Apache-2.0
"""For cudacore.interop: allocators of the C library, and what memory resources use to allocate."""

from cudacore_handles._base.errors import no_buffer
from cudacore_handles._driver.context import current_context
from cudacore_handles._memory.allocator import Allocator, make_allocator, set_torch_allocator
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.buffer import empty_buffer
from cudacore_handles._memory.out_of_memory import collect_garbage, without_collection
from cudacore_handles._memory.resource import AccessibleMemoryResource
from cudacore_handles._native import current_device
from cudacore_handles._stream.stream import Stream_accept
