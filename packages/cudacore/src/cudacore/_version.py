# SPDX-License-Identifier: Apache-2.0
"""The version. Importing this module checks that the installed cudacore-handles is compatible."""

from cudacore_handles._sdk import check_handles

__version__ = "0.1.0"
CUDA_CORE_VERSION = "1.2.2"  # the version of cuda.core that this package is compatible with

check_handles(__package__, __version__)
