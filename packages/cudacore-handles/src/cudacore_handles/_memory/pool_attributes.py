# SPDX-License-Identifier: Apache-2.0
"""Attributes of memory pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudacore_handles._base.attribute import Attribute
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import hold
from cudacore_handles._cffi import ffi, lib

if TYPE_CHECKING:
    from cudacore_handles._memory.pool import PooledMemoryResource


class MemPoolAttributes:
    """Settings and usage of a memory pool (cuMemPoolGetAttribute).

    :attr:`DeviceMemoryResource.attributes` returns it. Each property is read from the driver. The object keeps the pool
    alive, and works also after the resource was closed.
    """

    __slots__ = ("_box",)
    _box: Any

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("MemPoolAttributes cannot be instantiated directly; use the memory resource's attributes")

    def __repr__(self) -> str:
        values = (f"{name}={getattr(self, name)}" for name in sorted(_NAMES))
        return f"{type(self).__name__}({', '.join(values)})"

    def _repr_html_(self) -> str:
        from cudacore_handles._base.html import attributes_table

        return attributes_table("A memory pool", self)

    @classmethod
    def _init(cls, resource: PooledMemoryResource) -> MemPoolAttributes:
        self = cls.__new__(cls)
        self._box = hold(resource._pool)
        return self

    def _read(self, attribute: Attribute[Any]) -> int:
        out = ffi.new("uint64_t *")
        check(lib.cch_pool_attribute(out, self._box, attribute.number))
        return int(out[0])

    def _set_release_threshold(self, nbytes: int) -> None:
        check(lib.cch_pool_set_attribute(self._box, MemPoolAttributes.release_threshold.number, nbytes))

    reuse_follow_event_dependencies: Attribute[bool] = Attribute(
        1, bool, "Whether memory that another stream freed is reused where events order the two streams."
    )
    reuse_allow_opportunistic: Attribute[bool] = Attribute(
        2, bool, "Whether memory that another stream freed is reused where that free happens to be done already."
    )
    reuse_allow_internal_dependencies: Attribute[bool] = Attribute(
        3, bool, "Whether streams are made to wait for each other so that memory can be reused."
    )
    release_threshold: Attribute[int] = Attribute(
        4, int, "How much unused memory the pool keeps when a stream, an event or a context is waited for, in bytes."
    )
    reserved_mem_current: Attribute[int] = Attribute(5, int, "Memory that the pool has now, in bytes.")
    reserved_mem_high: Attribute[int] = Attribute(
        6, int, "The most memory that the pool has had since this was last reset, in bytes."
    )
    used_mem_current: Attribute[int] = Attribute(7, int, "Memory of the pool that is in use now, in bytes.")
    used_mem_high: Attribute[int] = Attribute(
        8, int, "The most memory that has been in use since this was last reset, in bytes."
    )


_NAMES = [name for name, value in vars(MemPoolAttributes).items() if isinstance(value, Attribute)]
