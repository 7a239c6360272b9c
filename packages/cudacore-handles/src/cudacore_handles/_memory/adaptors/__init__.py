# SPDX-License-Identifier: Apache-2.0
"""Memory resources that wrap another one, and count, limit, list or log what it allocates."""
