# SPDX-License-Identifier: Apache-2.0
"""The version; who imports it has seen that the installed cudacore-handles is one that fits."""

from cudacore_handles._sdk import check_handles

__version__ = "0.1.0"
CUDA_CORE_VERSION = "1.2.2"  # the version whose names and behaviour the umbrella has

check_handles(__package__, __version__)
