# SPDX-License-Identifier: BSD-2-Clause
"""Traces for devices that have operators: two to be refused, at loading and at running, and one that computes.

The operator is COPY, three times with slots of their own: one could be lost to a fault, or be made good by it.
"""

from __future__ import annotations

from tests.campaign import cases, encryption, networks, streaming, trust
from tests.campaign.cases import IMAGE_READABLE, TIMES, Attempt, Case
from tests.campaign.device import BARE_METAL, Device
from tests.support.replayer_samples import PAGE, VA, signed
from trace_format.actions import Op, action
from trace_format.operators import Operator
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

IMAGE_VA = 0x18  # where IMAGE_READABLE maps it
ELEMENTS = 8
SOURCE_AT = 1024  # in the image, behind all results


def computing(gpu: str, page: int = VA + 1) -> Trace:
    """Copies the start of the image, element by element, to a page of virtual memory, and hands that out."""
    made = []
    for index in range(TIMES):
        to, source = page * PAGE + 64 * index, IMAGE_VA * PAGE + SOURCE_AT + 64 * index
        made += [
            Slot(f"to{index}", SlotKind.OUTPUT, DType.UINT32, (ELEMENTS,), (4,), to),
            Slot(f"from{index}", SlotKind.INTERNAL, DType.UINT32, (ELEMENTS,), (4,), source, bound=True),
        ]
    copies = [action(Op.OPERATE, slot=2 * i, operator=Operator.COPY, operands=2) for i in range(TIMES)]
    out = [action(Op.COPY_FROM_GPU, slot=2 * i) for i in range(TIMES)]
    start = [IMAGE_READABLE, action(Op.REPLAY_START)]
    return cases.sample(gpu, *start, *copies, *out).with_(slots=made)


def good(gpu: str) -> Attempt:
    trace = computing(gpu)
    return Attempt(signed(trace), trace=trace)


def into_the_image(gpu: str) -> Attempt:
    """The operators' results lie in the image, which only a run finds out."""
    return Attempt(signed(computing(gpu, IMAGE_VA)))


def tampered(gpu: str) -> Attempt:
    """Three bits of the image, after signing."""
    data = bytearray(signed(computing(gpu)))
    for at in (-1, -9, -17):
        data[at] ^= 0x10
    return Attempt(bytes(data))


def marks(gpu: str) -> Attempt:
    """The good trace where the mark counts."""
    return Attempt(good(gpu).signed)


CASES = (
    Case("tampered", "a tampered image", "CHUNK", tampered, marks),
    Case("operator", "signed: results in the image", "RANGE", into_the_image, marks),
    Case("compute", "a good trace computes", "OK", good, marks),
)


def cases_of(of: Device) -> list[Case]:
    """The cases that a device has."""
    has = of.features
    found = [
        *(encryption.CASES if has.encryption else ()),
        *(networks.of(of.gpu) if has.schedule else ()),
        *(CASES if has.operators else ()),
        *(streaming.CASES if has.streaming else ()),
    ]
    if has.trust:
        return [*trust.CASES, *map(trust.under_policy, found)]
    alone = networks.ALONE if of.path == BARE_METAL and not has.names else ()
    return [*cases.cases_of(of.gpu), *found, *alone]
