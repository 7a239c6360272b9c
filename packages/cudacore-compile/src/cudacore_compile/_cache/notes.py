# SPDX-License-Identifier: Apache-2.0
"""Results of earlier lookups, stored beside the entries of a cache for other processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Notes(NamedTuple):
    """Stores the notes of a cache: bytes, by hash."""

    load: Callable[[bytes], bytes | None]
    save: Callable[[bytes, bytes], None]
