# SPDX-License-Identifier: Apache-2.0
"""Print the folder that holds ``cuda.h`` of the ``nvidia-cuda-runtime`` wheel in this environment.

Each compiled package has a copy of this file, because its source distribution must not depend on others; the copies are
equal.
"""

import sys
from importlib.metadata import PackageNotFoundError, files

for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"):
    try:
        found = [f for f in files(name) or [] if f.name == "cuda.h"]
    except PackageNotFoundError:
        continue
    if found:
        sys.stdout.write(f"{found[0].locate().parent}\n")
        break
else:
    raise SystemExit("cuda.h not found: install the wheel nvidia-cuda-runtime, or set the option cudart_include")
