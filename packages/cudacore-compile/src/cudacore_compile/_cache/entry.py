# SPDX-License-Identifier: Apache-2.0
"""The entry of a program cache for one compilation."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

from cudacore_handles import ObjectCode
from cudacore_handles._sdk import type_text

# An entry is the code, the information about it, and this footer. The code is first, so that tools for cubins can read
# the file.
_FOOTER = struct.Struct("<QQ32s16s")  # lengths of the code and of the information, the SHA-256 of both, a magic number
_MAGIC = b"cudacore-entry-1"


@dataclass(frozen=True)
class Entry:
    """Compiled code, with information that its bytes do not contain."""

    code: bytes
    facts: dict[str, Any]
    """dict: Code type, name, lowered names, signatures and the compiler's log; empty for bytes that a user stored."""

    @classmethod
    def of(cls, value: object, log: str = "") -> Entry:
        """Make an entry from a value that a user stores: an ObjectCode (its file is read if it has one) or bytes."""
        if isinstance(value, ObjectCode):
            facts: dict[str, Any] = {
                "code_type": value.code_type,
                "name": value.name,
                "symbol_mapping": value.symbol_mapping,
                "signatures": value._signatures,
            }
            if log:
                facts["log"] = log
            return cls(value._read(), facts)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return cls(bytes(value), {})
        raise TypeError(f"value must be bytes, a bytearray, a memoryview or an ObjectCode, not {type_text(value)}")

    def pack(self) -> bytes:
        """Return the entry as bytes."""
        facts = json.dumps(self.facts).encode() if self.facts else b""
        digest = hashlib.sha256(self.code)
        digest.update(facts)
        return b"".join([self.code, facts, _FOOTER.pack(len(self.code), len(facts), digest.digest(), _MAGIC)])

    @classmethod
    def unpack(cls, data: bytes) -> Entry | None:
        """Return the entry that was packed; None for other bytes, and for an entry that was changed."""
        at = len(data) - _FOOTER.size
        if at < 0:
            return None
        code_size, facts_size, digest, magic = _FOOTER.unpack_from(data, at)
        if magic != _MAGIC or code_size + facts_size != at:
            return None
        if hashlib.sha256(memoryview(data)[:at]).digest() != digest:
            return None
        return cls(data[:code_size], json.loads(data[code_size:at]) if facts_size else {})

    def object_code(self, name: str | None) -> ObjectCode:
        """Return the code of a compilation as an ObjectCode with a name."""
        mapping, signatures = self.facts["symbol_mapping"], self.facts["signatures"]
        name = name or "default_program"
        return ObjectCode._init(
            self.code, self.facts["code_type"], name=name, symbol_mapping=mapping, signatures=signatures
        )

    @property
    def log(self) -> str:
        """str: The compiler's log."""
        return str(self.facts.get("log", ""))
