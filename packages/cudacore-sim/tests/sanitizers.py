# SPDX-License-Identifier: Apache-2.0
"""Tests that cannot run on a simulator that is built with AddressSanitizer."""

from __future__ import annotations

import os

import pytest


def not_under_asan(reason: str) -> pytest.MarkDecorator:
    """Return the mark that skips a test under AddressSanitizer, which ``nox -s tests_san`` loads into Python."""
    return pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason=f"AddressSanitizer {reason}")
