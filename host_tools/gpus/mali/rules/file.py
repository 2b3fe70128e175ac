# SPDX-License-Identifier: BSD-2-Clause
"""Rule files: what has to be changed in a recording of one GPU so that another one can replay it, as data.

A file SOURCE-to-TARGET.toml names both GPUs (`source`, `target`) and has a `[[rule]]` for each change. Every rule
has a `name`, a `kind`, the `reason` for it and the source of the `fact`. Numbers in memory are little-endian.

descriptor: a field of the descriptors of all jobs of one type.
    job        type of job, by name
    field      a part of the job's descriptor, pointers from there on, if any, and the field, between dots, by the
               names of docs/DESCRIPTORS.md: "draw.state.uniform count"
    from, to   its value before and after
code: a word of executable memory.
    bits       of the word: 32 or 64
    align, offset   where it may lie: at addresses that leave `offset` when divided by `align`
    from, to   its value before and after
register: accesses to registers.
    registers  their names; * stands for any text
    to         value that writes are given; left out, writes are dropped. Reads are dropped either way.

All rules look at the recording as it was. No two may apply in one place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from itertools import combinations
from typing import Any

from host_tools.gpus.mali.descriptors import TABLE, DescriptorError
from trace_format import profile
from trace_format.errors import TraceError
from trace_format.toml_table import Table, loads

# That have a descriptor after their header: name in a rule -> in the table.
JOB_TYPES = {name.replace("_", "-"): name for name, job in TABLE.jobs.items() if len(job.parts) > 1}
MAX_ALIGN = 4096  # of a word of code


class RuleError(TraceError):
    """A rule file is malformed, or a rule cannot be applied."""


@dataclass(frozen=True)
class DescriptorRule:
    """See the module's text.

    Attributes:
        job: the type's number.
        pointers: offsets in bytes of the GPU addresses that lead to the field's descriptor, the first one's in the
            job's descriptor, the next one's where that leads to, and their bits that are an address.
        offset, bytes: of the words that the field is in, from where they lead to.
        mask, before, after: the field in these words: its bits, its value before and after.
    """

    name: str
    reason: str
    fact: str
    job: int
    pointers: tuple[tuple[int, int], ...]
    offset: int
    bytes: int
    mask: int
    before: int
    after: int


@dataclass(frozen=True)
class CodeRule:
    """See the module's text; `bytes` is the size of the word."""

    name: str
    reason: str
    fact: str
    bytes: int
    align: int
    offset: int
    before: int
    after: int


@dataclass(frozen=True)
class RegisterRule:
    """See the module's text; `registers` are all that the patterns mean."""

    name: str
    reason: str
    fact: str
    registers: tuple[str, ...]
    to: int | None


Rule = DescriptorRule | CodeRule | RegisterRule


@dataclass(frozen=True)
class RuleFile:
    """All rules from one GPU to another."""

    file: str
    source: str
    target: str
    rules: tuple[Rule, ...]


def available() -> list[tuple[str, str]]:
    """(source, target) of all rule files."""
    stems = [
        e.name.removesuffix(".toml") for e in resources.files(__package__).iterdir() if e.name.endswith(".toml")
    ]
    return sorted((stem.partition("-to-")[0], stem.partition("-to-")[2]) for stem in stems)


def load(source: str, target: str) -> RuleFile:
    """The rules from GPU `source` to `target`; RuleError when there are none or their file is malformed."""
    if (source, target) not in available():
        pairs = ", ".join(f"{a} -> {b}" for a, b in available())
        raise RuleError(f"no rules turn a recording of {source} into a trace for {target}; there are: {pairs}")
    file = f"{source}-to-{target}.toml"
    return parse(file, (resources.files(__package__) / file).read_bytes())


def parse(file: str, text: bytes) -> RuleFile:
    """Read a rule file.

    Raises:
        RuleError: naming the file and, by number and name, the rule.
    """
    try:
        return _parse(file, text)
    except RuleError as error:
        error.file = file
        raise


def _parse(file: str, text: bytes) -> RuleFile:
    top = Table(loads(text, RuleError), "the file", RuleError)
    source, target = (top.take(key, str) for key in ("source", "target"))
    for name in (source, target):
        if name not in profile.names():
            raise RuleError(f"no profile for GPU {name!r}; there are: {', '.join(profile.names())}")
    if source == target or file != f"{source}-to-{target}.toml":
        raise RuleError(
            "source and target", expected="two GPUs that the file is named after", found=f"{source}, {target}"
        )
    rows = top.take("rule", list)
    top.end()
    if not rows:
        raise RuleError("there is no rule")
    rules = [
        _rule(index, row, profile.load(source), profile.load(target)) for index, row in enumerate(rows, start=1)
    ]
    for (i, one), (j, other) in combinations(enumerate(rules, start=1), 2):
        if one.name == other.name:
            raise RuleError(f"rules {i} and {j} have one name, {one.name}")
        if _overlap(one, other):
            raise RuleError(f"rules {i} ({one.name}) and {j} ({other.name}) can apply in one place")
    return RuleFile(file, source, target, tuple(rules))


