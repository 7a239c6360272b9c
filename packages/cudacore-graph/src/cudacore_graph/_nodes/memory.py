# SPDX-License-Identifier: Apache-2.0
"""The common part of nodes that use memory."""

from __future__ import annotations


def check_owner(name: str, memory: object, owner: object) -> None:
    """Raise an error if an owner is given without its address."""
    if memory is None and owner is not None:
        raise ValueError(f"{name}_owner comes with {name}: it keeps an address alive")
