# SPDX-License-Identifier: Apache-2.0
"""``python -m cudacore_compile`` is the command ``cudacore-compile``."""

from __future__ import annotations

import sys

from cudacore_compile._command import main

if __name__ == "__main__":
    sys.exit(main())
