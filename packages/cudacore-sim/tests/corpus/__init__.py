# SPDX-License-Identifier: Apache-2.0
"""A differential test of the simulated driver: kernels whose results on a real GPU are recorded beside them.

``kernels/`` holds the kernels, each with a line that says its inputs, outputs and launch (`corpus.catalogue`), and
``recordings/`` what a GPU made of them. ``python -m corpus.record`` makes the recordings anew, and ``test_corpus.py``
compares whichever driver is loaded with them: both run the same code.
"""
