# SPDX-License-Identifier: Apache-2.0
"""Views of memory as arrays, and arrays of other libraries."""
