# SPDX-License-Identifier: Apache-2.0
"""Shared by all rooms: references to boxes, errors, options, numbers and names."""
