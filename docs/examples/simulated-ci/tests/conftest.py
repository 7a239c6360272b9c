# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests."""

import pytest

import saxpy


@pytest.fixture(scope="session", autouse=True)
def _kernel():
    """Make the objects that are kept forever before the first test begins, so that they do not count as its leaks."""
    saxpy.kernel()
