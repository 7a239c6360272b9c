# SPDX-License-Identifier: Apache-2.0
"""Where cuda.h is."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path


def include_folder() -> Path | None:
    """Find the folder of cuda.h: of $CUDA_HOME, of NVIDIA's wheel, or where toolkits are usually installed."""
    candidates = []
    if "CUDA_HOME" in os.environ:
        candidates.append(Path(os.environ["CUDA_HOME"], "include"))
    for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"):
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        candidates += [Path(str(file.locate())).parent for file in files if file.name == "cuda.h"]
    candidates.append(Path("/usr/local/cuda/include"))
    return next((folder for folder in candidates if (folder / "cuda.h").is_file()), None)


def why_not(compiler: str | None, include: Path | None) -> str:
    """Say what C sources that include cuda.h lack; an empty string when they lack nothing."""
    if not compiler:
        return "there is no C compiler"
    if not include:
        return "cuda.h was not found: python -m pip install nvidia-cuda-runtime"
    return ""
