# SPDX-License-Identifier: Apache-2.0
"""The check of closed objects that the tests of each class share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import cudacore_handles as ch


def check_closing(face: Any, uses: Sequence[Callable[[], object]], shown: str = "") -> None:
    """Close an object twice; check its state, and that each use then fails with an error that names the class."""
    name = type(face).__name__
    assert not face.is_closed
    face.close()
    face.close()
    assert face.is_closed
    assert face == face  # noqa: PLR0124
    assert repr(face) == (shown or f"<{name} closed>")
    for use in uses:
        with pytest.raises(ch.ClosedError, match=f"{name} has been closed; make a new one"):
            use()
