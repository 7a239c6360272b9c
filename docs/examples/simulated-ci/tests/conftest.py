# SPDX-License-Identifier: Apache-2.0
"""What all tests share."""

import pytest

import saxpy


@pytest.fixture(scope="session", autouse=True)
def _kernel():
    """Have what is kept for good made before the first test, which would seem to leak it."""
    saxpy.kernel()
