# SPDX-License-Identifier: Apache-2.0
"""Loaded code, its kernels, and the information in compiled code."""
