# SPDX-License-Identifier: Apache-2.0
"""Calls of the driver through ``cuda.bindings``, as other libraries make them."""

from __future__ import annotations

from typing import Any

from cudacore_handles._sdk import bindings, driver_error


def call_bindings(function: str, *args: object) -> Any:
    """Call a function of ``cuda.bindings.driver``; return its value or values, or raise the error for its code."""
    code, *values = getattr(bindings(), function)(*args)
    if code:
        raise driver_error(function, int(code))
    return values[0] if len(values) == 1 else tuple(values)
