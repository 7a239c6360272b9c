# SPDX-License-Identifier: Apache-2.0
"""The public names of ``cuda.core``, including members of classes, exist in cudacore."""

from __future__ import annotations

import enum
import functools
import importlib
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from typing import Any

import pytest

from cudacore import CUDA_CORE_VERSION

MODULES = (
    *("", ".checkpoint", ".graph", ".system", ".system.exceptions", ".system.typing", ".texture", ".typing", ".utils"),
)

# Attributes of a class that come from CPython, from Cython, or from the modules that implement the class.
IMPLEMENTATION = re.compile(
    r"__(pyx_\w+|reduce_cython|setstate_cython|reduce|reduce_ex|setstate|getstate|dict|weakref|module|doc|slots|init|new"
    r"|annotations|dataclass_\w+|match_args|abstractmethods|parameters|orig_bases|firstlineno|static_attributes|dealloc"
    r"|init_subclass|subclasshook|class|dir|sizeof|getattribute|setattr|delattr|repr|str|format|hash|eq|ne|lt|le|gt|ge"
    r"|post_init|replace|class_getitem|protocol_attrs|non_callable_proto_members|annotate\w*|type_params|qualname"
    r"|members|new_member|del|text_signature|call|index|copy|deepcopy)__|_\w*"
)

READ = """
import importlib, inspect, json, sys
sys.path[:] = [path for path in sys.path if path]
import cuda.core
found = {}
for name in json.loads(sys.argv[1]):
    module = importlib.import_module("cuda.core" + name)
    names = getattr(module, "__all__", None) or [each for each in dir(module) if not each.startswith("_")]
    if not name:
        names = [*names, "checkpoint", "graph", "system", "texture", "typing", "utils"]
    found[name] = {
        each: dir(value) if inspect.isclass(value := getattr(module, each, None)) else None for each in names
    }
print(json.dumps([cuda.core.__version__, found]))
"""


@functools.cache
def names_of_cuda_core() -> dict[str, dict[str, list[str] | None]]:
    """Return the public names of each module of cuda.core, with the members of classes."""
    pytest.importorskip("cuda.core")
    # cuda.core.system needs NVML, which not every cuda.bindings has.
    has_nvml = importlib.util.find_spec("cuda.bindings.nvml") is not None
    modules = [name for name in MODULES if has_nvml or not name.startswith(".system")]
    command = [sys.executable, "-c", READ, json.dumps(modules)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    version, found = json.loads(result.stdout)
    if version != CUDA_CORE_VERSION:
        pytest.skip(f"cuda.core is of version {version}, and the names are those of {CUDA_CORE_VERSION}")
    return found


def is_public(member: str) -> bool:
    return IMPLEMENTATION.fullmatch(member) is None


def has(cls: type, member: str) -> bool:
    """Return whether objects of a class have a member: an attribute of the class, or a field of a dataclass."""
    if hasattr(cls, member) or (issubclass(cls, enum.Enum) and member in ("name", "value")):
        return True
    return member in getattr(cls, "__dataclass_fields__", ())


def missing_names() -> set[str]:
    """Return the names that ``cuda.core`` has and ``cudacore`` lacks, such as ``"texture.TextureObject"``."""
    missing: set[str] = set()
    for module, names in names_of_cuda_core().items():
        try:
            ours: Any = importlib.import_module(f"cudacore{module}")
        except ImportError:
            missing.add(module[1:])
            continue
        for name, members in names.items():
            path = f"{module[1:]}.{name}".lstrip(".")
            if not hasattr(ours, name):
                missing.add(path)
                continue
            if members is None or not inspect.isclass(getattr(ours, name)):
                continue
            cls = getattr(ours, name)
            missing |= {f"{path}.{member}" for member in members if is_public(member) and not has(cls, member)}
    return missing


def test_all_names_are_here() -> None:
    """A name of ``cuda.core`` would be missing here."""
    assert sorted(missing_names()) == []
