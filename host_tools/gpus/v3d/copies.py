# SPDX-License-Identifier: BSD-2-Clause
"""A compute shader for a V3D that copies or fills memory, and the jobs that run it.

A device takes compute jobs only (docs/adr/0024-copies-by-compute.md), so what the driver has done by render lists
is done by this program in a trace that is built. Sources: encoding: Mesa 22.3.6 and, for the V3D 7.1, 25.0.7,
src/broadcom/qpu/qpu_pack.c; payload, TMU configuration and the words that start a job: vgpu/qpu/v3d_csd.c and
vgpu/qpu/v3d_qpu_tmu.c.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from host_tools.families.transfers import Transfer, Transfers
from host_tools.gpus.v3d.jobs import batches
from host_tools.gpus.v3d.lists import transfer
from host_tools.gpus.v3d.versions import VERSIONS
from trace_format.actions import ALL_BITS, Action, Op, action
from trace_format.profile import Profile

# Item rf8 of a lane is 16 times its workgroup's number, plus the lane; the number is x + 32768 y. Lanes beyond the
# last item access nothing. After a thread switch accumulators and flags are lost. Uniforms, in order: items;
# source; shift from items to bytes; mask of the source's offset (none: one item for all); configuration of the
# load; target; configuration of the store.
PROGRAM = (
    (0x3D811000BB802000, "eidx r0; nop; ldunifrf.rf4"),
    (0x3D814000BB800000, "nop; nop; ldunifrf.rf5"),
    (0x3D818000BB800000, "nop; nop; ldunifrf.rf6"),
    (0x3D81C000BB800000, "nop; nop; ldunifrf.rf7"),
    (0x3DE010017C83E010, "shl r1, rf0, -16; nop"),
    (0x3DE010017D839010, "shr r1, r1, -16; nop"),
    (0x3DE010027D83E010, "shr r2, rf0, -16; nop"),
    (0x3DE010027C83A00F, "shl r2, r2, 15; nop"),
    (0x3C00100138811000, "add r1, r1, r2; nop"),
    (0x3DE010017C839004, "shl r1, r1, 4; nop"),
    (0x3C00000838801000, "add rf8, r1, r0; nop"),
    (0x3C0000097C83E206, "shl rf9, rf8, rf6; nop"),
    (0x3C0090063C83E204, "sub.pushn -, rf8, rf4; nop"),
    (0x3C001001B583E247, "and r1, rf9, rf7; nop"),
    (0x3C28100D3880E140, "add.ifa tmuau, rf5, r1; nop; thrsw"),
    (0x3C000000BB800000, "nop; nop"),
    (0x3D814000BB800000, "nop; nop; ldunifrf.rf5"),
    (0x3C904000BB800000, "nop; nop; ldtmu.r1"),
    (0x3C0090063C83E204, "sub.pushn -, rf8, rf4; nop"),
    (0x3C0022C0BBE40000, "nop; mov tmud, r1"),
    (0x3C08100D3883E149, "add.ifa tmuau, rf5, rf9; nop"),
    (0x3C001006BB815000, "tmuwt -; nop"),
    (0x3C200000BB800000, "nop; nop; thrsw"),
    (0x3C200000BB800000, "nop; nop; thrsw"),
    (0x3C000000BB800000, "nop; nop"),
    (0x3C200000BB800000, "nop; nop; thrsw"),
    (0x3C000000BB800000, "nop; nop"),
    (0x3C000000BB800000, "nop; nop"),
)
# The same for a V3D 7.1, which has no accumulators, keeps registers over a thread switch, and has x in rf3.
PROGRAM_71 = (
    (0x39810014BB03F002, "eidx rf20; nop; ldunifrf.rf4"),
    (0x39814000BB03F000, "nop; nop; ldunifrf.rf5"),
    (0x39818000BB03F000, "nop; nop; ldunifrf.rf6"),
    (0x3981C000BB03F000, "nop; nop; ldunifrf.rf7"),
    (0x39E000157C03F0D0, "shl rf21, rf3, -16; nop"),
    (0x39E000157D03F550, "shr rf21, rf21, -16; nop"),
    (0x39E000167D03F0D0, "shr rf22, rf3, -16; nop"),
    (0x39E000167C03F58F, "shl rf22, rf22, 15; nop"),
    (0x380000153803F556, "add rf21, rf21, rf22; nop"),
    (0x39E000157C03F544, "shl rf21, rf21, 4; nop"),
    (0x380000083803F554, "add rf8, rf21, rf20; nop"),
    (0x380000097C03F206, "shl rf9, rf8, rf6; nop"),
    (0x380090063C03F204, "sub.pushn -, rf8, rf4; nop"),
    (0x38000015B503F247, "and rf21, rf9, rf7; nop"),
    (0x3828100D3803F155, "add.ifa tmuau, rf5, rf21; nop; thrsw"),
    (0x38000000BB03F000, "nop; nop"),
    (0x39814000BB03F000, "nop; nop; ldunifrf.rf5"),
    (0x38854000BB03F000, "nop; nop; ldtmu.rf21"),
    (0x380090063C03F204, "sub.pushn -, rf8, rf4; nop"),
    (0x380022C0BB543000, "nop; mov tmud, rf21"),
    (0x3808100D3803F149, "add.ifa tmuau, rf5, rf9; nop"),
    (0x38001006BB03F00F, "tmuwt -; nop"),
    (0x38200000BB03F000, "nop; nop; thrsw"),
    (0x38200000BB03F000, "nop; nop; thrsw"),
    (0x38000000BB03F000, "nop; nop"),
    (0x38200000BB03F000, "nop; nop; thrsw"),
    (0x38000000BB03F000, "nop; nop"),
    (0x38000000BB03F000, "nop; nop"),
)
_FOUR_THREADS, _PROPAGATE_NANS = 1, 4  # flags of CSD_QUEUED_CFG5
LANES, ROW_GROUPS = 16, 1 << 15
_TMU_TYPES = {1: 0xFFFFFFFD, 2: 0xFFFFFFFE, 4: 0xFFFFFFFF}  # regular access per lane: 8, 16, 32 bits unsigned
_UNIFORMS = struct.Struct("<8I32x")  # uniforms and the colour; a line of the cache for each transfer
_CODE = struct.Struct(f"<{len(PROGRAM)}Q")
_UNIFORMS_AT = -(-_CODE.size // 256) * 256
_COLOR_AT = 28
_WRITE_BACK, CLEAN = 0x100, 0x005  # CTL_L2TCACTL: the TMU's write combiner; the cache (Linux v3d_gem.c)
_WAIT_US = 100_000


def memory(gpu: Profile, transfers: Sequence[Transfer], va: int) -> bytes:
    """The program, and each transfer's uniforms."""
    program = PROGRAM if VERSIONS[gpu.name].has_accumulators else PROGRAM_71
    found = _CODE.pack(*(word for word, _ in program)).ljust(_UNIFORMS_AT, b"\0")
    for item in transfers:
        color_at = va + len(found) + _COLOR_AT
        source, mask = (color_at, 0) if item.source is None else (item.source, ALL_BITS)
        shift, tmu = item.item.bit_length() - 1, _TMU_TYPES[item.item]
        items = item.size // item.item
        found += _UNIFORMS.pack(items, source, shift, mask, tmu, item.target, tmu, item.color)
    return found


