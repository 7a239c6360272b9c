# SPDX-License-Identifier: Apache-2.0
"""Makes these tests a package of their own, wherever pytest is started."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
