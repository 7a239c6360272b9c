# SPDX-License-Identifier: Apache-2.0
"""Multiprocessors and how they are split; work queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cudacore_handles as ch
from cudacore_handles import SMResourceOptions, WorkqueueResourceOptions

RunOnSim = Callable[..., str]


@pytest.fixture
def sm(device: ch.Device) -> ch.SMResource:
    return device.resources.sm


def unit(sm: ch.SMResource) -> int:
    """Return a number of multiprocessors that every driver accepts as the size of a group."""
    return max(sm.min_partition_size, sm.coscheduled_alignment)


def test_all_of_a_device(device: ch.Device, other_device: ch.Device) -> None:
    """A device, a context or a stream would report a wrong number of multiprocessors, or that of another device."""
    for owner in (device, other_device):
        count = owner.properties.multiprocessor_count
        stream = owner.create_stream()
        for resources in (owner.resources, owner.context.resources, stream.resources):
            sm = resources.sm
            assert (sm.sm_count, sm.device, sm.flags) == (count, owner, 0)
            assert sm.min_partition_size > 0
            assert sm.coscheduled_alignment > 0
            assert repr(sm) == f"<SMResource device={owner.device_id} sm_count={count}>"
        assert owner.resources is owner.resources
        assert repr(owner.resources) == f"<DeviceResources device={owner.device_id}>"
        assert repr(stream.resources) == f"<DeviceResources device={owner.device_id} context={stream.context._raw:#x}>"
    assert ch.LEGACY_DEFAULT_STREAM.resources.sm.device is device


def test_the_handle_is_the_drivers_resource(sm: ch.SMResource) -> None:
    """`handle` would not be the address of the driver's CUdevResource structure."""
    import ctypes

    kind = ctypes.c_int.from_address(sm.handle)
    count = ctypes.c_uint.from_address(sm.handle + 96)
    assert (kind.value, count.value) == (1, sm.sm_count)  # CU_DEV_RESOURCE_TYPE_SM


def test_split(sm: ch.SMResource) -> None:
    """Groups of multiprocessors would have another size than requested, or the remaining ones would be lost."""
    size = unit(sm)
    (group,), rest = sm.split(SMResourceOptions(count=size))
    assert group.sm_count == size
    assert rest.sm_count == sm.sm_count - size
    groups, rest = sm.split({"count": [2 * size, 2 * size]})
    assert [group.sm_count for group in groups] == [2 * size, 2 * size]
    assert rest.sm_count == sm.sm_count - 4 * size
    assert sm.split(SMResourceOptions(count=[size]))[0][0].device is sm.device
    assert sm.sm_count == sm.device.properties.multiprocessor_count


def test_as_many_as_there_are(sm: ch.SMResource) -> None:
    """A split without a count would not put as many multiprocessors as possible into one group."""
    for count in (None, 0):
        (group,), rest = sm.split(SMResourceOptions(count=count))
        assert group.sm_count == sm.sm_count // sm.coscheduled_alignment * sm.coscheduled_alignment
        assert group.sm_count + rest.sm_count == sm.sm_count
        if rest.sm_count == 0:
            with pytest.raises(ValueError, match="has no multiprocessors: the split left none"):
                rest.split(SMResourceOptions(count=8))


def test_dry_run(sm: ch.SMResource) -> None:
    """A dry run would return other group sizes than a real split, or groups that could be used."""
    options = SMResourceOptions(count=[unit(sm)] * 2)
    groups, rest = sm.split(options, dry_run=True)
    real, real_rest = sm.split(options)
    assert [group.sm_count for group in groups] == [group.sm_count for group in real]
    assert rest.sm_count == real_rest.sm_count
    assert repr(groups[0]).endswith(" dry_run>")
    uses: list[Callable[[], object]] = [
        lambda: groups[0].handle,
        lambda: groups[0].split(options),
        lambda: sm.device.create_context(ch.ContextOptions([groups[0]])),
        lambda: sm.device.create_context(ch.ContextOptions([real[0], rest])),
    ]
    for use in uses:
        with pytest.raises(
            ValueError, match="the SMResource was made by split\\(dry_run=True\\), which only computes sizes"
        ):
            use()


BAD_COUNTS = [
    (-1, ValueError, "count must be >= 0 and < 2\\*\\*32, got -1"),
    (2**32, ValueError, "count must be >= 0 and < 2\\*\\*32, got 4294967296"),
    (100_000_000, ValueError, "count is 100000000; there are [0-9]+ multiprocessors"),
    (
        1,
        ValueError,
        "count must be a multiple of [0-9]+, the number of multiprocessors that are scheduled together; got 1: use ",
    ),
    (8.0, TypeError, "count must be an int, not float"),
    (True, TypeError, "count must be an int, not bool"),
    ("8", TypeError, "count must be an int, not str"),
    ([], ValueError, "count must not be empty"),
    ([8, -8], ValueError, "count\\[1\\] must be >= 0 and < 2\\*\\*32, got -8"),
    ([8, 3], ValueError, "count\\[1\\] must be a multiple of [0-9]+"),
    ([8, "8"], TypeError, "count\\[1\\] must be an int, not str"),
    ([[8]], TypeError, "count\\[0\\] must be an int, not list"),
    ([8] * 1000, ValueError, "count requests 8000 multiprocessors in total; there are [0-9]+"),
]


