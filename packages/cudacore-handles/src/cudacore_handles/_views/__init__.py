# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, and views of memory as arrays."""
