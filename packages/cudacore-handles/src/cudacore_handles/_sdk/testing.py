# SPDX-License-Identifier: Apache-2.0
"""For the pytest plugin of cudacore-sim: counts driver objects that this package keeps as long as their context."""

from __future__ import annotations

import sys

from cudacore_handles._cffi import lib

__all__ = ["count_copy_kernels", "count_helper_streams"]


def count_copy_kernels() -> int:
    """Count the libraries of copy kernels."""
    module = sys.modules.get("cudacore_handles._views.copy_kernel")
    return 0 if module is None else int(module.count_loaded())


def count_helper_streams() -> int:
    """Count the streams on which memory is freed that was used on several streams."""
    return int(lib.cch_helper_stream_count())


# The functions of the library that only tests call (tools/generate_cffi.py binds those that this package names):
# cch_bundle_add, cch_bundle_create, cch_deviceptr_stream, cch_error_clear, cch_error_last, cch_error_restore,
# cch_event_create, cch_event_wrap, cch_kind_of, cch_reclaim_drain, cch_reclaim_pending, cch_ref, cch_stream_create,
# cch_stream_raw
