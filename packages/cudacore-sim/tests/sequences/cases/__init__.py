# SPDX-License-Identifier: Apache-2.0
"""The sequences: one module for each part of the driver. Importing the package registers them all."""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
