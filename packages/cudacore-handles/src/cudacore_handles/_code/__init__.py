# SPDX-License-Identifier: Apache-2.0
"""Code that is loaded, its kernels, and what can be read in it."""
