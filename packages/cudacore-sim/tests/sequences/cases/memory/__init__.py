# SPDX-License-Identifier: Apache-2.0
"""Memory, pools and copies."""
