# SPDX-License-Identifier: Apache-2.0
"""Arrays, textures and surfaces."""
