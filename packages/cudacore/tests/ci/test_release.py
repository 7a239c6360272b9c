# SPDX-License-Identifier: Apache-2.0
"""Releases: the requirements of a tag, and the text of its page."""

from __future__ import annotations

import fnmatch

import pytest

from release import ROOT, names, notes_of

CHANGELOG = """# Changes

## 0.2.0 - unreleased

Not yet.

## 0.1.0 - 2030-01-31

The first one.

### More

- A line.

## 0.0.1 - 2029-01-31

An old one.
"""


def test_page_of_a_release() -> None:
    """A release's page would have the changes of another version, or only a part of its own changes."""
    assert notes_of("v0.1.0", CHANGELOG, "0.1.0") == "The first one.\n\n### More\n\n- A line.\n"


@pytest.mark.parametrize(
    ("tag", "version", "why"),
    [
        ("v0.2.0", "0.2.0", "says 'unreleased' about 0.2.0: write the date"),
        ("v0.3.0", "0.3.0", "has no section '## 0.3.0 - DATE'"),
        ("v0.1.0", "0.2.0", r"the tag v0\.1\.0 is not v0\.2\.0"),
        ("0.1.0", "0.1.0", r"the tag 0\.1\.0 is not v0\.1\.0"),
    ],
)
def test_tag_that_is_refused(tag: str, version: str, why: str) -> None:
    """An unfinished version would be published, or a version would be published under another version's tag."""
    with pytest.raises(ValueError, match=why):
        notes_of(tag, CHANGELOG, version)


def test_files_of_each_project() -> None:
    """The workflow that publishes a release would upload no files to a project on PyPI, or another project's files."""
    found = names()
    assert sorted(found) == sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
    files = [f"{name.replace('-', '_')}-0.1.0.tar.gz" for name in found]
    for name in found:
        assert len(fnmatch.filter(files, f"{name.replace('-', '_')}-[0-9]*")) == 1
