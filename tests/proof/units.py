# SPDX-License-Identifier: BSD-2-Clause
"""What is proved: the units, and defects that a proof must not survive."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Unit:
    """A C file. WP proves it with the contracts of wp/NAME.c and the annotations of wp/NAME.acsl, function by
    function; Eva runs eva/NAME.c, which calls its functions with unknown values.

    Attributes:
        source: below tee_replayer.
        gpus: for which targets.
        tool: wp or eva.
        left_out: functions that WP does not prove, and why.
    """

    source: str
    gpus: tuple[str, ...]
    tool: str = "wp"
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the harness."""
        return self.source.rpartition("/")[2].removesuffix(".c")


@dataclass(frozen=True)
class Defect:
    """A change of a shipped file that must leave a goal of the function unproved, or raise an alarm."""

    unit: str
    gpu: str
    function: str
    text: str
    instead: str


BOTH = ("v3d42", "mali_g71")
ANY = ("v3d42",)  # nothing in the unit depends on the GPU
UNITS = (
    Unit("core/lz4.c", ANY),
    Unit("core/stream.c", ANY),
    Unit("core/envelope.c", ANY),
    Unit(
        "core/load.c",
        ANY,
        left_out=dict.fromkeys(("fresh32", "fresh64", "differences"), "casts of bytes to volatile words")
        | dict.fromkeys(
            ("take_section", "check_manifest", "load_body", "check_actions", "load", "gr_load"),
            "the sections' places are an invariant of memory's contents: see docs/adr/0014-proof.md",
        )
        | dict.fromkeys(
            ("gr_wipe", "gr_unload"), "structures cleared as bytes, which WP's memory model does not have"
        ),
    ),
    Unit(
        "core/slots.c",
        BOTH,
        left_out={
            "gr_slot_info": "copies a text of char as bytes, which WP's memory model does not have",
            "gr_bind": "keeps the caller's pointer; nothing is read or written through it",
        },
    ),
    Unit("core/check.c", BOTH, tool="eva"),
    Unit("core/run.c", BOTH),
    Unit(
        "drivers/v3d42.c",
        ("v3d42",),
        left_out={"table": "a cast of bytes to words, which WP's memory model lacks"},
    ),
    Unit(
        "drivers/mali_g71.c",
        ("mali_g71",),
        left_out={"table_at": "a cast of bytes to words, which WP's memory model lacks"},
    ),
)
DEFECTS = (
    Defect("lz4", "v3d42", "gr_lz4_decode", "distance - 1 >= out_bytes - left || ", ""),
    Defect("lz4", "v3d42", "gr_lz4_decode", "        if (length > left)\n            break;\n", ""),
    Defect("envelope", "v3d42", "copy_head", "gr_take_memory(l, BEFORE_HEAD_BYTES + ", "gr_take_memory(l, "),
    Defect("envelope", "v3d42", "copy_head", "l->head_bytes > GR_MAX_HEAD_BYTES || ", ""),
    Defect(
        "load",
        "v3d42",
        "gr_take_memory",
        "bytes > (uint64_t)(l->r->high - l->r->memory.base)",
        "bytes > l->r->memory.bytes",
    ),
    Defect(
        "load",
        "v3d42",
        "check_sections",
        "at > (i < HEAD_SECTIONS ? l->head_bytes : l->trace_bytes)",
        "at > l->trace_bytes",
    ),
    Defect("slots", "v3d42", "copy_run", "place < r->image_end || ", ""),
    Defect("slots", "v3d42", "copy_run", " || place >= r->carveout_bytes", ""),
    Defect("check", "v3d42", "gr_fetch_action", "AT(op) >= sizeof needs / sizeof needs[0] || ", ""),
    Defect("check", "v3d42", "gr_fetch_action", "if (!row ||\n            (need", "if ((need"),
    Defect("run", "v3d42", "write_register", "kept = (value & again->bits) | again->always", "kept = value"),
    Defect(
        "run",
        "v3d42",
        "execute",
        "return write_register(r, a->arg, a->value, a->a);",
        "gr_port_write32(offset, a->value); break;",
    ),
    Defect(
        "v3d42",
        "v3d42",
        "gr_driver_translate",
        "va < r->va_bytes ? table(r)[va >> PAGE_SHIFT] : 0",
        "table(r)[va >> PAGE_SHIFT]",
    ),
    Defect(
        "mali_g71",
        "mali_g71",
        "gr_driver_reset",
        "at < GR_ADDRESS_SPACES * SPACE_BYTES",
        "at <= GR_ADDRESS_SPACES * SPACE_BYTES",
    ),
    Defect(
        "mali_g71",
        "mali_g71",
        "table_of",
        "number < r->tables ? table_at(r, number) : NULL",
        "table_at(r, number)",
    ),
    Defect(
        "mali_g71",
        "mali_g71",
        "table_below",
        "r->tables >= (r->low_bytes - r->carveout_bytes) / GR_PAGE_BYTES",
        "r->tables > (r->low_bytes - r->carveout_bytes) / GR_PAGE_BYTES",
    ),
    Defect("mali_g71", "mali_g71", "set_pages", "left < ENTRIES - first ? left : ENTRIES - first", "left"),
)
