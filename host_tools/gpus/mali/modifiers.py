# SPDX-License-Identifier: BSD-2-Clause
"""Modifiers of Bifrost operations: what the values of fields are called, as Mesa's disassembler writes them.

Sources: Mesa 22.3.6 src/panfrost/bifrost/ISA.xml; what v6 has of its own is named as the like of v7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RESERVED = ".reserved"
# What a field may say -> the text of each of its values.
TEXTS: dict[str, tuple[str, ...]] = {
    "abs": ("", ".abs"),
    "neg": ("", ".neg"),
    "not": ("", ".not"),
    "unless_not": (".not", ""),
    "sat": ("", ".sat"),
    "sqrt": ("", ".sqrt"),
    "keep": ("", ".preserve_null"),
    "word": ("", ".w1"),
    "two_bytes": ("", ".bytes2"),
    "third": ("", ".b2"),
    "divzero": ("", ".divzero"),
    "round": ("", ".rtp", ".rtn", ".rtz"),
    "clamp": ("", ".clamp_0_inf", ".clamp_m1_1", ".clamp_0_1"),
    "nan": ("", ".nan_propagate", ".c", ".inverse_c"),
    "compare": (".eq", ".gt", ".ge", ".ne", ".lt", ".le", ".gtlt", ".total"),
    "above": (".gt", ".ge"),
    "equal": (".eq", ".ne"),
    "true": ("", ".m1"),
    "float_true": ("", ".f1", ".m1", _RESERVED),
    "scale": ("", *(f".clamp_{c}" for c in ("0_inf", "m1_1", "0_1")), ".n", ".rtz.n", ".scale16", ".left"),
    "sum_scale": ("", _RESERVED, ".clamp_0_1", ".n.rtna", ".n", ".n.rtp", ".n.rtn", ".n.rtz"),
    # Two floats: which of them are halves, in one field.
    "first": ("", "", "", ".h0", ".h0", ".h1", ".h0", ".h1"),
    "second": ("", ".h0", ".h1", ".h0", ".h1", ".h1", "", ""),
    "one": ("", "", "", ".h0"),
    "other": ("", ".h0", ".h1", ".h0"),
    "float": (_RESERVED, "", ".h0", ".h1"),
    "half": ("", ".h1"),
    "part": (".h0", ".h1", "", _RESERVED),
    "halves": (".h00", ".h10", "", ".h11"),
    "byte": ("", ".b1", ".b2", ".b3"),
    "shift": tuple(f"shift:{count}" for count in range(8)),
    "segment": (*[_RESERVED] * 2, ".wls", *[_RESERVED] * 4, ".tl"),
    "load": (_RESERVED, "", ".wls", ".stream", ".ubo", _RESERVED, _RESERVED, ".tl"),
    "store": (_RESERVED, "", ".wls", ".stream", ".pos", ".vary", _RESERVED, ".tl"),
    "mux": (".neg", "", ".fp_zero", ".bit"),
    "base": (".base2", ".natural"),
    "other_base": (".natural", ".base2"),
    "precision": (".high", ".low"),
    "power": (".pow", ".powr", ".pown", ".rootn"),
    "exponent": ("", ".small", ".low", _RESERVED),
    "half_lane": (".h0", ".h1"),
    "byte_lane": (".b0", ".b1", ".b2", ".b3"),
    "zero": (".i32.ne", ".i32.eq", ".i16.ne", ".i16.eq", ".i16.ne", ".i16.eq", _RESERVED, _RESERVED),
    "zero_half": ("", ".h1", ".h0", _RESERVED),
    "sign": (".lt", ".le", ".ge", ".gt"),
}
_FIELD = re.compile(r"(?P<where>[0-3+]?)(?P<what>[a-z_]+)@(?P<low>\d+)")


@dataclass(frozen=True)
class Field:
    """A field of an encoding, or a text that all of an operation's encodings have.

    Attributes:
        where: place of the source that it is about, "0" to "3"; "+": it is an operand itself; "": the operation.
        low, texts: its lowest bit and the text of each value.
    """

    where: str
    low: int
    texts: tuple[str, ...]

    def text(self, word: int) -> str:
        """What it says in an encoding."""
        return self.texts[word >> self.low & len(self.texts) - 1]


def field(text: str) -> Field:
    """A field: `1neg@17` is about source 1, is `neg` of TEXTS, begins at bit 17. Or a text itself, as `.rtz`."""
    if text.startswith("."):
        return Field("", 0, (text,))
    found = _FIELD.fullmatch(text)
    assert found, text
    return Field(found["where"], int(found["low"]), TEXTS[found["what"]])
