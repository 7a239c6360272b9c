# SPDX-License-Identifier: Apache-2.0
"""Buffers, memory resources, and operations on memory."""
