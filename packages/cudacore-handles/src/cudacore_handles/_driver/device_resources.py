# SPDX-License-Identifier: Apache-2.0
"""Resources of devices, for green contexts: multiprocessors, how they are split, and work queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from cudacore_handles._base import results
from cudacore_handles._base.address import check_int
from cudacore_handles._base.driver_calls import driver_status, driver_version, need_driver
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import hold
from cudacore_handles._base.made import Made
from cudacore_handles._base.module_attributes import public
from cudacore_handles._base.names import type_text
from cudacore_handles._base.options import as_flag, as_options
from cudacore_handles._cffi import ffi, lib
from cudacore_handles.typing import WorkqueueSharingScopeName, WorkqueueSharingScopeType, _as_name

if TYPE_CHECKING:
    from cudacore_handles._driver.context import Context
    from cudacore_handles._driver.device import Device
    from cudacore_handles._option_dicts import SMResourceOptionsDict, WorkqueueResourceOptionsDict

_WITH_GROUPS = 13010  # CUDA 13.1 added groups of different sizes, and work queues
_MAX_UINT32 = 2**32 - 1
_GROUP_FIELDS = 16  # of CU_DEV_SM_RESOURCE_GROUP_PARAMS; it begins with those of _Group
# By their numbers (CUdevWorkqueueConfigScope).
_SCOPES = (WorkqueueSharingScopeType.DEVICE_CTX, WorkqueueSharingScopeType.GREEN_CTX_BALANCED)
# Hints for splits, and for resources that the driver refuses to combine.
_HINTS = {
    lib.CCH_ENOSYMBOL: "This driver can only split into groups of one size, and takes no other options than count",
    results.INVALID_RESOURCE_CONFIGURATION: (
        "There are too few multiprocessors, or they are a group of an earlier split: to split a group, make a "
        "context with it, and split its context.resources.sm"
    ),
}
CONTEXT_HINTS = {
    results.INVALID_RESOURCE_CONFIGURATION: (
        "Several SMResources of one context must be different groups, or the rest, of one call of split()"
    )
}


@public
@dataclass
class SMResourceOptions:
    """Options for splitting multiprocessors into groups.

    If `count` is a sequence, there is one group for each item. The other options are one value for all groups, or a
    sequence of the same length. Options other than `count`, and different counts, need CUDA 13.1.

    Attributes
    ----------
    count : int or sequence of int, optional
        The number of multiprocessors of a group. It must be a multiple of the co-scheduled number, which is
        :attr:`SMResource.coscheduled_alignment` by default. None or 0: all multiprocessors. Default None.
    coscheduled_sm_count : int or sequence of int, optional
        The number of a group's multiprocessors that are scheduled together, as clusters of thread blocks need. Default
        None: the device's default.
    preferred_coscheduled_sm_count : int or sequence of int, optional
        The preferred number, which is used if possible. It must be a multiple of `coscheduled_sm_count`. Default None:
        the same number.
    backfill : bool or sequence of bool, optional
        Whether the count need not be a multiple of the co-scheduled number. Default False.
    """

    count: int | Sequence[int | None] | None = None
    coscheduled_sm_count: int | Sequence[int | None] | None = None
    preferred_coscheduled_sm_count: int | Sequence[int | None] | None = None
    backfill: bool | Sequence[bool] = False


@public
@dataclass
class WorkqueueResourceOptions:
    """Options of work queues.

    Attributes
    ----------
    sharing_scope : WorkqueueSharingScopeType or str, optional
        ``"device_ctx"``: queues are shared with all contexts of the device. ``"green_ctx_balanced"``: if possible, the
        queues are not shared with other green contexts that have this scope. Default None: unchanged.
    concurrency_limit : int, optional
        The expected number of streams that have work at the same time. Default None: unchanged.
    """

    sharing_scope: WorkqueueSharingScopeType | WorkqueueSharingScopeName | None = None
    concurrency_limit: int | None = None

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        if self.sharing_scope is not None:
            opening = f"sharing_scope must not be {self.sharing_scope!r}"
            self.sharing_scope = _as_name(WorkqueueSharingScopeType, self.sharing_scope, opening)
        if self.concurrency_limit is not None:
            limit = check_int("concurrency_limit", self.concurrency_limit)
            if not 1 <= limit <= _MAX_UINT32:
                raise ValueError(f"concurrency_limit must be >= 1 and < 2**32, got {limit}")


class _Group(NamedTuple):
    size: int  # 0: all multiprocessors
    together: int  # 0: the device's default
    preferred: int
    backfill: bool


@public
class SMResource(Made):
    """A set of a device's multiprocessors.

    Made by :attr:`DeviceResources.sm` and :meth:`split`. The object itself reserves nothing. A green context that is
    created with it (:meth:`Device.create_context`) reserves the multiprocessors. Several contexts can have the same
    multiprocessors.
    """

    __slots__ = ("__weakref__", "_alignment", "_count", "_device_id", "_flags", "_min_size", "_raw")
    _made_by = "Device.resources.sm or SMResource.split()"
    _raw: Any  # cch_resource *; None for a dry run, or without multiprocessors
    _device_id: int
    _count: int
    _min_size: int
    _alignment: int
    _flags: int

    def __repr__(self) -> str:
        dry = "" if self._raw is not None or not self._count else " dry_run"
        return f"<SMResource device={self._device_id} sm_count={self._count}{dry}>"

    @classmethod
    def _adopt(cls, raw: Any, device_id: int) -> SMResource:
        count, min_size, alignment, flags = raw.fields
        if not alignment:  # drivers before CUDA 13.1 do not report the number, so the manual's is used
            min_size, alignment = _rules(device_id)
        return cls._with(
            _raw=raw, _device_id=device_id, _count=count, _min_size=min_size, _alignment=alignment, _flags=flags
        )

    @property
    def handle(self) -> int:
        """int: Address of the ``CUdevResource``, valid as long as this object."""
        return int(ffi.cast("uintptr_t", self._usable()))

    @property
    def device(self) -> Device:
        """Device: The device of the multiprocessors."""
        return _device(self._device_id)

    @property
    def sm_count(self) -> int:
        """int: The number of multiprocessors."""
        return self._count

    @property
    def min_partition_size(self) -> int:
        """int: The minimum number of multiprocessors in a group."""
        return self._min_size

    @property
    def coscheduled_alignment(self) -> int:
        """int: The number of multiprocessors that are scheduled together. Sizes of groups are multiples of it."""
        return self._alignment

    @property
    def flags(self) -> int:
        """int: The driver's flags, ``CUdevSmResourceGroup_flags``; 0 with drivers before CUDA 13.1."""
        return self._flags

    def split(
        self, options: SMResourceOptions | SMResourceOptionsDict, *, dry_run: bool = False
    ) -> tuple[list[SMResource], SMResource]:
        """Split the multiprocessors into groups (cuDevSmResourceSplit, before CUDA 13.1 cuDevSmResourceSplitByCount).

        The driver cannot split a group again. Instead, create a context with the group, and split its
        ``context.resources.sm``.

        Parameters
        ----------
        options : SMResourceOptions or mapping
            The number of groups and their sizes.
        dry_run : bool, optional
            Whether to compute only the size of each group. Such groups cannot be used for contexts, and can be empty.
            Default False.

        Returns
        -------
        tuple
            The list of groups, and the remaining multiprocessors. If none remain, their :attr:`sm_count` is 0.

        Raises
        ------
        ValueError
            If a group has more multiprocessors than there are, or their number is not a multiple of the co-scheduled
            number.
        CUDAError
            If the driver does not support such a split (the error names the version that does), or refuses it.
        """
        if options is None:
            raise TypeError("options is required: SMResourceOptions(count=...) gives the groups")
        dry = as_flag("dry_run", dry_run)
        if not isinstance(options, SMResourceOptions):
            options = as_options(SMResourceOptions, options)
        raw = self._usable()
        groups = self._groups(options)
        if driver_version() >= _WITH_GROUPS or not _are_even(groups):
            return self._split_as_asked(raw, groups, dry)
        return self._split_evenly(raw, groups, dry)

    def _split_as_asked(self, raw: Any, groups: list[_Group], dry: bool) -> tuple[list[SMResource], SMResource]:
        wanted = ffi.new(f"unsigned[{len(groups)}][{_GROUP_FIELDS}]", groups)
        parts = ffi.NULL if dry else ffi.new("cch_resource[]", len(groups))
        rest = ffi.NULL if dry else ffi.new("cch_resource *")
        check(driver_status("cuDevSmResourceSplit", parts, len(groups), raw, rest, 0, wanted), hints=_HINTS)
        if not dry:
            return [self._part(parts + i) for i in range(len(groups))], self._rest(rest)
        found = [self._dry(made[0], group.together) for made, group in zip(wanted, groups, strict=True)]
        return found, self._dry(self._count - sum(part.sm_count for part in found))

    def _split_evenly(self, raw: Any, groups: list[_Group], dry: bool) -> tuple[list[SMResource], SMResource]:
        size = groups[0].size or self._count // len(groups) // self._alignment * self._alignment
        parts, rest = ffi.new("cch_resource[]", len(groups)), ffi.new("cch_resource *")
        made = ffi.new("unsigned *", len(groups))
        check(driver_status("cuDevSmResourceSplitByCount", parts, made, raw, rest, 0, size), hints=_HINTS)
        if made[0] < len(groups):
            raise ValueError(
                f"count requests {len(groups)} groups of {size}, but the driver makes only {made[0]} of {self._count} "
                "multiprocessors: request fewer or smaller groups"
            )
        found, left = [self._part(parts + i) for i in range(len(groups))], self._rest(rest)
        if not dry:
            return found, left
        return [self._dry(part.sm_count) for part in found], self._dry(left.sm_count)

    def _part(self, raw: Any) -> SMResource:
        return SMResource._adopt(ffi.new("cch_resource *", raw[0]), self._device_id)

    def _rest(self, raw: Any) -> SMResource:
        return self._dry(0) if raw.kind == lib.CCH_RESOURCE_NONE else self._part(raw)

    def _dry(self, count: int, together: int = 0) -> SMResource:
        fields = {"_device_id": self._device_id, "_min_size": self._min_size, "_alignment": together or self._alignment}
        return SMResource._with(_raw=None, _count=count, _flags=0, **fields)

    def _usable(self) -> Any:
        if self._raw is None:
            raise ValueError(
                "the SMResource was made by split(dry_run=True), which only computes sizes: split without dry_run"
                if self._count
                else "the SMResource has no multiprocessors: the split left none"
            )
        return self._raw

    def _groups(self, options: SMResourceOptions) -> list[_Group]:
        """Read and check the requested groups."""
        several = _is_sequence(options.count)
        counts: list[Any] = list(cast("Sequence[object]", options.count)) if several else [options.count]
        if not counts:
            raise ValueError("count must not be empty: it has the size of each group")
        together = _for_each(options, "coscheduled_sm_count", counts, several)
        preferred = _for_each(options, "preferred_coscheduled_sm_count", counts, several)
        backfill = _for_each(options, "backfill", counts, several)
        groups = []
        for i, count in enumerate(counts):
            at = f"[{i}]" if several else ""
            group = _Group(
                _as_count(count, f"count{at}"),
                _as_count(together[i], f"coscheduled_sm_count{at}"),
                _as_count(preferred[i], f"preferred_coscheduled_sm_count{at}"),
                as_flag(f"SMResourceOptions.backfill{at}", backfill[i]),
            )
            self._check_group(group, at)
            groups.append(group)
        total = sum(group.size for group in groups)
        if total > self._count:
            raise ValueError(f"count requests {total} multiprocessors in total; there are {self._count}")
        return groups

    def _check_group(self, group: _Group, at: str) -> None:
        if group.size > self._count:
            raise ValueError(f"count{at} is {group.size}; there are {self._count} multiprocessors")
        if group.together % 2:
            raise ValueError(f"coscheduled_sm_count{at} must be even, got {group.together}")
        unit = group.together or self._alignment
        if group.preferred % unit:
            raise ValueError(
                f"preferred_coscheduled_sm_count{at} must be a multiple of the co-scheduled number, {unit}; got "
                f"{group.preferred}"
            )
        unit = 2 if group.backfill else unit
        if group.size % unit and group.size != self._count:  # a group of all multiprocessors is always valid
            low = group.size // unit * unit
            near = " or ".join(str(n) for n in (low, low + unit) if 0 < n <= self._count)
            raise ValueError(
                f"count{at} must be a multiple of {unit}, the number of multiprocessors that are scheduled together; "
                f"got {group.size}: use {near}"
                + ("" if group.backfill else ", or set backfill=True or a coscheduled_sm_count, which need CUDA 13.1")
            )


