# SPDX-License-Identifier: BSD-2-Clause
"""What is proved: the units, and defects that a proof must not survive. Each unit is proved as each profile's
replayer has it (tee_replayer/profiles.toml).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Unit:
    """A C file. WP proves it with the contracts of wp/NAME.c and the annotations of wp/NAME.acsl, function by
    function; Eva runs eva/NAME.c, which calls its functions with unknown values.

    Attributes:
        source: below tee_replayer.
        gpus: for which targets.
        tool: wp or eva.
        macros: of a machine, with their values.
        left_out: functions that WP does not prove, and why; also of other variants.
        model: WP's memory model.
        harness: its name, if it is not the source's.
        slevel: how many states Eva keeps apart at a statement.
        unroll: of how many rounds a loop may be that Eva goes through one by one; 0: what its precision says.
        variant: what tells units with one harness apart.
        not_with: features, and why WP does not prove the unit in a profile that has them.
        only_with: features without which another unit proves the file.
        only: the functions that an Eva harness is about; () for all.
        inlined: functions that Eva analyses as part of those that call them, so that it relates what they leave.
    """

    source: str
    gpus: tuple[str, ...]
    tool: str = "wp"
    macros: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    model: str = "Typed"
    harness: str = ""
    variant: str = ""
    slevel: int = 2000
    unroll: int = 0
    only: tuple[str, ...] = ()
    inlined: tuple[str, ...] = ()
    not_with: dict[str, str] = field(default_factory=dict)
    only_with: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        """Of the harness and the annotations."""
        return self.harness or self.source.rpartition("/")[2].removesuffix(".c")

    @property
    def name(self) -> str:
        """Of the unit."""
        return f"{self.stem}-{self.variant}" if self.variant else self.stem


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
NEON = {"__aarch64__": 1, "__ARM_NEON": 1}
NO_CASTS = {"table": "a cast of bytes to words, which WP's memory model lacks"}
OF_ONE = {"networks": "its contracts are of the only network's state: see docs/adr/0014-proof.md"}
OF_LOAD = dict.fromkeys(
    ("fresh32", "fresh64", "differences", "gr_unload"),
    "memory as bytes and as words, which WP's memory model does not have: see the unit unload",
) | dict.fromkeys(
    ("take_slots", "check_manifest", "load_body", "load", "gr_load"),
    "the solver does not finish: see docs/adr/0014-proof.md",
)
UNITS = (
    Unit("core/lz4.c", ANY),
    Unit("core/stream.c", ANY),
    Unit("features/trust/cose.c", ANY),
    Unit("core/known.c", ANY),
    Unit("core/envelope.c", ANY),
    Unit("core/one_key.c", ANY),
    Unit(
        "core/memory.c",
        ANY,
        model="Typed+cast",
        left_out={
            "gr_wipe": "memory as bytes and as words, which WP's memory model does not have: see the unit unload"
        },
    ),
    Unit("core/load.c", ANY, model="Typed+cast", left_out=OF_LOAD, not_with=OF_ONE),
    Unit(
        "core/load.c",
        ANY,
        model="Typed+cast",
        variant="joint",
        left_out=OF_LOAD | dict.fromkeys(("check_network", "check_actions"), OF_ONE["networks"]),
        only_with=("networks",),
    ),
    Unit(
        "core/load.c",
        ANY,
        tool="eva",
        harness="unload",
        only=("fresh32", "fresh64", "differences", "gr_unload"),
    ),
    Unit(
        "core/slots.c",
        BOTH,
        left_out=dict.fromkeys(
            ("gr_slot_info", "gr_bind"), "other types than bytes, and the caller's pointer: see the unit bind"
        ),
    ),
    Unit("core/slots.c", ANY, tool="eva", harness="bind", only=("gr_slot_info", "gr_bind")),
    Unit("core/check.c", BOTH, tool="eva"),
    Unit("features/evidence/log.c", ANY, tool="eva"),
    Unit("features/evidence/attest.c", ANY, tool="eva"),
    Unit("features/store/store.c", ANY, tool="eva", slevel=10, unroll=1),
    Unit("features/operators/products.c", ANY, tool="eva"),
    Unit("features/operators/products.c", ANY, tool="eva", variant="neon", macros=NEON),
    Unit("features/networks/networks.c", ANY, tool="eva", slevel=20),
    Unit(
        "features/networks/reach.c",
        ANY,
        tool="eva",
        left_out=dict.fromkeys(
            ("is_outside", "gr_strays", "gr_is_foreign", "gr_have_owners"),
            "of traces that are joint and streamed, which no profile has",
        ),
    ),
    Unit("features/schedule/schedule.c", ANY, tool="eva"),
    Unit(
        "features/operators/operate.c",
        ANY,
        tool="eva",
        slevel=200,
        inlined=("element", "elements_from"),
    ),
    Unit("features/trust/policy.c", ANY, tool="eva", slevel=5),
    Unit("features/trust/trust.c", ANY, tool="eva", slevel=30),
    Unit("features/encryption/encryption.c", ANY, tool="eva"),
    Unit("features/streaming/streaming.c", ANY, tool="eva", slevel=100),
    Unit("core/run.c", BOTH, not_with=OF_ONE),
    Unit("core/attempts.c", ANY, not_with=OF_ONE),
    Unit("core/attempts.c", ANY, tool="eva", variant="joint", slevel=20, only_with=("networks",)),
    Unit("features/steps/steps.c", ANY, tool="eva", slevel=20),
    Unit("drivers/v3d42.c", ("v3d42",), left_out=NO_CASTS),
    Unit(
        "drivers/mali_g71.c",
        ("mali_g71",),
        left_out={"table_at": "a cast of bytes to words, which WP's memory model lacks"}
        | dict.fromkeys(
            ("gr_driver_switch", "gr_driver_begins_job", "gr_driver_can_switch"),
            "of joint traces, steps and the queue: they write nothing",
        ),
    ),
)
DEFECTS = (
    Defect("lz4", "v3d42", "gr_lz4_decode", "distance - 1 >= out_bytes - left || ", ""),
    Defect("lz4", "v3d42", "gr_lz4_decode", "        if (length > left)\n            break;\n", ""),
    Defect("envelope", "v3d42", "copy_head", "gr_take_memory(l, BEFORE_HEAD_BYTES + ", "gr_take_memory(l, "),
    Defect("envelope", "v3d42", "copy_head", "l->head_bytes > GR_MAX_HEAD_BYTES || ", ""),
    Defect("one_key", "v3d42", "check_signature", "-= PROTECTED_BYTES", "-= 2 * PROTECTED_BYTES"),
    Defect(
        "memory",
        "v3d42",
        "gr_take_memory",
        "bytes > (uint64_t)(l->r->high - l->r->memory.base)",
        "bytes > l->r->memory.bytes",
    ),
    Defect(
        "load",
        "v3d42",
        "check_sections",
        "at > (i < SECTIONS_IN_HEAD(l) ? l->head_bytes : l->trace_bytes)",
        "at > l->trace_bytes",
    ),
    Defect("load", "v3d42", "check_sections", "raw > (uint64_t)1 << 32 ||", ""),
    Defect(
        "load",
        "v3d42",
        "check_sections",
        "codec == GR_CODEC_STORED ? raw != stored",
        "codec == GR_CODEC_STORED ? 0",
    ),
    Defect(
        "load",
        "v3d42",
        "take_section",
        "gr_lz4_decode(s, out, section_bytes(l, index))",
        "gr_lz4_decode(s, out, stored_bytes(l, index))",
    ),
    Defect("load", "v3d42", "check_actions", "low_bytes > (uint64_t)(r->high - r->memory.base) ||", ""),
    Defect(
        "unload",
        "v3d42",
        "gr_unload",
        "gr_wipe(r->high, (uint64_t)(r->memory.base + r->memory.bytes - r->high))",
        "gr_wipe(r->high, r->memory.bytes)",
    ),
    Defect("bind", "v3d42", "gr_slot_info", "index >= gr_slot_count(r)", "index > gr_slot_count(r)"),
    Defect("bind", "v3d42", "gr_bind", "index >= r->slot_count || ", ""),
    Defect("log", "v3d42", "gr_log_derive", "text[GR_INFO_MAX + 1]", "text[14]"),
    Defect("log", "v3d42", "gr_log_append", "    memset(&e, 0, sizeof e);\n", ""),
    Defect(
        "attest", "v3d42", "put_claims", "put_bytes(w, ueid, 1 + ID_BYTES)", "put_bytes(w, ueid, 2 + ID_BYTES)"
    ),
    Defect("attest", "v3d42", "gr_attest", "nonce_bytes - GR_NONCE_MIN > GR_NONCE_MAX - GR_NONCE_MIN || ", ""),
    Defect("encryption", "v3d42", "is_message", "bytes < MESSAGE_BYTES || ", ""),
    Defect("encryption", "v3d42", "is_message", " || bytes != MESSAGE_BYTES + (uint64_t)*count * ROW_BYTES", ""),
    Defect(
        "encryption",
        "v3d42",
        "gr_decrypt",
        "(bytes + CIPHER_BLOCK_BYTES - 1)",
        "(bytes + 2 * CIPHER_BLOCK_BYTES - 1)",
    ),
    Defect("streaming", "v3d42", "is_piece", "offset > l->pieces_bytes ||\n        ", ""),
    Defect("streaming", "v3d42", "is_piece", "end_of(r, index) > r->carveout_bytes || ", ""),
    Defect("streaming", "v3d42", "gr_take_pieces", " || bytes / GR_PIECE_BYTES - 1 >= GR_MAX_PIECES", ""),
    Defect(
        "streaming", "v3d42", "fetch", "r->memory.base + begin_of(r, index)", "r->memory.base + end_of(r, index)"
    ),
    Defect("operate", "v3d42", "gr_check_operator", "first + count > GR_END_SLOT(r)", "first > GR_END_SLOT(r)"),
    Defect(
        "operate",
        "v3d42",
        "element",
        "(to_write || !gr_reaches(r, offset, offset + 1))",
        "!gr_reaches(r, offset, offset + 1)",
    ),
    Defect("operate", "v3d42", "element", "offset >= GR_WORK_END(r) ||\n        (offset", "(offset"),
    Defect(
        "operate",
        "v3d42",
        "element",
        "    if (to_write && !o->is_written)\n        return failed(w, GR_STATUS_RANGE);\n",
        "",
    ),
    Defect(
        "operate",
        "v3d42",
        "element",
        "operand >= w->count)\n        return failed(w, GR_STATUS_RANGE);\n    struct",
        "0)\n        return failed(w, GR_STATUS_RANGE);\n    struct",
    ),
    Defect("operate", "v3d42", "may_access", "end <= GR_WORK_END(r)", "first <= GR_WORK_END(r)"),
    Defect("operate", "v3d42", "elements_from", "    if (*most > in_page)\n        *most = in_page;\n", ""),
    Defect("operate", "v3d42", "gr_operator_copy", "        if (between < n * bytes)\n            n = 1;\n", ""),
    Defect("operate", "v3d42", "gr_operate", "!op || a->a > GR_MAX_OPERANDS", "!op"),
    Defect("policy", "v3d42", "gr_trust_is_valid", "bytes < sizeof *p || ", ""),
    Defect("trust", "v3d42", "judge", "m.payload_bytes > GR_MAX_TRUST_BYTES", "0"),
    Defect("trust", "v3d42", "judge", "manifest_at + GR_MANIFEST_BYTES > l->head_bytes", "0"),
    Defect(
        "products", "v3d42", "stop", "end - from > GR_ROUNDS_A_LOOK ? from + GR_ROUNDS_A_LOOK : end", "end + 1"
    ),
    Defect("products", "v3d42", "band_of", "p->rows - row > i ? row + i : p->rows - 1", "row + i"),
    Defect("products", "v3d42", "some", "i < count && i < GR_LANES", "i < GR_LANES"),
    Defect("products-neon", "v3d42", "tile", "i < TILE && p->rows - row > i; i++, to", "i < TILE; i++, to"),
    Defect("products-neon", "v3d42", "gr_operator_conv1x1", "(p.from_step | p.to_step)", "p.to_step"),
    Defect("products-neon", "v3d42", "gr_operator_conv1x1", " && p.columns >= GR_LANES", ""),
    Defect(
        "products-neon",
        "v3d42",
        "packed_tiles",
        "p->columns - column >= GR_LANES ? column : p->columns - GR_LANES",
        "column",
    ),
    Defect("networks", "v3d42", "gr_take_networks", "count < 2 || count > GR_NETWORKS", "count < 2"),
    Defect("networks", "v3d42", "gr_network_info", "index >= gr_network_count(r)", "index > gr_network_count(r)"),
    Defect("reach", "v3d42", "gr_shows", "end > GR_READ_ONLY_END(r)", "end > r->image_end + GR_PAGE_BYTES"),
    Defect(
        "reach",
        "v3d42",
        "gr_has_owners",
        "page < GR_READ_ONLY_END(r) / GR_PAGE_BYTES; ",
        "page <= GR_READ_ONLY_END(r) / GR_PAGE_BYTES; ",
    ),
    Defect("schedule", "v3d42", "place", "at = i + 1", "at = i + 2"),
    Defect("schedule", "v3d42", "put_back", "to + 1 < queue->length && ", ""),
    Defect("schedule", "v3d42", "gr_submit", " || count > r->slot_count", ""),
    Defect("schedule", "v3d42", "gr_submit", " || b->slot >= own->end_slot", ""),
    Defect("schedule", "v3d42", "gr_submit", "queue->length >= GR_REQUESTS", "queue->length > GR_REQUESTS"),
    Defect("schedule", "v3d42", "gr_schedule_step", "    if (!gr_requests(r))\n        return 0;\n", ""),
    Defect("networks", "v3d42", "gr_progress_of", "i + 1 < r->network_count && ", ""),
    Defect(
        "attempts",
        "v3d42",
        "gr_run",
        "    if (bound != GR_STATUS_OK)\n        return r->report.status = bound;\n",
        "",
    ),
    Defect("steps", "v3d42", "gr_goes_away", "gr_resumes(r, network)", "gr_resumes(r, network + 1)"),
    Defect("steps", "v3d42", "gr_yield", "    gr_leave(r, UINT32_MAX);\n", ""),
    Defect("store", "v3d42", "append", "b->used < GR_STORE_PAIRS", "b->used <= GR_STORE_PAIRS"),
    Defect("store", "v3d42", "read_pair", "2 * pair + 1, &second", "2 * pair + 2, &second"),
    Defect("cose", "v3d42", "gr_read_entry", "room(at, end) < before + signature_bytes || ", ""),
    Defect("v3d42", "v3d42", "gr_driver_switch", "MMU_CTL_ON | TLB_CLEAR", "TLB_CLEAR"),
    Defect("slots", "v3d42", "copy_run", "place < GR_WORK_AT(r) || ", ""),
    Defect("slots", "v3d42", "copy_run", " || place >= GR_WORK_END(r)", ""),
    Defect("check", "v3d42", "gr_fetch_action", " || AT(op) >= sizeof needs / sizeof needs[0]", ""),
    Defect("check", "v3d42", "gr_fetch_action", "if (!row ||\n            (need", "if ((need"),
    Defect("run", "v3d42", "write_register", "kept = (value & again->bits) | again->always", "kept = value"),
    Defect("run", "v3d42", "execute_range", "i = from; i < to; i++", "i = from; i <= to; i++"),
    Defect(
        "run",
        "v3d42",
        "gr_execute",
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
    Defect("mali_g71", "mali_g71", "gr_driver_check_write", "starts && r->locked", "starts && !r->locked"),
    Defect(
        "mali_g71",
        "mali_g71",
        "table_of",
        "number < GR_PROGRESS(r)->tables ? table_at(r, number) : NULL",
        "table_at(r, number)",
    ),
    Defect(
        "mali_g71",
        "mali_g71",
        "table_below",
        "GR_PROGRESS(r)->tables >= (GR_DRIVER_END(r) - GR_DRIVER_AT(r)) / GR_PAGE_BYTES",
        "GR_PROGRESS(r)->tables > (GR_DRIVER_END(r) - GR_DRIVER_AT(r)) / GR_PAGE_BYTES",
    ),
    Defect("mali_g71", "mali_g71", "set_pages", "left < ENTRIES - first ? left : ENTRIES - first", "left"),
)
