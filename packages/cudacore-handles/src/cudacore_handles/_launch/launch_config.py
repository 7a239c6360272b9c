# SPDX-License-Identifier: Apache-2.0
"""The geometry of a launch."""

from __future__ import annotations

from operator import attrgetter
from types import MethodType
from typing import Any, SupportsIndex, overload

from cudacore_handles import _native
from cudacore_handles._base.address import as_integer, check_int
from cudacore_handles._base.names import type_text
from cudacore_handles._base.options import as_flag
from cudacore_handles._base.suggest import known_names
from cudacore_handles.typing import ExtentsType

# Block sizes are not limited here. As in cuda.core, a launch with too many threads fails: programs that try several
# sizes catch the error of the launch.
_BLOCK_LIMITS = (2**31 - 1,) * 3
# Limits that all CUDA devices share.
_GRID_LIMITS = (2**31 - 1, 65535, 65535)


class LaunchConfig(_native.Config):
    """The number of threads of a launch, and its other properties.

    Parameters
    ----------
    grid : int or tuple of int
        Blocks in x, y and z; with `cluster`, clusters. Missing dimensions are 1.
    cluster : int or tuple of int, optional
        Blocks per cluster in x, y and z (compute capability 9.0 and later). Default None: no clusters.
    block : int or tuple of int
        Threads per block in x, y and z. Devices allow at most 1024 in total, and 64 in z. Kernels that need many
        registers allow fewer. Launches with more threads fail.
    shmem_size : int, optional
        Dynamic shared memory per block, in bytes. Default 0. For more than 48 KiB, the kernel's limit is raised
        automatically.
    is_cooperative : bool, optional
        Whether all blocks are resident at once, so that the grid can synchronize. Default False.
    programmatic_stream_serialization : bool, optional
        Whether the kernel may begin before the previous kernel on the stream has ended. Default False. In a graph node,
        this needs a driver for CUDA 12.3.
    priority : int, optional
        The priority of the kernel; lower numbers run first. Default None: the stream's priority.

    Raises
    ------
    TypeError, ValueError
        If an argument has a wrong type, or exceeds the limits of all CUDA devices.

    Examples
    --------
    >>> config = core.LaunchConfig(grid=(4, 2), block=256, shmem_size=1024)
    >>> config.grid, config.block
    ((4, 2, 1), (256, 1, 1))
    """

    __slots__ = ()

    @overload
    def __init__(
        self,
        grid: ExtentsType,
        *,
        block: ExtentsType,
        cluster: ExtentsType | None = None,
        shmem_size: SupportsIndex | None = None,
        is_cooperative: bool = False,
        programmatic_stream_serialization: bool = False,
        priority: SupportsIndex | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        grid: ExtentsType,
        cluster: ExtentsType | None,
        block: ExtentsType,
        shmem_size: SupportsIndex | None = None,
        is_cooperative: bool = False,
        programmatic_stream_serialization: bool = False,
        priority: SupportsIndex | None = None,
    ) -> None: ...
    def __init__(
        self,
        grid: ExtentsType | None = None,
        cluster: ExtentsType | None = None,
        block: ExtentsType | None = None,
        shmem_size: SupportsIndex | None = None,
        is_cooperative: bool = False,
        programmatic_stream_serialization: bool = False,
        priority: SupportsIndex | None = None,
    ) -> None:
        clusters = _dimensions("grid", grid, _GRID_LIMITS)
        if block is None and cluster is not None:
            raise TypeError(
                f"LaunchConfig.block is missing: {cluster!r} became cluster, which comes before it; "
                f"write LaunchConfig(grid={grid!r}, block={cluster!r})"
            )
        threads = _dimensions("block", block, _BLOCK_LIMITS)
        sizes = None if cluster is None else _dimensions("cluster", cluster, _GRID_LIMITS)
        if sizes and any(n * size > limit for n, size, limit in zip(clusters, sizes, _GRID_LIMITS, strict=True)):
            raise ValueError(
                f"LaunchConfig.grid is {grid} clusters of {cluster} blocks: more than {_GRID_LIMITS} blocks"
            )
        bounds = "it must be from 0 to 2**31 - 1 bytes"
        super().__init__(
            clusters,
            sizes,
            threads,
            _number("shmem_size", shmem_size, 0, bounds, "an int, a number of bytes"),
            as_flag("LaunchConfig.is_cooperative", is_cooperative),
            as_flag("LaunchConfig.programmatic_stream_serialization", programmatic_stream_serialization),
            _number("priority", priority, -(2**31), "CUDA's priorities are from about -5 to 0"),
        )

    def __repr__(self) -> str:
        priority = "" if self.priority is None else f", priority={self.priority}"
        return (
            f"LaunchConfig(grid={self.grid}, cluster={self.cluster}, block={self.block}, "
            f"shmem_size={self.shmem_size}, is_cooperative={self.is_cooperative}, "
            f"programmatic_stream_serialization={self.programmatic_stream_serialization}{priority})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return LaunchConfig, _values_of(self)

    @classmethod
    def for_elements(cls, n: SupportsIndex, block: SupportsIndex = 256, **options: Any) -> LaunchConfig:
        """Return the configuration of a kernel with one thread for each of `n` elements.

        The grid is rounded up to whole blocks. So the last block can have threads without an element, and the kernel
        compares its index with `n`.

        Parameters
        ----------
        n : int
            The number of elements, at least 1.
        block : int, optional
            Threads per block. Default 256.
        **options
            Other arguments of the constructor, such as `shmem_size`.

        Raises
        ------
        ValueError
            If `n` or `block` is less than 1.
        """
        count, threads = check_int("n", n), check_int("block", block)
        if count < 1 or threads < 1:
            raise ValueError(f"n and block must be at least 1, not {n} and {block}; for no elements, launch nothing")
        return cls(grid=-(-count // threads), block=threads, **options)


_code = LaunchConfig.__init__.__code__
CONFIG_NAMES = _code.co_varnames[1 : _code.co_argcount]
_values_of = attrgetter(*CONFIG_NAMES)
known_names(LaunchConfig, CONFIG_NAMES)
# LaunchConfig inherits the constructor of the extension module, which calls this one for unusual arguments.
init_config = LaunchConfig.__init__
del LaunchConfig.__init__


_constructor_of = attrgetter("__new__", "__init__")


class _Signature:
    """The signature of the constructor."""

    def __get__(self, obj: object, owner: type) -> Any:
        from inspect import signature

        if obj is not None or _constructor_of(owner) != _constructor_of(LaunchConfig):
            raise AttributeError(f"{owner.__name__!r} has another signature")  # or its instances, which can be callable
        return signature(MethodType(init_config, owner))


LaunchConfig.__signature__ = _Signature()  # type: ignore[attr-defined]


def check_config(config: object) -> LaunchConfig:
    """Return the argument if it is a LaunchConfig; otherwise raise an error."""
    if not isinstance(config, LaunchConfig):
        raise TypeError(
            f"config must be a LaunchConfig, not {type_text(config)}; write LaunchConfig(grid=..., block=...)"
        )
    return config


def _dimensions(name: str, value: object, limits: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return three positive integers; missing ones are 1."""
    expected = f"LaunchConfig.{name} must be an int, or a tuple with up to 3 ints"
    if value is None:
        raise TypeError(f"{expected}, and is missing")
    given = value if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(given) <= 3:
        raise ValueError(f"{expected} (got {len(given)} dimensions)")
    whole = []
    for axis, n, limit in zip("xyz", given, limits, strict=False):
        number = as_integer(n)
        if number is None:
            whole_blocks = (
                "; -(-n // block) rounds up to whole blocks" if name == "grid" and isinstance(n, float) else ""
            )
            raise TypeError(f"{expected} (its {axis} is {n!r}, a {type(n).__name__}){whole_blocks}")
        if not 1 <= number <= limit:
            raise ValueError(f"LaunchConfig.{name} value must be >= 1 and <= {limit} in {axis} (got {number})")
        whole.append(number)
    x, y, z = (*whole, 1, 1)[:3]
    return x, y, z


def _number(name: str, value: object, least: int, rule: str, what: str = "an int") -> int | None:
    """Return an optional number of 32 bits."""
    if value is None:
        return None
    number = check_int(f"LaunchConfig.{name}", value, what)
    if not least <= number < 2**31:
        raise ValueError(f"LaunchConfig.{name} is {number}; {rule}")
    return number
