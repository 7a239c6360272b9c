# SPDX-License-Identifier: Apache-2.0
"""Attributes of memory pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from cudacore_handles._base.address import as_integer
from cudacore_handles._base.attribute import Attribute, HasAttributes
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import hold
from cudacore_handles._base.made import Made
from cudacore_handles._base.options import as_flag
from cudacore_handles._cffi import ffi, lib

if TYPE_CHECKING:
    from cudacore_handles._memory.pool import PooledMemoryResource

T = TypeVar("T", bound=int)


class _Setting(Attribute[T]):
    """A property of a pool that can be set (cuMemPoolSetAttribute).

    Parameters
    ----------
    number, kind, doc
        As for :class:`Attribute`.
    maximum : int, optional
        The largest value. Default 1.
    """

    def __init__(self, number: int, kind: type[T], doc: str, maximum: int = 1) -> None:
        super().__init__(number, kind, doc)
        self._maximum = maximum

    def __set__(self, instance: HasAttributes, value: object) -> None:  # type: ignore[override]
        name = f"attributes.{self.name}"
        if self.kind is bool and value is not None:
            number: int | None = as_flag(name, value)
        else:
            number = as_integer(value)
        if number is None:
            raise TypeError(f"{name} must be {self.kind.__name__}, not {type(value).__name__}")
        if not 0 <= number <= self._maximum:
            allowed = "0, which resets it" if self._maximum == 0 else f"values from 0 to {self._maximum}"
            raise ValueError(f"{name} is {number}; it can be set to {allowed}")
        check(lib.cch_pool_set_attribute(instance._box, self.number, number))  # type: ignore[attr-defined]


class MemPoolAttributes(Made):
    """Settings and usage of a memory pool (cuMemPoolGetAttribute).

    :attr:`DeviceMemoryResource.attributes` returns it. Each property is read from the driver. The object keeps the pool
    alive, and still works after the resource was closed. The settings can be assigned, and the maxima set to 0; this
    affects all users of the pool.
    """

    __slots__ = ("_box",)
    _made_by = "the memory resource's attributes"
    _box: Any

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

    reuse_follow_event_dependencies: _Setting[bool] = _Setting(
        1, bool, "Whether memory that another stream freed is reused where events order the two streams."
    )
    reuse_allow_opportunistic: _Setting[bool] = _Setting(
        2, bool, "Whether memory that another stream freed is reused where that free happens to be done already."
    )
    reuse_allow_internal_dependencies: _Setting[bool] = _Setting(
        3, bool, "Whether streams are made to wait for each other so that memory can be reused."
    )
    release_threshold: _Setting[int] = _Setting(
        4,
        int,
        "How much unused memory the pool keeps when a stream, an event or a context is waited for, in bytes.",
        2**64 - 1,
    )
    reserved_mem_current: Attribute[int] = Attribute(5, int, "Memory that the pool has now, in bytes.")
    reserved_mem_high: _Setting[int] = _Setting(
        6, int, "The most memory that the pool has had since this was last set to 0, in bytes.", 0
    )
    used_mem_current: Attribute[int] = Attribute(7, int, "Memory of the pool that is in use now, in bytes.")
    used_mem_high: _Setting[int] = _Setting(
        8, int, "The most memory that has been in use since this was last set to 0, in bytes.", 0
    )


_NAMES = [name for name, value in vars(MemPoolAttributes).items() if isinstance(value, Attribute)]