def _rule(index: int, row: Any, source: profile.Profile, target: profile.Profile) -> Rule:
    if not isinstance(row, dict):
        raise RuleError(f"rule {index}", expected="a table", found=repr(row))
    table = Table(row, f"rule {index}", RuleError)
    name = table.text("name")
    table.where += f" ({name})"
    kind = table.take("kind", str)
    texts = name, table.text("reason"), table.text("fact")
    rule: Rule
    if kind == "descriptor":
        rule = _descriptor(table, *texts)
    elif kind == "code":
        rule = _code(table, *texts)
    elif kind == "register":
        rule = _register(table, *texts, source, target)
    else:
        raise table.fail("kind", "descriptor, code or register", repr(kind))
    table.end()
    return rule


def _word(table: Table, widths: tuple[int, ...]) -> int:
    bits = int(table.take("bits", int))
    if bits not in widths:
        raise table.fail("bits", f"one of {', '.join(map(str, widths))}", bits)
    return bits


def _change(table: Table, mask: int) -> tuple[int, int]:
    before, after = (table.number(key, 1 << 64) for key in ("from", "to"))
    for key, value in (("from", before), ("to", after)):
        if value & ~mask:
            raise table.fail(f"{key} has bits outside the field", f"bits of {mask:#x}", f"{value:#x}")
    if before == after:
        raise table.fail("from and to are the same", "a change", f"{before:#x}")
    return before, after


def _aligned(table: Table, key: str, value: int, size: int) -> int:
    if value % size:
        raise table.fail(key, f"a multiple of {size}", value)
    return value


def _descriptor(table: Table, name: str, reason: str, fact: str) -> DescriptorRule:
    kind = table.take("job", str)
    if kind not in JOB_TYPES:
        raise table.fail("job", f"one of {', '.join(JOB_TYPES)}", repr(kind))
    job = TABLE.jobs[JOB_TYPES[kind]]
    try:
        place = TABLE.place(job.type, table.take("field", str))
    except DescriptorError as error:
        raise table.fail(f"field: {error}") from None
    field = place.field
    if field.minus_one or field.shift:
        raise table.fail("field", "one that holds its value as it is", repr(field.name))
    at, size = field.words
    before, after = (value << field.low - 8 * at for value in _change(table, (1 << field.width) - 1))
    mask = field.mask >> 8 * at
    return DescriptorRule(
        name, reason, fact, job.number, place.pointers, place.offset + at, size, mask, before, after
    )


def _code(table: Table, name: str, reason: str, fact: str) -> CodeRule:
    bits = _word(table, (32, 64))
    align = table.number("align", MAX_ALIGN + 1)
    if align < bits // 8 or align & (align - 1):
        raise table.fail("align", f"a power of two from {bits // 8} to {MAX_ALIGN}", align)
    offset = _aligned(table, "offset", table.number("offset", align), bits // 8)
    before, after = _change(table, (1 << bits) - 1)
    return CodeRule(name, reason, fact, bits // 8, align, offset, before, after)


def _register(
    table: Table, name: str, reason: str, fact: str, source: profile.Profile, target: profile.Profile
) -> RegisterRule:
    patterns = table.take("registers", list)
    if not patterns or any(type(p) is not str for p in patterns):
        raise table.fail("registers", "one name or more", patterns)
    found: dict[str, None] = {}
    for pattern in patterns:
        names = [name for name in source.registers if fnmatchcase(name, pattern)]
        if not names:
            raise table.fail("registers", f"registers of {source.title}", repr(pattern))
        found |= dict.fromkeys(names)
    to = table.number("to", 1 << 32) if "to" in table.rows else None
    for other in found if to is not None else ():
        register = target.registers.get(other)
        if register is None or not register.accepts(to or 0):
            raise table.fail(f"a trace for {target.title} may not write {to:#x} to {other}")
    return RegisterRule(name, reason, fact, tuple(found), to)


def _overlap(one: Rule, other: Rule) -> bool:
    """Whether both rules can apply in one place."""
    if isinstance(one, RegisterRule) and isinstance(other, RegisterRule):
        return bool(set(one.registers) & set(other.registers))
    if isinstance(one, DescriptorRule) and isinstance(other, DescriptorRule):
        if (one.job, one.pointers) != (other.job, other.pointers):
            return False
        common = one.mask << 8 * one.offset & other.mask << 8 * other.offset
        return bool(common) and not (one.before << 8 * one.offset ^ other.before << 8 * other.offset) & common
    if isinstance(one, CodeRule) and isinstance(other, CodeRule):
        return any(_same_bytes(one, other, shift) for shift in _shifts(one, other))
    return False


def _shifts(one: CodeRule, other: CodeRule) -> Iterator[int]:
    """By how many bytes the other word can lie after the first one so that they have bytes in common."""
    step = math.gcd(one.align, other.align)
    return (s for s in range(1 - other.bytes, one.bytes) if (one.offset + s - other.offset) % step == 0)


def _same_bytes(one: CodeRule, other: CodeRule, shift: int) -> bool:
    first, second = one.before.to_bytes(one.bytes, "little"), other.before.to_bytes(other.bytes, "little")
    start, end = max(0, shift), min(one.bytes, shift + other.bytes)
    return first[start:end] == second[start - shift : end - shift]
