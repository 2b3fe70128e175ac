# SPDX-License-Identifier: BSD-2-Clause
"""Each of Valhall's operations with its modifiers against NumPy, on the numbers that Bifrost's are tried with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from host_tools.gpus.mali.valhall import TABLE, Field, Instruction
from host_tools.gpus.mali.valhall_text import line
from host_tools.gpus.mali.valhall_values import VALUES
from tests.support.valhall_bench import BY_NAME, Bench, encode, in_place
from tests.support.valhall_meaning import MEANINGS, Operands, refused
from tests.vgpu.test_bifrost_operations import inputs

# What has no result: test_valhall_programs.py has them.
NO_RESULT = ("NOP", "BRANCHZ", "BARRIER", "LOAD", "STORE", "LD_BUFFER", "LEA_BUFFER", "ATOM")
REGISTERS = (0, 1, 2, 3)
WRITES = {"all": 3, "low": 1, "high": 2}


def fields_of(row: Instruction) -> dict[str, Field]:
    """Modifiers and parts of sources by the names that `encode` takes."""
    found = {one.name: one for one in row.modifiers}
    for one in row.sources:
        if one.part:
            found[f"part{one.number}"] = one.part
        for at, what in ((one.negate, "neg"), (one.absolute, "abs"), (one.invert, "invert")):
            if at >= 0:
                found[what if what == "invert" else f"{what}{one.number}"] = Field(what, at, 1)
    return found


def forms(row: Instruction) -> Iterator[dict[str, int]]:
    """Every value of each field, and some of them together."""
    fields = fields_of(row)
    plain = dict.fromkeys(fields, 0) | dict(in_place(row))
    yield plain
    for name, field in fields.items():
        for value in range(1 << field.width):
            yield plain | {name: value}
    generator = np.random.default_rng(len(row.name) + row.exact % 1000)
    for _ in range(40 if fields else 0):
        yield {name: int(generator.integers(1 << field.width)) for name, field in fields.items()}


def said(row: Instruction, form: dict[str, int]) -> dict[str, str]:
    """Values of a form as they are printed; of a flag its name."""
    fields = fields_of(row)
    return {
        name: VALUES[fields[name].name][value] if fields[name].name in VALUES else name * value
        for name, value in form.items()
    }


def computed() -> list[Instruction]:
    return [row for row in TABLE if not row.name.startswith(NO_RESULT)]


def numbers(row: Instruction) -> dict[str, int]:
    constants = {"constant": 0x4248C0A7, "shift": 5}
    return {
        one.name.strip("#:") or "constant": constants[one.name.strip("#:") or "constant"] for one in row.numbers
    }


def sources(row: Instruction) -> tuple[int, ...]:
    """Registers; a second pair begins at r2. The third of a comparison of low words is zero."""
    if any(one.kind == "p" for one in row.sources):
        return (0, 2)
    return REGISTERS[: len(row.sources)]


@pytest.mark.parametrize("name", [row.name for row in computed()])
def test_an_operation(name: str) -> None:
    row, bench, tried = BY_NAME[name], Bench(), 0
    for form in forms(row):
        words = said(row, form)
        codes = sources(row)
        if words.get("result") == "u1" and name.startswith("ICMP_MULTI"):
            codes = (0, 1, 0xC0)
        if refused(row, words):
            continue
        tried += 1
        word = encode(name, codes, 8, **numbers(row), **form)
        found = bench.compute(word, inputs())
        with np.errstate(all="ignore"):
            wanted = MEANINGS[name](Operands(word, inputs()))
        if wanted.ndim == 1:
            found = found[:, 0]
        wrong = np.flatnonzero((found != wanted).reshape(len(found), -1).any(1))
        if len(wrong):
            at = wrong[0]
            pytest.fail(
                f"{line(word)}: {len(wrong)} of {len(found)} differ; of {[hex(x) for x in inputs()[at]]}: "
                "expected "
                f"{np.vectorize(hex)(wanted[at])}, found {np.vectorize(hex)(found[at])}"
            )
    assert tried


@pytest.mark.parametrize("name", [row.name for row in computed()])
def test_what_is_not_modelled_is_refused(name: str) -> None:
    row, bench, tried = BY_NAME[name], Bench(), 0
    for form in forms(row):
        if not refused(row, said(row, form)):
            continue
        word = encode(name, sources(row), 8, flow=15, **numbers(row), **form)
        assert bench.run([word]) == 0x51, line(word)
        assert f"{word:06x}" in bench.error
        tried += 1
        if tried == 20:
            break


def test_every_operation_is_judged() -> None:
    assert {row.name for row in computed()} == set(MEANINGS)
    assert len(MEANINGS) > 120


@pytest.mark.parametrize("writes", list(WRITES))
def test_halves_of_a_result(writes: str) -> None:
    """What is not written stays; the other half is where it is."""
    mask = {"all": 0xFFFFFFFF, "low": 0xFFFF, "high": 0xFFFF0000}[writes]
    word = encode("IADD.u32", (0, 1), 8, writes=WRITES[writes])
    found = Bench().compute(word, inputs())[:, 0]
    total = inputs()[:, 0] + inputs()[:, 1]
    assert np.array_equal(found, (total & np.uint32(mask)) | np.uint32(0x5A5A1234 & ~mask))


def test_a_source_may_be_the_result() -> None:
    """As compilers do it: also where one instruction is several micro-operations."""
    rows = inputs()
    swapped = encode("IADD.u64", (0, 2), 0, part1=0)
    bench = Bench()
    bench.compute(swapped, rows)
    code = [
        encode("SHADDX.u64", (0x80, 60), 4, shift=4, part1=8),
        encode("LOAD.i128", (4,), 0, count=4, unsigned=1),
        swapped,
        encode("SHADDX.u64", (0x82, 60), 6, shift=3, part1=8),
        encode("STORE.i64", (6,), 0, count=2, flow=15),
    ]
    assert bench.run(code, threads=len(rows)) == 0, bench.error
    total = Operands(swapped, rows).pair(0) + Operands(swapped, rows).pair(2 - 1)
    found = bench.words(0x8000, 2 * len(rows)).view(np.uint64)
    assert np.array_equal(found, total)
