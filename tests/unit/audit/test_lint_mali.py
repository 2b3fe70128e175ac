# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone lint` on job chains of a Mali: what descriptors name for the GPU to write to, slots over them."""

from __future__ import annotations

import pytest

from host_tools.audit.lint import lint
from tests.support import chain_samples as samples
from tests.support.chain_samples import job_page
from tests.support.mali_chains import (
    RO,
    RW,
    RX,
    Area,
    submit,
    thread_storage,
    trace,
    write_value,
)
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

CODE, JOBS, DATA, NOWHERE = (0xFFFF80000000 + i * 0x100000 for i in range(4))


def chain(jobs: int = RW, data: int = RW, stack: int = DATA, target: int = DATA) -> Trace:
    """A compute job with scratch memory, and one that writes a value."""
    content = job_page(
        JOBS,
        CODE,
        storage=thread_storage(stack),
        next_va=JOBS + 0x200,
        others={0x200: write_value(target, index=2)},
    )
    areas = [
        Area(CODE, flags=RX, data=bytes(64)),
        Area(JOBS, flags=jobs, data=content),
        Area(DATA, flags=data),
    ]
    return trace(areas, submit(JOBS))


def said(found: Trace) -> list[str]:
    return [str(f.text) for f in lint(found) if f.rule.id in ("GR301", "GR303")]


def test_nothing_is_found_in_a_good_chain() -> None:
    assert said(chain()) == []
    assert said(chain(stack=0)) == []


@pytest.mark.parametrize(
    ("broken", "what", "there"),
    [
        (chain(jobs=RO), f"job header at GPU address {JOBS:#x}", "mapped without write permission"),
        (chain(jobs=RO), f"job header at GPU address {JOBS + 0x200:#x}", "mapped without write permission"),
        (chain(data=RO), f"scratch memory at GPU address {DATA:#x}", "mapped without write permission"),
        (chain(stack=NOWHERE), f"scratch memory at GPU address {NOWHERE:#x}", "not mapped"),
        (chain(target=NOWHERE), f"target of a job that writes a value at GPU address {NOWHERE:#x}", "not mapped"),
    ],
)
def test_what_the_gpu_writes_is_mapped_writable(broken: Trace, what: str, there: str) -> None:
    assert f"job chain 0: the {what} is {there}" in said(broken)


@pytest.mark.parametrize(
    ("part", "rule", "what"),
    [
        *(
            (part, "GR401", "what job chains name memory by")
            for part in ("job", "state", "table", "push", "storage")
        ),
        ("uniforms", "GR409", "uniform buffers, from which a shader may take addresses"),
    ],
)
@pytest.mark.parametrize("kind", [SlotKind.INPUT, SlotKind.PARAMETER])
def test_a_slot_over_what_names_memory(part: str, rule: str, what: str, kind: SlotKind) -> None:
    """Of a uniform buffer nothing says what it is for: data, perhaps, so that is a warning."""
    slot = Slot("in", kind, DType.UINT8, (8,), (1,), samples.JOBS + samples.PLACES[part], bound=True)
    found = trace(samples.areas(samples.jobs()), submit(samples.JOBS)).with_(slots=[slot])
    expected = (rule, f"the {kind.name.lower()} in covers 8 bytes of {what}")
    assert [(f.rule.id, f.text) for f in lint(found) if f.rule.id in ("GR401", "GR409")] == [expected]


def test_an_output_over_what_names_memory_is_nothing_that_a_caller_writes() -> None:
    slot = Slot("out", SlotKind.OUTPUT, DType.UINT8, (8,), (1,), samples.JOBS)
    found = trace(samples.areas(samples.jobs()), submit(samples.JOBS)).with_(slots=[slot])
    assert "GR401" not in {f.rule.id for f in lint(found)}
