# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests."""

import pytest

import saxpy


@pytest.fixture(scope="session", autouse=True)
def _kernel():
    """Make objects that are kept before the first test, so that they do not look like its leaks."""
    saxpy.kernel()
