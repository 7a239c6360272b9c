# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays, textures and surfaces."""
