# SPDX-License-Identifier: Apache-2.0
"""Build the extension module ``filler``."""

from setuptools import Extension, setup

import cudacore_handles

setup(
    name="filler",
    version="0.1",
    ext_modules=[Extension("filler", ["filler.c"], include_dirs=[cudacore_handles.get_include()])],
)
