# SPDX-License-Identifier: Apache-2.0
"""Buffers, the resources that they come from, and what is done with memory."""
