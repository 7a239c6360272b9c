# SPDX-License-Identifier: Apache-2.0
"""What a compiler made, as data."""

from __future__ import annotations

from typing import NamedTuple

from cudacore_compile.typing import PCHStatusType


class Result(NamedTuple):
    """Compiled code, with what its compiler told about it."""

    code: bytes
    log: str
    lowered_names: dict[str, str]
    signatures: dict[str, str] | None  # of the kernels; None: the code has them itself, or nothing is known
    pch_status: PCHStatusType | None
