# SPDX-License-Identifier: Apache-2.0
"""What nodes that use memory have in common."""

from __future__ import annotations


def check_owner(name: str, memory: object, owner: object) -> None:
    """Refuse an owner that comes without its address."""
    if memory is None and owner is not None:
        raise ValueError(f"{name}_owner comes with {name}: it keeps an address alive")