def job(gpu: Profile, transfers: Sequence[Transfer], number: int, va: int) -> list[tuple[str, int]]:
    """A workgroup of one batch for each 16 items, 32768 in a row."""
    groups = -(-transfers[number].size // transfers[number].item // LANES)
    columns = min(groups, ROW_GROUPS)
    rows = -(-groups // columns)
    can_propagate = "PROPAGATE_NANS" in gpu.bit_names["core0.CSD_QUEUED_CFG5"]
    words = {
        1: rows << 16,
        2: 1 << 16,
        3: 1 << 8 | LANES,
        4: columns * rows - batches(gpu, 0),
        5: va | _FOUR_THREADS | (_PROPAGATE_NANS if can_propagate else 0),
        6: va + _UNIFORMS_AT + number * _UNIFORMS.size,
        0: columns << 16,  # starts it
    }
    return [(f"core0.CSD_QUEUED_CFG{index}", word) for index, word in words.items()]


def settle(gpu: Profile) -> list[Action]:
    """What Linux does after each compute job (v3d_gem.c, v3d_clean_caches)."""
    cache = gpu.register("core0.CTL_L2TCACTL")
    return [
        row
        for value in (_WRITE_BACK, CLEAN)
        for row in (
            action(Op.REG_WRITE, register=cache.index, value=value, mask=ALL_BITS),
            action(Op.REG_READ_WAIT, register=cache.index, mask=cache.busy, timeout_us=_WAIT_US),
        )
    ]


TRANSFERS = Transfers(transfer, memory, job, settle)
