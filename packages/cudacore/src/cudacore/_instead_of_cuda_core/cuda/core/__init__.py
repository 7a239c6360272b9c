# SPDX-License-Identifier: Apache-2.0
"""Replaces the package ``cuda.core`` if ``_instead_of_cuda_core`` is first on the path: see `cudacore.as_cuda_core`."""

import cudacore.as_cuda_core

cudacore.as_cuda_core._replace(__name__)
