# SPDX-License-Identifier: Apache-2.0
"""Check that Meson refuses to set up a build for a Python without a GIL, and sets up builds for a Python with a GIL.

usage: check_free_threaded.py PACKAGE
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

REFUSAL = "cudacore-handles is not made for free-threaded CPython yet"
# The text of a sitecustomize module, which Python imports at startup. The module sets the variable that Meson reads.
DISABLED = "import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = {}"


def refused(package: str, disabled: int, *options: str) -> bool:
    """Return whether Meson refuses the interpreter. Any other failure is an error."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(DISABLED.format(disabled))
        command = ["meson", "setup", str(Path(folder, "build")), package, "-Dcudart_include=/none", *options]
        environment = os.environ | {"PYTHONPATH": folder}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        told = done.stdout + done.stderr
        assert done.returncode == 0 or REFUSAL in told, told
        return done.returncode != 0


package = sys.argv[1]
assert refused(package, 1)
assert not refused(package, 1, "-Dpython=false")  # the C library alone does not need the GIL
assert not refused(package, 0)
