# SPDX-License-Identifier: Apache-2.0
"""A differential test of the simulated driver: kernels whose results on a real GPU are recorded beside them.

``kernels/`` has the kernels, each with a line that describes its inputs, outputs and launch (`corpus.catalogue`).
``recordings/`` has the results of a GPU. ``python -m corpus.record`` makes the recordings again, and ``test_corpus.py``
and ``test_libraries.py`` compare any driver with them. All run the same code.
"""