@public
class WorkqueueResource(Made):
    """The work queues of a device or context: how many streams are expected to use them, and how they are shared.

    :attr:`DeviceResources.workqueue` returns a new object each time. :meth:`configure` changes the object; a context
    that is created with the object afterwards has its settings (:meth:`Device.create_context`). Needs CUDA 13.1.
    """

    __slots__ = ("__weakref__", "_device_id", "_raw")
    _made_by = "Device.resources.workqueue"
    _raw: Any  # cch_resource *
    _device_id: int

    def __repr__(self) -> str:
        settings = f"sharing_scope={str(self.sharing_scope)!r} concurrency_limit={self.concurrency_limit}"
        return f"<WorkqueueResource device={self._device_id} {settings}>"

    @property
    def handle(self) -> int:
        """int: Address of the ``CUdevResource``, valid as long as this object."""
        return int(ffi.cast("uintptr_t", self._raw))

    @property
    def sharing_scope(self) -> WorkqueueSharingScopeType:
        """WorkqueueSharingScopeType: How queues are shared."""
        return _SCOPES[self._raw.fields[2]]

    @property
    def concurrency_limit(self) -> int:
        """int: The expected number of streams that have work at the same time."""
        return int(self._raw.fields[1])

    @property
    def device(self) -> Device:
        """Device: The device of the queues."""
        return _device(self._device_id)

    def configure(self, options: WorkqueueResourceOptions | WorkqueueResourceOptionsDict) -> None:
        """Change the settings; options that are not given do not change.

        Parameters
        ----------
        options : WorkqueueResourceOptions or mapping
            The new settings.
        """
        if options is None:
            raise TypeError("options is required: WorkqueueResourceOptions(...) gives the settings")
        options = as_options(WorkqueueResourceOptions, options)
        options._check()  # check again: the caller may have changed fields after the constructor
        if options.concurrency_limit is not None:
            self._raw.fields[1] = int(options.concurrency_limit)
        if options.sharing_scope is not None:
            self._raw.fields[2] = _SCOPES.index(WorkqueueSharingScopeType(options.sharing_scope))


