# SPDX-License-Identifier: Apache-2.0
"""Sphinx extension: sources of kernels inside Python strings are highlighted as CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pygments.lexers.c_like import CudaLexer
from pygments.lexers.python import PythonLexer
from pygments.token import String
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

STRING = re.compile(r'("""|\'\'\')(.*?)\1', re.DOTALL)
CUDA = re.compile(r"__(global|device)__")


class PythonWithKernels(PythonLexer):
    """Python, whose long strings with a function for the device are CUDA."""

    def get_tokens_unprocessed(self, text: str, stack: Any = ("root",)) -> Iterator[tuple[int, Any, str]]:
        """Yield the tokens with their places."""
        begin = 0
        for found in STRING.finditer(text):
            if CUDA.search(found[2]) and "import " not in found[2]:  # not a program in a string
                parts = ((begin, found.start(), super()), (*found.span(2), CudaLexer()))
                for first, end, lexer in parts:
                    for index, kind, value in lexer.get_tokens_unprocessed(text[first:end]):
                        yield first + index, kind, value
                    yield end, String.Double, found[1]
                begin = found.end()
        for index, kind, value in super().get_tokens_unprocessed(text[begin:], stack):
            yield begin + index, kind, value


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the extension to the build."""
    app.add_lexer("python", PythonWithKernels)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
