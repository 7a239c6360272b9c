# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from cudacore_handles import EventOptions, StreamOptions
from cudacore_handles._options import as_options


@pytest.mark.parametrize(
    "given",
    [StreamOptions(nonblocking=False, priority=-1), {"nonblocking": False, "priority": -1}],
)
def test_objects_and_mappings(given: Any) -> None:
    """Options that a program keeps as a dict would not be taken, or lose a field."""
    assert as_options(StreamOptions, given) == StreamOptions(nonblocking=False, priority=-1)
    if isinstance(given, dict):
        assert as_options(StreamOptions, MappingProxyType(given)) == as_options(StreamOptions, given)
    else:
        assert as_options(StreamOptions, given) is given


@pytest.mark.parametrize("given", [None, {}])
def test_defaults(given: Any) -> None:
    """No options would be other options than the defaults."""
    assert as_options(StreamOptions, given) == StreamOptions()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "^The Stream choice must be provided as an object of type StreamOptions or as a dict .* not as a int$"),
        (EventOptions(), "of type StreamOptions or as a dict of its fields, not as a EventOptions"),
        ({"nope": 1}, "^StreamOptions got an unexpected keyword argument 'nope' in choice; it has nonblocking, prior"),
        ({1: 1}, "StreamOptions got an unexpected keyword argument 1 in choice"),
    ],
)
def test_bad_options(given: Any, message: str) -> None:
    """What is misspelt or meant for something else would be dropped in silence."""
    with pytest.raises(TypeError, match=message):
        as_options(StreamOptions, given, "choice")
