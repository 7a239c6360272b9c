# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests."""

import pytest

import saxpy


@pytest.fixture(scope="session", autouse=True)
def _kernel():
    """Make the kernel, which is kept, before the first test, so that the test does not appear to leak objects."""
    saxpy.kernel()
