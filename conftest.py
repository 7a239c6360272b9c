# SPDX-License-Identifier: Apache-2.0
"""Loads the plugin that the tests of all packages share: tests/pytest_cudacore.py."""

pytest_plugins = ["pytest_cudacore"]
