# SPDX-License-Identifier: Apache-2.0
"""Libraries, functions and launches."""
