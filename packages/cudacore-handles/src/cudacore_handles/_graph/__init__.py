# SPDX-License-Identifier: Apache-2.0
"""What graphs need of this package; the graphs themselves are in cudacore-graph."""
