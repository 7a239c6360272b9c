# SPDX-License-Identifier: Apache-2.0
"""For the pytest plugin of cudacore-sim: counts driver objects that this package never destroys."""

from cudacore_handles._views.copy_kernel import count_loaded as count_copy_kernels

__all__ = ["count_copy_kernels"]
