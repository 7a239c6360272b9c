# SPDX-License-Identifier: Apache-2.0
"""The compiler libraries: how they are found and called, their options, and their errors."""