@public
class DeviceResources(Made):
    """The resources that a device, a context or a stream can use.

    :attr:`Device.resources` has all resources of the device. :attr:`Context.resources` and :attr:`Stream.resources`
    have the resources of the context; a green context has a part of the device's resources.
    """

    __slots__ = ("__weakref__", "_context", "_device_id")
    _made_by = "Device.resources, Context.resources or Stream.resources"
    _device_id: int
    _context: Context | None  # keeps the context alive; None for a whole device

    def __repr__(self) -> str:
        of = "" if self._context is None else f" context={self._context._raw:#x}"
        return f"<DeviceResources device={self._device_id}{of}>"

    def _get(self, kind: int) -> Any:
        out = ffi.new("cch_resource *")
        if self._context is not None:
            check(lib.cch_resource_of_context(out, hold(self._context), kind))
        else:
            check(lib.cch_resource_of_device(out, self._device_id, kind))
        return out

    @property
    def sm(self) -> SMResource:
        """SMResource: The multiprocessors (cuDeviceGetDevResource, cuCtxGetDevResource, cuGreenCtxGetDevResource)."""
        return SMResource._adopt(self._get(lib.CCH_RESOURCE_SM), self._device_id)

    @property
    def workqueue(self) -> WorkqueueResource:
        """WorkqueueResource: Settings of work queues, which can be configured. Needs CUDA 13.1."""
        need_driver(_WITH_GROUPS, "cuDeviceGetDevResource", "That version has a WorkqueueResource")
        return WorkqueueResource._with(_raw=self._get(lib.CCH_RESOURCE_WORKQUEUE), _device_id=self._device_id)