@pytest.mark.parametrize(("count", "error", "message"), BAD_COUNTS)
def test_counts_that_there_are_not(sm: ch.SMResource, count: Any, error: type[Exception], message: str) -> None:
    """For a count that is not possible, the error would only report an invalid value, or the count would be rounded."""
    with pytest.raises(error, match=message):
        sm.split(SMResourceOptions(count=count))


BAD_OPTIONS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"count": 8, "backfill": 3}, TypeError, "SMResourceOptions.backfill must be True or False, not 3"),
    ({"count": 8, "backfill": [True]}, ValueError, "backfill is a sequence but count is not"),
    ({"count": [8], "backfill": [True, True]}, ValueError, "backfill has length 2, expected 1"),
    ({"count": 8, "coscheduled_sm_count": [8]}, ValueError, "coscheduled_sm_count is a sequence but count is not"),
    ({"count": [8, 8], "coscheduled_sm_count": [8]}, ValueError, "coscheduled_sm_count has length 1, expected 2"),
    ({"count": 8, "coscheduled_sm_count": 3}, ValueError, "coscheduled_sm_count must be even, got 3"),
    ({"count": 8, "coscheduled_sm_count": -2}, ValueError, "coscheduled_sm_count must be >= 0"),
    ({"count": 8, "coscheduled_sm_count": "x"}, TypeError, "coscheduled_sm_count must be an int, not str"),
    (
        {"count": [8], "coscheduled_sm_count": [8], "preferred_coscheduled_sm_count": [12]},
        ValueError,
        "preferred_coscheduled_sm_count\\[0\\] must be a multiple of the co-scheduled number, 8; got 12",
    ),
]


@pytest.mark.parametrize(("fields", "error", "message"), BAD_OPTIONS)
def test_bad_options(sm: ch.SMResource, fields: dict[str, Any], error: type[Exception], message: str) -> None:
    """An invalid option would be ignored, or the error would not name it."""
    for options in (SMResourceOptions(**fields), fields):
        with pytest.raises(error, match=message):
            sm.split(options)


def test_no_options(sm: ch.SMResource) -> None:
    """A call without any request would split the multiprocessors."""
    with pytest.raises(TypeError, match="options is required: SMResourceOptions"):
        sm.split(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="The SMResource options must be provided as an object of type"):
        sm.split(8)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'counts'"):
        sm.split({"counts": 8})
    with pytest.raises(TypeError, match="dry_run must be True or False, not 3"):
        sm.split({"count": 8}, dry_run=3)  # type: ignore[arg-type]


def test_a_group_is_not_split_again(sm: ch.SMResource) -> None:
    """The error for splitting a group again would not say that a context must be made with the group first."""
    size = unit(sm)
    (group,), _ = sm.split(SMResourceOptions(count=4 * size))
    with pytest.raises(ch.CUDAError, match=r"make a context with it, and split its context.resources.sm"):
        group.split(SMResourceOptions(count=size))
    context = sm.device.create_context(ch.ContextOptions([group]))
    halves, rest = context.resources.sm.split(SMResourceOptions(count=[2 * size, 2 * size]))
    assert [half.sm_count for half in halves] == [2 * size, 2 * size]
    assert rest.sm_count == 0


def test_groups_that_differ_need_a_driver(run_on_sim: RunOnSim) -> None:
    """On a driver that cannot split SMs into different groups, the error would not name the required version."""
    run_on_sim("""
        import cudacore_handles as ch
        import pytest

        sm = ch.Device(0).resources.sm
        for fields in ({"count": [8, 16]}, {"count": [8, None]}, {"count": 8, "backfill": True},
                       {"count": 8, "coscheduled_sm_count": 4}, {"count": 8, "preferred_coscheduled_sm_count": 16}):
            with pytest.raises(ch.CUDAError, match="Groups of one size") as caught:
                sm.split(fields)
            needed = "cuDevSmResourceSplit: CCH_ENOSYMBOL (-4): needs a driver for CUDA 13.1 or newer"
            assert needed in str(caught.value), fields
        needed = "a WorkqueueResource needs a driver for CUDA 13.1 or newer; the loaded driver is for CUDA 13.0"
        for resources in (ch.Device(0).resources, ch.Device(0).context.resources):
            with pytest.raises(ch.CUDAError, match=needed):
                resources.workqueue
    """)


def test_a_driver_without_resources(run_on_sim: RunOnSim) -> None:
    """For a driver without resources, the error would not name the required version."""
    run_on_sim(
        """
        import cudacore_handles as ch
        import pytest

        needed = "needs a driver for CUDA 12.4 or newer; the loaded driver is for CUDA 12.3"
        for holder in (ch.Device(0), ch.Device(0).context):
            with pytest.raises(ch.CUDAError, match=needed):
                holder.resources.sm
        """,
        CUDACORE_SIM_DRIVER_VERSION="12.3",
    )


