# SPDX-License-Identifier: Apache-2.0
def make_capsule(
    box: int,
    ptr: int,
    size: int,
    device_type: int,
    device_id: int,
    versioned: bool,
    read_only: bool = False,
    copied: bool = False,
) -> object: ...
def read_capsule(capsule: object, /) -> tuple[int, int, int]: ...