DeviceResourcesType = Sequence[SMResource | WorkqueueResource]


@public
@dataclass
class ContextOptions:
    """Options of a green context.

    Attributes
    ----------
    resources : sequence of SMResource or WorkqueueResource
        The resources for work in the context: multiprocessors (:attr:`DeviceResources.sm`, or groups that one call of
        :meth:`SMResource.split` returned), and at most one :class:`WorkqueueResource`. Without multiprocessors, the
        context has all multiprocessors of the device.
    """

    resources: DeviceResourcesType


def gather(resources: object, device_id: int) -> Any:
    """Return resources for a new context as an array for the library; raise an error for invalid ones."""
    if isinstance(resources, (str, bytes)) or not hasattr(resources, "__iter__"):
        raise TypeError(
            "ContextOptions.resources must be a sequence of SMResource and WorkqueueResource, not "
            f"{type(resources).__name__}"
        )
    found = list(resources)
    if not found:
        raise ValueError("ContextOptions.resources must not be empty: Device.resources has what a context can get")
    for i, resource in enumerate(found):
        name = f"ContextOptions.resources[{i}]"
        if not isinstance(resource, (SMResource, WorkqueueResource)):
            raise TypeError(f"{name} must be an SMResource or a WorkqueueResource, not {type_text(resource)}")
        if resource._device_id != device_id:
            raise ValueError(f"{name} is of device {resource._device_id}, not of device {device_id}")
        if any(resource is other for other in found[:i]):
            raise ValueError(f"{name} is given twice")
        if isinstance(resource, SMResource):
            try:
                resource._usable()
            except ValueError as error:
                raise ValueError(f"{name} cannot be used: {error}") from None
    if sum(isinstance(resource, WorkqueueResource) for resource in found) > 1:
        raise ValueError("ContextOptions.resources has more than one WorkqueueResource; a context has one")
    return ffi.new("cch_resource[]", [resource._raw[0] for resource in found])


