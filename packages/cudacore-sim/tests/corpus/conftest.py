# SPDX-License-Identifier: Apache-2.0
"""Makes the package ``corpus`` importable, wherever pytest was started."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
