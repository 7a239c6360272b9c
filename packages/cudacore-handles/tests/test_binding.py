# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import cudacore_handles as ch
from cudacore_handles._cffi import ffi, lib


def test_versions() -> None:
    """A library of another version would be accepted instead of the one that the module was built for."""
    major, minor, patch = (int(part) for part in ch.__version__.split("."))
    assert lib.cch_version() == lib.CCH_VERSION == major << 16 | minor << 8 | patch
    assert f".so.{lib.CCH_ABI_VERSION}" in ch.get_library()


def test_public_names() -> None:
    """``__all__`` would list a name that does not exist, or lack a public name."""
    assert sorted(set(ch.__all__)) == sorted(ch.__all__, key=str)
    for name in ch.__all__:
        getattr(ch, name)  # imports names whose import is delayed until first use
    public = {name for name in vars(ch) if not name.startswith("_")}
    modules = {name for name in public if type(vars(ch)[name]).__name__ == "module"} - {"typing"}
    others = {"annotations", "TYPE_CHECKING", "receive_buffer", "receive_virtual_buffer"}  # pickles name the functions
    assert public - modules - others == set(ch.__all__)
    for name in ch.__all__:
        assert getattr(ch, name).__doc__, f"{name} has no docstring"


def test_live_counts_has_every_kind() -> None:
    """``live_counts`` would lack a kind, so that its leaks would not be noticed."""
    assert len(ch.live_counts()) == lib.CCH_KIND_COUNT
    assert {"context", "deviceptr", "nvvm_program"} <= set(ch.live_counts())


def test_numbers_are_not_statuses() -> None:
    """After a failure, a number that equals the failure's code would come as a status, which takes long to make."""
    out = ffi.new("cch_bundle **")
    assert lib.cch_bundle_create(out, 1) == 0
    try:
        lib.cch_error_restore(ffi.new("cch_error *", {"domain": lib.CCH_DOMAIN_DRIVER, "code": lib.CCH_KIND_BUNDLE}))
        kind = lib.cch_kind_of(out[0])
        assert (type(kind), kind) == (int, lib.CCH_KIND_BUNDLE)
        assert lib.cch_is_valid(out[0]) is True
        assert type(lib.cch_bundle_add(out[0], ffi.NULL)).__name__ == "Status"
    finally:
        lib.cch_error_clear()
        lib.cch_unref(out[0])
