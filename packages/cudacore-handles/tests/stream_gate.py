# SPDX-License-Identifier: Apache-2.0
"""A host function that blocks a stream."""

from __future__ import annotations

import threading

import cudacore_handles as ch


class Gate:
    """A host function on a stream, which blocks the stream until the gate is opened."""

    def __init__(self, stream: ch.Stream) -> None:
        self._event = threading.Event()
        self.is_passed = False
        stream.callback(self._wait)

    def _wait(self) -> None:
        self._event.wait(30)
        self.is_passed = True

    def open(self) -> None:
        self._event.set()
