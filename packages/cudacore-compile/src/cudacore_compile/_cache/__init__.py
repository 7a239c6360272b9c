# SPDX-License-Identifier: Apache-2.0
"""Program caches: the inputs of a compilation, keys, and storage of entries."""
