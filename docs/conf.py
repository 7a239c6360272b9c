# SPDX-License-Identifier: Apache-2.0
"""Settings of the documentation's build: ``nox -s docs``."""

import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import cudacore
import cudacore.graph
import cudacore.system
import cudacore.typing
import cudacore.utils
import cudacore_handles
from cudacore.system import _clocks, _cooling, _events, _links, _values
from cudacore_handles._code.kernel_attributes import KernelAttributes, KernelOccupancy
from cudacore_handles._memory.managed import AccessedBySetProxy
from cudacore_handles._memory.peer_access import PeerAccessibleBySetProxy

# Users get objects of these classes, but do not import them. They are documented beside the public classes.
for returned in (AccessedBySetProxy, KernelAttributes, KernelOccupancy, PeerAccessibleBySetProxy):
    setattr(cudacore_handles, returned.__name__, returned)
for module in (_clocks, _cooling, _events, _links, _values):
    for name, value in vars(module).items():
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_"):
            setattr(cudacore.system, name, value)

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

project = "cudacore"
author = "the cudacore developers"
copyright = author  # noqa: A001  Sphinx's name
release = cudacore.__version__
version = release.rpartition(".")[0]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "cheaders",
]
cheaders_folder = "../packages/cudacore-handles/include/cudacore"
exclude_patterns = ["_build"]

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the NumPy-style docstrings have it
napoleon_google_docstring = False
napoleon_use_rtype = False
add_module_names = False
default_role = "literal"

maximum_signature_line_length = 100

# A missing reference is an error, except for CUDA's and C's own names, for types that docstrings describe in words, and
# for fields of ProgramOptions, which are described as its parameters.
nitpicky = True
nitpick_ignore_regex = [
    ("c:identifier", r"CU\w+|nv\w+|u?int\d+_t|size_t"),
    ("py:class", r"[a-z].*"),
    ("py:attr", r"ProgramOptions\.\w+"),
]

# If the inventories cannot be downloaded, an empty one is used: the build needs no network, and has no links then.
intersphinx_mapping = {
    name: (address, (None, "empty.inv"))
    for name, address in {
        "python": "https://docs.python.org/3",
        "numpy": "https://numpy.org/doc/stable",
        "cuda.bindings": "https://nvidia.github.io/cuda-python/cuda-bindings/latest",
        "cuda.core": "https://nvidia.github.io/cuda-python/cuda-core/latest",
    }.items()
}
intersphinx_timeout = 10  # seconds

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["width.css"]
pygments_dark_style = "github-dark"  # the theme's style underlines imported names, as if they were links
html_title = f"cudacore {version}"
# Only code is copied, and no prompts.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_show_sourcelink = False
html_copy_source = False


def hide_signature(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returns: str | None
) -> tuple[str, None] | None:
    """Show no signature of classes that are not made by calling them."""
    return ("", None) if what == "class" and signature == "(*args, **kwargs)" else None


def add_names_of_the_umbrella(app: Sphinx, env: BuildEnvironment) -> None:
    """Have references, and other projects' documentation, find objects by the names that users import them by."""
    objects = env.domains.python_domain.objects
    for module in (cudacore, cudacore.graph, cudacore.typing, cudacore.utils):
        for full_name, entry in list(objects.items()):
            package, _, inside = full_name.replace(".typing.", ".").partition(".")
            if package.startswith("cudacore_") and inside.partition(".")[0] in module.__all__:
                objects.setdefault(f"{module.__name__}.{inside}", entry._replace(aliased=True))


def setup(app: Sphinx) -> None:
    """Connect what this file adds to the build."""
    app.connect("autodoc-process-signature", hide_signature)
    app.connect("env-check-consistency", add_names_of_the_umbrella)
