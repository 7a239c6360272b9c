# SPDX-License-Identifier: Apache-2.0
"""A decorator for functions whose arguments are arrays of any library."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from cudacore_handles import _native
from cudacore_handles._memory.arrays import has_protocol
from cudacore_handles._views.interfaces import no_protocol
from cudacore_handles._views.view import StridedMemoryView


class _StridedMemoryViewProxy:
    """A proxy for an array argument, until the function states which stream will use the array."""

    __slots__ = ("has_dlpack", "obj")

    def __init__(self, obj: object) -> None:
        self.obj = obj
        self.has_dlpack = has_dlpack = has_protocol(obj, "__dlpack__")
        if not (
            has_dlpack or has_protocol(obj, "__cuda_array_interface__") or has_protocol(obj, "__array_interface__")
        ):
            raise no_protocol(obj)

    def view(self, stream_ptr: Any = None) -> StridedMemoryView:
        """Make the view; see :meth:`StridedMemoryView.from_any_interface`."""
        return _native.from_any_interface(StridedMemoryView, self.obj, stream_ptr)


def args_viewable_as_strided_memory(
    arg_indices: tuple[int, ...],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that takes arrays of any library.

    Inside the function, the arguments are proxies: ``argument.view(stream)`` makes the :class:`StridedMemoryView`.

    Parameters
    ----------
    arg_indices : tuple of int
        The indices of the positional arguments that are arrays.

    Raises
    ------
    IndexError
        If the function is called without one of these arguments.

    Examples
    --------
    >>> @core.utils.args_viewable_as_strided_memory((0,))
    ... def shape_of(array, stream):
    ...     return array.view(stream).shape
    >>> shape_of(np.zeros((2, 3)), stream)
    (2, 3)
    """
    try:
        indices = tuple(map(operator.index, arg_indices))
    except TypeError:
        raise TypeError(f"arg_indices must be a tuple of ints, not {arg_indices!r}") from None

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = getattr(function, "__name__", "the function")

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = list(args)
            for index in indices:
                if not -len(given) <= index < len(given):
                    raise IndexError(
                        f"{name}() takes an array as its positional argument {index}, and was given {len(given)}"
                    )
                given[index] = _StridedMemoryViewProxy(given[index])
            return function(*given, **kwargs)

        return call

    return decorate