def test_groups_that_differ(run_on_sim: RunOnSim) -> None:
    """Groups of different sizes, as CUDA 13.1 can make them, would differ from the request."""
    run_on_sim(
        """
        import pytest
        import cudacore_handles as ch

        sm = ch.Device(0).resources.sm

        def split(dry_run=False, **fields):
            groups, rest = sm.split(ch.SMResourceOptions(**fields), dry_run=dry_run)
            return [group.sm_count for group in groups], rest.sm_count

        assert split(count=[16, 32]) == ([16, 32], 84)
        assert split(count=[16, None]) == ([16, 112], 4)
        assert split(count=[16, None], backfill=[False, True]) == ([16, 116], 0)
        assert split(count=10, backfill=True) == ([10], 122)
        assert split(count=[10, 8], coscheduled_sm_count=[2, None]) == ([10, 8], 114)
        assert split(count=[16, 32], preferred_coscheduled_sm_count=16) == ([16, 32], 84)
        assert split(count=[128, None], dry_run=True) == ([128, 0], 4)
        groups, rest = sm.split({"count": 10, "coscheduled_sm_count": 2})
        assert (groups[0].coscheduled_alignment, groups[0].min_partition_size) == (2, 2)
        (group,), _ = sm.split({"count": 10, "backfill": True})
        assert group.flags == 1
        (again,), rest = rest.split({"count": 12, "coscheduled_sm_count": 2})
        assert again.sm_count == 12
        with pytest.raises(ch.CUDAError, match="There are too few multiprocessors"):
            sm.split({"count": [128, None]})
        """,
        CUDACORE_SIM_DRIVER_VERSION="13.1",
    )


def test_work_queues(run_on_sim: RunOnSim) -> None:
    """Settings of work queues would be lost or change other objects, or invalid settings would be accepted."""
    run_on_sim(
        """
        import pytest
        import cudacore_handles as ch
        from cudacore_handles.typing import WorkqueueSharingScopeType as Scope

        device = ch.Device(0)
        queues = device.resources.workqueue
        assert (queues.sharing_scope, queues.concurrency_limit, queues.device) == (Scope.DEVICE_CTX, 8, device)
        queues.configure(ch.WorkqueueResourceOptions(concurrency_limit=4))
        assert (queues.sharing_scope, queues.concurrency_limit) == ("device_ctx", 4)
        queues.configure({"sharing_scope": "green_ctx_balanced"})
        assert repr(queues) == (
            "<WorkqueueResource device=0 sharing_scope='green_ctx_balanced' concurrency_limit=4>"
        )
        assert isinstance(queues.handle, int)
        assert device.resources.workqueue.concurrency_limit == 8
        (group,), _ = device.resources.sm.split({"count": 16})
        context = device.create_context({"resources": [group, queues]})
        queues.configure({"concurrency_limit": 2})
        found = context.create_stream().resources.workqueue
        assert (found.sharing_scope, found.concurrency_limit) == (Scope.GREEN_CTX_BALANCED, 4)
        assert context.resources.sm.sm_count == 16
        assert device.create_context({"resources": [queues]}).resources.sm.sm_count == 132
        for resources, text in (
            ([queues, device.resources.workqueue], "more than one WorkqueueResource; a context has one"),
            ([group, queues, queues], r"resources\\[2\\] is given twice"),
            ([group, ch.Device(1).resources.workqueue], r"resources\\[1\\] is of device 1, not of device 0"),
        ):
            with pytest.raises(ValueError, match=text):
                device.create_context({"resources": resources})
        for bad in (None, 3, {"limit": 3}):
            with pytest.raises(TypeError):
                queues.configure(bad)
        options = ch.WorkqueueResourceOptions()
        options.concurrency_limit = -1
        with pytest.raises(ValueError, match="concurrency_limit must be >= 1"):
            queues.configure(options)
        assert queues.concurrency_limit == 2
        """,
        CUDACORE_SIM_DRIVER_VERSION="13.1",
    )


BAD_QUEUES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"concurrency_limit": 0}, ValueError, "concurrency_limit must be >= 1 and < 2\\*\\*32, got 0"),
    ({"concurrency_limit": -1}, ValueError, "concurrency_limit must be >= 1 and < 2\\*\\*32, got -1"),
    ({"concurrency_limit": 2**32}, ValueError, "concurrency_limit must be >= 1 and < 2\\*\\*32"),
    ({"concurrency_limit": 1.5}, TypeError, "concurrency_limit must be an int, not float"),
    ({"concurrency_limit": True}, TypeError, "concurrency_limit must be an int, not bool"),
    (
        {"sharing_scope": "all"},
        ValueError,
        "sharing_scope must not be 'all'; it must be one of 'device_ctx', 'green_ctx_balanced'",
    ),
    ({"sharing_scope": 1}, ValueError, "sharing_scope must not be 1; it must be one of"),
]


@pytest.mark.parametrize(("fields", "error", "message"), BAD_QUEUES)
def test_bad_work_queues(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    """Invalid settings of work queues would be detected only when a context is created."""
    with pytest.raises(error, match=message):
        WorkqueueResourceOptions(**fields)
