# SPDX-License-Identifier: Apache-2.0
"""Settings of the documentation's build: ``nox -s docs``."""

import sys
from pathlib import Path

import cudacore
import cudacore.system
import cudacore.texture
import cudacore_handles
from cudacore.system import _clocks, _cooling, _events, _links, _values
from cudacore_handles._code.kernel_attributes import (
    KernelAttributes,
    KernelOccupancy,
    MaxPotentialBlockSizeOccupancyResult,
)
from cudacore_handles._memory.managed import AccessedBySetProxy
from cudacore_handles._memory.peer_access import PeerAccessibleBySetProxy
from cudacore_handles._memory.pool_attributes import MemPoolAttributes

# Users get objects of these classes, but do not import them. They are documented beside the public classes.
for returned in (
    AccessedBySetProxy,
    KernelAttributes,
    KernelOccupancy,
    MaxPotentialBlockSizeOccupancyResult,
    MemPoolAttributes,
    PeerAccessibleBySetProxy,
):
    setattr(cudacore_handles, returned.__name__, returned)
for module in (_clocks, _cooling, _events, _links, _values):
    for name, value in vars(module).items():
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_"):
            setattr(cudacore.system, name, value)

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "ci")]

project = "cudacore"
author = "the cudacore developers"
copyright = author  # noqa: A001  Sphinx's name
release = cudacore.__version__
version = release.rpartition(".")[0]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "myst_parser",
    "charts",
    "cheaders",
    "cuda_strings",
    "error_messages",
    "python_api",
]
cheaders_folder = "../packages/cudacore-handles/include/cudacore"
exclude_patterns = ["_build", "examples"]

# Classes that python/*.rst list have a page each, with their options: _templates/autosummary/class.rst.
templates_path = ["_templates"]
autosummary_context = {"public_names": {*cudacore.__all__, *cudacore.texture.__all__}}
# Pages of classes that are no longer listed, from an earlier build.
_LISTED = "".join(page.read_text(encoding="utf-8") for page in (HERE / "python").glob("*.rst"))
for _page in (HERE / "python" / "classes").glob("*.rst"):
    if f"   {_page.stem}\n" not in _LISTED:
        _page.unlink()
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "literal"

maximum_signature_line_length = 100

# A missing reference is an error, except for CUDA's and C's own names, for types that docstrings describe in words, and
# for fields of ProgramOptions, which are described as its parameters. Dicts of options are for type checkers only.
nitpicky = True
nitpick_ignore_regex = [
    ("c:identifier", r"CU\w+|nv\w+|u?int\d+_t|size_t|bool"),
    ("py:class", r"[a-z].*"),
    ("py:class", r"T|Key|Value|UUID|SystemDevice|\w+Name|\w+OptionsDict"),
    ("py:attr", r"(cudacore\w*\.)?ProgramOptions\.\w+"),
]

# Without a network, an empty inventory is used, and the pages have no links to other projects.
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
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_search_scorer = str(HERE / "_ext" / "scorer.js")
html_css_files = ["width.css"]
html_js_files = ["labels.js"]
pygments_dark_style = "github-dark"  # the theme's style underlines imported names, as if they were links
html_title = f"cudacore {version}"
# The copy button leaves out prompts.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_show_sourcelink = False
html_copy_source = False

# Pages for contributors, which the search leaves out: their words are those of users' questions.
_NOT_SEARCHED = ("contributing/", "conventions", "simulator/extending")


def _leave_out_of_search(app, doctree):  # type: ignore[no-untyped-def]
    name = app.env.current_document.docname
    if name.startswith(_NOT_SEARCHED):
        app.env.metadata[name]["nosearch"] = True


def setup(app):  # type: ignore[no-untyped-def]
    """Connect the functions of this file to Sphinx."""
    app.connect("doctree-read", _leave_out_of_search)
