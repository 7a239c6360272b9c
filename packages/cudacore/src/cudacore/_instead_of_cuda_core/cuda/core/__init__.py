# SPDX-License-Identifier: Apache-2.0
"""The package ``cuda.core`` if this folder's parent is first on the path; see `cudacore.as_cuda_core`."""

import cudacore.as_cuda_core

cudacore.as_cuda_core._replace(__name__)
