# SPDX-License-Identifier: Apache-2.0
"""Program caches: what a compilation reads, the key that follows from it, and where entries are stored."""
