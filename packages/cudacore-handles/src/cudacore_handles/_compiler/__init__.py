# SPDX-License-Identifier: Apache-2.0
"""The tables of the compilers' functions, and the driver's own linker."""
