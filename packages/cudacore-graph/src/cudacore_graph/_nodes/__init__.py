# SPDX-License-Identifier: Apache-2.0
"""Nodes of graphs: a file for each type, with its class, its executable view, its picture and its hints."""
