# SPDX-License-Identifier: BSD-2-Clause
"""Rule files: what has to be changed in a recording of one GPU so that another one can replay it, as data.

A file names the GPUs that recordings come from (`source`) and go to (`target`), one or a list of them, and has a
`[[rule]]` for each change. No two files have rules for one pair. Every rule has a `name`, a `kind`, the `reason`
for it and the source of the `fact`; with a `source` or `target` of its own, a list, it holds for these only.
Numbers in memory are little-endian.

descriptor: a field of the descriptors of all jobs of one type.
    job        type of job, by name
    field      a part of the job's descriptor, pointers from there on, if any, and the field, between dots, by the
               names of docs/DESCRIPTORS.md: "draw.state.uniform count"
    from, to   its value before and after
register: accesses to registers.
    registers  their names; * stands for any text
    to         value that writes are given; left out, writes are dropped. Reads are dropped either way.
    keep       "cores" in place of `to`: a bit a shader core; those that both GPUs have are kept, in what reads are
               to find, too
    required   true: a recording that does not write them is refused
operation: what a shader may not have, since the target lacks it: the recording is refused.
    names      of operations, as docs/BIFROST.md has them
    fma, add   further ones by their encoding, for each unit: pairs of bits and mask
    but        pairs, too: encodings of the FMA unit that are allowed all the same
    operands   names of operands, as `lane_id`

All rules look at the recording as it was. No two may apply in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from itertools import combinations
from typing import Any

from host_tools.gpus.mali.descriptors import TABLE, DescriptorError
from host_tools.gpus.mali.notation import FIXED_OPERANDS
from host_tools.gpus.mali.operations import ADD, FMA
from trace_format import profile
from trace_format.errors import TraceError
from trace_format.toml_table import Table, loads

# That have a descriptor after their header: name in a rule -> in the table.
JOB_TYPES = {name.replace("_", "-"): name for name, job in TABLE.jobs.items() if len(job.parts) > 1}
FOLDER = resources.files(__package__)
KNOWN = {operation.name for _, _, operation in (*FMA, *ADD)}
OPERANDS = set(FIXED_OPERANDS.values())


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
class RegisterRule:
    """See the module's text; `registers` are all that the patterns mean, `cores` the bits that `keep` keeps."""

    name: str
    reason: str
    fact: str
    registers: tuple[str, ...]
    to: int | None
    cores: int | None = None
    required: bool = False


@dataclass(frozen=True)
class OperationRule:
    """See the module's text; `fma`, `add` and `but` are (bits, mask)."""

    name: str
    reason: str
    fact: str
    names: frozenset[str]
    fma: tuple[tuple[int, int], ...]
    add: tuple[tuple[int, int], ...]
    but: tuple[tuple[int, int], ...]
    operands: frozenset[str]


Rule = DescriptorRule | RegisterRule | OperationRule


@dataclass(frozen=True)
class RuleFile:
    """All rules from one GPU to another."""

    file: str
    source: str
    target: str
    rules: tuple[Rule, ...]


def available() -> dict[tuple[str, str], str]:
    """The file with the rules of each pair, source and target."""
    found: dict[tuple[str, str], str] = {}
    for file in sorted(e.name for e in FOLDER.iterdir() if e.name.endswith(".toml")):
        for pair in _pairs(Table(loads(_text(file), RuleError), file, RuleError)):
            if found.setdefault(pair, file) != file:
                raise RuleError(f"{found[pair]} and {file} both have rules from {pair[0]} to {pair[1]}")
    return found


def load(source: str, target: str) -> RuleFile:
    """The rules from GPU `source` to `target`; RuleError when there are none or their file is malformed."""
    files = available()
    if (source, target) not in files:
        known = ", ".join(sorted(b for a, b in files if a == source)) or "no other GPU"
        raise RuleError(f"no rules turn a recording of {source} into a trace for {target}; there are for {known}")
    file = files[source, target]
    return parse(file, _text(file), source, target)


def _text(file: str) -> bytes:
    return (FOLDER / file).read_bytes()


def parse(file: str, text: bytes, source: str, target: str) -> RuleFile:
    """The rules of a file for a pair that it names.

    Raises:
        RuleError: naming the file and, by number and name, the rule.
    """
    try:
        return _parse(file, text, source, target)
    except RuleError as error:
        error.file = file
        raise


def _pairs(top: Table) -> list[tuple[str, str]]:
    sources, targets = (_gpus(top, key) for key in ("source", "target"))
    pairs = [(one, other) for one in sources for other in targets if one != other]
    if not pairs:
        raise RuleError("source and target", expected="two GPUs", found=", ".join([*sources, *targets]))
    return pairs


def _gpus(table: Table, key: str) -> list[str]:
    """One name, or a list."""
    value = table.rows.get(key)
    names = [table.text(key)] if type(value) is str else list(table.take(key, list))
    for name in names:
        if name not in profile.names():
            raise table.fail(f"{key}: no profile for GPU {name!r}; there are: {', '.join(profile.names())}")
    return names


