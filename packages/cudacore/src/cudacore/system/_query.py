# SPDX-License-Identifier: Apache-2.0
"""Properties that call one function of NVML."""

from __future__ import annotations

import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from cudacore.system._nvml import call
from cudacore_handles._sdk import Property

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

    class Query(Property[T_co]):
        """A read-only property: ``index: Query[int] = Query(int, "nvmlDeviceGetIndex", "its number")``.

        Parameters
        ----------
        convert : callable
            Returns the value of the property for the result of the function.
        function : str
            The name of the function in NVML.
        meaning : str
            What the value is. The docstring consists of the type, this text, and the name of the function.
        *paths : str
            The attributes that are the arguments of the function. Default: ``"_handle"``.
        """

        def __init__(self, convert: Callable[[Any], T_co], function: str, meaning: str, *paths: str) -> None: ...

else:

    class Query:
        """Makes a property."""

        def __new__(cls, convert, function, meaning, *paths):
            # "nvmlDeviceGetLastBBXFlushTime" is device_get_last_bbx_flush_time() in cuda.bindings.
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", function.removeprefix("nvml"))
            name, getters = words.lower(), [attrgetter(path) for path in paths or ("_handle",)]
            kind = "Tuple of int" if convert is pair_of_int else convert.__name__

            def get(self):
                return convert(call(name, *(argument(self) for argument in getters)))

            get.__name__ = name
            return property(get, doc=f"{kind}: {meaning} ({function}).")

        def __class_getitem__(cls, kind):
            return cls


def pair_of_int(pair: Any) -> tuple[int, int]:
    """Return two results as numbers."""
    first, second = pair
    return int(first), int(second)
