# SPDX-License-Identifier: Apache-2.0
"""Launches, and the arguments that they take."""