def _parse(file: str, text: bytes, source: str, target: str) -> RuleFile:
    top = Table(loads(text, RuleError), "the file", RuleError)
    pairs = _pairs(top)
    rows = top.take("rule", list)
    top.end()
    if not rows:
        raise RuleError("there is no rule")
    for pair in pairs:  # also those that are not asked for: a file is right or wrong
        rules = _rules(rows, *pair)
        if pair == (source, target):
            kept = rules
    return RuleFile(file, source, target, tuple(kept))


def _rules(rows: Sequence[Any], source: str, target: str) -> list[Rule]:
    """Those that hold for a pair."""
    rules: dict[int, Rule] = {}
    for index, row in enumerate(rows, start=1):
        if rule := _rule(index, row, source, target):
            rules[index] = rule
    for (i, one), (j, other) in combinations(rules.items(), 2):
        if one.name == other.name:
            raise RuleError(f"rules {i} and {j} have one name, {one.name}")
        if _overlap(one, other):
            raise RuleError(f"rules {i} ({one.name}) and {j} ({other.name}) can apply in one place")
    return list(rules.values())


def _rule(index: int, row: Any, from_gpu: str, to_gpu: str) -> Rule | None:
    if not isinstance(row, dict):
        raise RuleError(f"rule {index}", expected="a table", found=repr(row))
    table = Table(row, f"rule {index}", RuleError)
    name = table.text("name")
    table.where += f" ({name})"
    holds = True
    for key, gpu in (("source", from_gpu), ("target", to_gpu)):
        holds &= key not in table.rows or gpu in _gpus(table, key)
    if not holds:
        return None
    source, target = profile.load(from_gpu), profile.load(to_gpu)
    kind = table.take("kind", str)
    texts = name, table.text("reason"), table.text("fact")
    rule: Rule
    if kind == "descriptor":
        rule = _descriptor(table, *texts)
    elif kind == "register":
        rule = _register(table, *texts, source, target)
    elif kind == "operation":
        rule = _operation(table, *texts)
    else:
        raise table.fail("kind", "descriptor, register or operation", repr(kind))
    table.end()
    return rule


def _change(table: Table, mask: int) -> tuple[int, int]:
    before, after = (table.number(key, 1 << 64) for key in ("from", "to"))
    for key, value in (("from", before), ("to", after)):
        if value & ~mask:
            raise table.fail(f"{key} has bits outside the field", f"bits of {mask:#x}", f"{value:#x}")
    if before == after:
        raise table.fail("from and to are the same", "a change", f"{before:#x}")
    return before, after


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
    cores = None
    if "keep" in table.rows:
        if table.take("keep", str) != "cores" or to is not None:
            raise table.fail("keep", '"cores", and no `to`', "something else")
        cores = _cores(source) & _cores(target)
    return RegisterRule(name, reason, fact, tuple(found), to, cores, bool(table.take("required", bool, False)))


def _cores(gpu: profile.Profile) -> int:
    """The shader cores of the model, a bit each: of the first 32, more no Mali has."""
    return gpu.register("gpu.SHADER_PRESENT_LO").reset


def _operation(table: Table, name: str, reason: str, fact: str) -> OperationRule:
    names, operands = (frozenset(table.texts(key)) for key in ("names", "operands"))
    if unknown := sorted(names - KNOWN):
        raise table.fail("names", "operations of docs/BIFROST.md", ", ".join(unknown))
    if unknown := sorted(operands - OPERANDS):
        raise table.fail("operands", f"of {', '.join(sorted(OPERANDS))}", ", ".join(unknown))
    fma, add, but = (_encodings(table, key, bits) for key, bits in (("fma", 23), ("add", 20), ("but", 23)))
    if not (names or operands or fma or add):
        raise table.fail("names", "what it is about", "nothing")
    return OperationRule(name, reason, fact, names, fma, add, but, operands)


def _encodings(table: Table, key: str, bits: int) -> tuple[tuple[int, int], ...]:
    found = []
    for pair in table.take(key, list, []):
        word, mask = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)
        if type(word) is not int or type(mask) is not int or word & ~mask or not 0 < mask < 1 << bits:
            raise table.fail(key, f"bits and a mask of {bits} bits with them in it", repr(pair))
        found.append((word, mask))
    return tuple(found)


def _overlap(one: Rule, other: Rule) -> bool:
    """Whether both rules can apply in one place."""
    if isinstance(one, RegisterRule) and isinstance(other, RegisterRule):
        return bool(set(one.registers) & set(other.registers))
    if isinstance(one, DescriptorRule) and isinstance(other, DescriptorRule):
        if (one.job, one.pointers) != (other.job, other.pointers):
            return False
        common = one.mask << 8 * one.offset & other.mask << 8 * other.offset
        return bool(common) and not (one.before << 8 * one.offset ^ other.before << 8 * other.offset) & common
    return False
