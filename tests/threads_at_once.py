# SPDX-License-Identifier: Apache-2.0
"""Calls in several threads, for tests."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

# Whether this Python has a GIL. Without one, objects are collected, and references counted, at other times.
GIL = getattr(sys, "_is_gil_enabled", lambda: True)()

T = TypeVar("T")
R = TypeVar("R")


def in_threads(function: Callable[[T], R], values: Iterable[T]) -> list[R]:
    """Call a function with each of the values, each in its own thread. All threads begin at the same time.

    Return the results in the order of the values, or raise the first exception after all threads have ended.
    """
    values = list(values)
    start = threading.Barrier(len(values))

    def call(value: T) -> R:
        start.wait()
        return function(value)

    with ThreadPoolExecutor(len(values)) as pool:
        return list(pool.map(call, values))
