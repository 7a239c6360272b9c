# SPDX-License-Identifier: Apache-2.0
"""Recorded results of single calls on an H200 with driver 13.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

H200: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "h200.json").read_text())
