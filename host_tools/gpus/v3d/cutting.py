# SPDX-License-Identifier: BSD-2-Clause
"""A V3D's compute job as several, each of which runs some of its workgroups.

CSD_QUEUED_CFG0 to 2 have, beside the number of workgroups of each axis, the first one's: the payload that threads
start with says which workgroup they are, counted from there. Everything else that a shader can ask for (the number
of workgroups, where buffers lie, where shared memory lies) is in the stream of uniforms, which stays as it is.

Workgroups are numbered x first, then y, then z, and packed into supergroups by that number. A piece is a run of
these numbers that is a box, and begins where a supergroup begins: so pieces have the supergroups of the whole,
with the same workgroups in the same lanes, and shared memory, barriers and batches are as before. Where there are
enough such places, a piece begins where the thread with number 0 is next, too, so that spilled registers lie where
they did.

Sources: Mesa 22.3.6 src/broadcom/common/v3d_csd.h (names of the fields), src/broadcom/vulkan/v3dv_cmd_buffer.c
(cmd_buffer_create_csd_job: supergroups, batches), src/broadcom/vulkan/v3dv_uniforms.c (QUNIFORM_NUM_WORK_GROUPS,
QUNIFORM_WORK_GROUP_BASE); Linux v3d_gem.c (v3d_invalidate_caches). Mesa leaves the first workgroup 0, and gives
the base of vkCmdDispatchBase as a uniform: no public driver is known that sets these fields.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from host_tools.families.cutting import Cutting, NotCutError, Prefix, Words
from host_tools.gpus.v3d.copies import LANES, settle
from host_tools.gpus.v3d.jobs import batches
from trace_format.actions import ALL_BITS, Action, Op, action
from trace_format.profile import Profile

_OVERLAPS = 1 << 26  # of CSD_QUEUED_CFG3: may start while the job before still runs
_FIELD = 1 << 16  # numbers that a workgroup's place has on an axis
_MOST_THREADS = 32  # that run at once; a dispatch whose threads have half the GPU's registers each: 16
_FLUSH, _ALL_SLICES = 0x001, 0x0F0F0F0F  # CTL_L2TCACTL; CTL_SLCACTL: all caches of all slices


@dataclass(frozen=True)
class _Groups:
    """Workgroups of a dispatch, and how they are packed."""

    offset: tuple[int, ...]
    count: tuple[int, ...]
    size: int  # threads
    together: int  # workgroups of a supergroup

    @property
    def full(self) -> int:
        """Batches of a full supergroup."""
        return -(-self.together * self.size // LANES)

    def batches(self, groups: int) -> int:
        """Batches that so many workgroups fill."""
        rest = groups % self.together
        return groups // self.together * self.full + -(-rest * self.size // LANES)


def pieces(gpu: Profile, register: Callable[[str], int], wanted: int) -> Sequence[Words]:
    """The registers of each piece; see `Cutting.pieces`."""
    words, groups = _described(gpu, register)
    threads = groups.together * _MOST_THREADS // math.gcd(_MOST_THREADS, groups.full)
    found = _boxes(groups.count, wanted, threads)
    if len(found) < wanted:
        found = _boxes(groups.count, wanted, groups.together)
    if len(found) < 2:
        raise NotCutError("its workgroups cannot be divided")
    return [_registers(gpu, words, groups, box) for box in found]


def prefixes(gpu: Profile, register: Callable[[str], int]) -> Sequence[Prefix]:
    """Its first workgroups, and the others; see `Cutting.prefixes`."""
    words, groups = _described(gpu, register)
    axis = _outermost(groups.count)
    layer, most = math.prod(groups.count[:axis]), groups.count[axis]
    step = groups.together // math.gcd(groups.together, layer)
    found = []
    for first in range(step, most, step):
        boxes = (
            ((0, 0, 0), _with(groups.count, axis, first)),
            (_with((0, 0, 0), axis, first), _with(groups.count, axis, most - first)),
        )
        kept, others = (_registers(gpu, words, groups, box) for box in boxes)
        found.append(Prefix(kept, others, Fraction(first, most)))
    if not found:
        raise NotCutError("its workgroups cannot be divided")
    return found


def _described(gpu: Profile, register: Callable[[str], int]) -> tuple[list[int], _Groups]:
    """The words that describe a job, and its workgroups."""
    words = [register(f"core0.CSD_QUEUED_CFG{index}") for index in range(7)]
    groups = _Groups(
        tuple(word & _FIELD - 1 for word in words[:3]),
        tuple(word >> 16 for word in words[:3]),
        words[3] & 0xFF or 256,
        words[3] >> 8 & 15 or 16,
    )
    filled = groups.batches(math.prod(groups.count))
    if words[3] & _OVERLAPS:
        raise NotCutError("it may overlap with the job before it")
    if batches(gpu, words[4]) != filled:
        raise NotCutError(f"it runs {batches(gpu, words[4])} batches, and its workgroups fill {filled}")
    if any(first + count > _FIELD for first, count in zip(groups.offset, groups.count, strict=True)):
        raise NotCutError("its workgroups' numbers do not fit into 16 bits")
    return words, groups


def _registers(gpu: Profile, words: Sequence[int], groups: _Groups, box: _Box) -> Words:
    """What describes some of a job's workgroups, and starts them."""
    first, count = box
    axes = [count[axis] << 16 | groups.offset[axis] + first[axis] for axis in range(3)]
    values = {
        1: axes[1],
        2: axes[2],
        3: words[3],
        4: groups.batches(math.prod(count)) - batches(gpu, 0),
        5: words[5],
        6: words[6],
        0: axes[0],  # starts it
    }
    return [(f"core0.CSD_QUEUED_CFG{index}", word) for index, word in values.items()]


def _outermost(count: tuple[int, ...]) -> int:
    """The last axis that has several workgroups."""
    return max((axis for axis in range(3) if count[axis] > 1), default=0)


_Box = tuple[tuple[int, ...], tuple[int, ...]]  # first workgroup of each axis; number


def _boxes(count: tuple[int, ...], wanted: int, unit: int) -> list[_Box]:
    """Boxes of consecutive workgroups, as few that none has more than its share of as many as are wanted, or the
    smallest there can be; each begins at a multiple of `unit` workgroups."""
    axis = _outermost(count)
    layer = math.prod(count[:axis])  # workgroups that have one number on that axis
    if axis and layer % unit == 0 and wanted > count[axis]:
        inner = _boxes(_with(count, axis, 1), -(-wanted // count[axis]), unit)
        return [(_with(first, axis, number), size) for number in range(count[axis]) for first, size in inner]
    step = unit // math.gcd(unit, layer)
    parts = -(-count[axis] // step)
    edges = [*range(0, count[axis], step * max(1, parts // wanted)), count[axis]]
    return [
        (_with((0, 0, 0), axis, first), _with(count, axis, after - first))
        for first, after in itertools.pairwise(edges)
    ]


def _with(numbers: tuple[int, ...], axis: int, number: int) -> tuple[int, ...]:
    return (*numbers[:axis], number, *numbers[axis + 1 :])


def between(gpu: Profile) -> list[Action]:
    """What Linux does after a job, and before one."""
    second, slices = gpu.register("core0.CTL_L2TCACTL"), gpu.register("core0.CTL_SLCACTL")
    return [
        *settle(gpu),
        action(Op.REG_WRITE, register=second.index, value=_FLUSH, mask=ALL_BITS),
        action(Op.REG_WRITE, register=slices.index, value=_ALL_SLICES, mask=ALL_BITS),
    ]


CUTTING = Cutting(pieces, prefixes, between)
