# SPDX-License-Identifier: BSD-2-Clause
"""What is proved: the units, and defects that a proof must not survive."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Unit:
    """A C file, proved with the contracts of tests/proof/wp/NAME.c and the annotations of NAME.acsl.

    Attributes:
        source: below tee_replayer.
        gpus: for which targets.
        left_out: functions that are not proved, and why.
        defines: one run each; without any, one run.
    """

    source: str
    gpus: tuple[str, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    defines: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the harness."""
        return self.source.rpartition("/")[2].removesuffix(".c")


@dataclass(frozen=True)
class Defect:
    """A change of a shipped file that must leave a goal of the function unproved."""

    unit: str
    gpu: str
    function: str
    text: str
    instead: str
    define: str = ""


ANY = ("v3d42",)  # nothing in the unit depends on the GPU
UNITS = (
    Unit("core/lz4.c", ANY),
    Unit("core/stream.c", ANY),
    Unit(
        "core/slots.c",
        ("v3d42", "mali_g71"),
        {"gr_slot_info": "copies a text of char as bytes, which WP's memory model does not have; unit tests cover it"},
    ),
)
DEFECTS = (
    Defect("lz4", "v3d42", "gr_lz4_decode", "if (distance - 1 >= out_bytes - left || ", "if ("),
    Defect("lz4", "v3d42", "gr_lz4_decode", "if (length > left)\n            break;", ""),
    Defect("slots", "v3d42", "copy_run", "place < r->image_bytes || ", ""),
    Defect("slots", "v3d42", "copy_run", " || place >= r->carveout_bytes", ""),
)
