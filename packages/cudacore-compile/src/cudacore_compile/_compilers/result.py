# SPDX-License-Identifier: Apache-2.0
"""The data that a compiler returns."""

from __future__ import annotations

from typing import NamedTuple

from cudacore_compile.typing import PCHStatusType


class Result(NamedTuple):
    """Compiled code, with information from its compiler."""

    code: bytes
    log: str
    lowered_names: dict[str, str]
    signatures: dict[str, str] | None  # the kernels' parameters; None if in the code itself, or unknown
    pch_status: PCHStatusType | None
