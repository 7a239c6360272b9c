# SPDX-License-Identifier: Apache-2.0
"""Attributes of memory pools."""

from __future__ import annotations

from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.attribute import Attribute, MemoryAttributes, Setting
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import hold
from cudacore_handles._cffi import lib


class MemPoolAttributes(MemoryAttributes):
    """Settings and usage of a memory pool (cuMemPoolGetAttribute).

    :attr:`DeviceMemoryResource.attributes` returns it. Each property is read from the driver. The object keeps the pool
    alive, and still works after the resource was closed. The settings can be assigned, and the maxima set to 0; this
    affects all users of the pool.
    """

    __slots__ = ("_pool",)
    _made_by = "the memory resource's attributes"
    _pool: _native.Handle  # with a reference of its own

    def _read(self, attribute: Attribute[Any]) -> int:
        return _native.pool_attribute(self._pool, attribute.number)

    def _write(self, attribute: Setting[Any], value: int) -> None:
        check(lib.cch_pool_set_attribute(hold(self._pool), attribute.number, value))

    def _title(self) -> str:
        return "A memory pool"

    reuse_follow_event_dependencies: Setting[bool] = Setting(
        1, bool, "Whether memory that another stream freed is reused where events order the two streams."
    )
    reuse_allow_opportunistic: Setting[bool] = Setting(
        2, bool, "Whether memory that another stream freed is reused where that free happens to be done already."
    )
    reuse_allow_internal_dependencies: Setting[bool] = Setting(
        3, bool, "Whether streams are made to wait for each other so that memory can be reused."
    )
    release_threshold: Setting[int] = Setting(
        4,
        int,
        "How much unused memory the pool keeps when a stream, an event or a context is waited for, in bytes.",
        2**64 - 1,
    )
    reserved_mem_current: Attribute[int] = Attribute(5, int, "Memory that the pool has now, in bytes.")
    reserved_mem_high: Setting[int] = Setting(
        6, int, "The most memory that the pool has had since this was last set to 0, in bytes.", 0
    )
    used_mem_current: Attribute[int] = Attribute(7, int, "Memory of the pool that is in use now, in bytes.")
    used_mem_high: Setting[int] = Setting(
        8, int, "The most memory that has been in use since this was last set to 0, in bytes.", 0
    )