def _rules(device_id: int) -> tuple[int, int]:
    """Return the minimum group size and the co-scheduled number (see the manual of cuDevSmResourceSplitByCount)."""
    major = _device(device_id).compute_capability.major
    if major >= 9:
        return 8, 8
    return (4 if major == 8 else 2), 2


def _device(device_id: int) -> Device:
    from cudacore_handles._driver.device import Device

    return Device(device_id)


def _are_even(groups: list[_Group]) -> bool:
    """Return whether all groups have the same size and no special options, as every driver supports."""
    return all(group == groups[0] for group in groups) and groups[0][1:] == (0, 0, False)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _for_each(options: SMResourceOptions, name: str, counts: list[Any], several: bool) -> list[Any]:
    value = getattr(options, name)
    if not _is_sequence(value):
        return [value] * len(counts)
    if not several:
        raise ValueError(f"{name} is a sequence but count is not: count gives the number of groups")
    if len(value) != len(counts):
        raise ValueError(f"{name} has length {len(value)}, expected {len(counts)}, one for each count")
    return list(value)


def _as_count(value: object, name: str) -> int:
    count = 0 if value is None else check_int(name, value)
    if not 0 <= count <= _MAX_UINT32:
        raise ValueError(f"{name} must be >= 0 and < 2**32, got {count}")
    return count
