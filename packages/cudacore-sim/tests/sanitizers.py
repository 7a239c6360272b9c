# SPDX-License-Identifier: Apache-2.0
"""A mark for tests that cannot run on a simulator that is built with AddressSanitizer."""

from __future__ import annotations

import os

import pytest


def not_under_asan(reason: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test if AddressSanitizer is loaded into Python, as ``nox -s tests_san`` does."""
    return pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason=f"AddressSanitizer {reason}")
