# SPDX-License-Identifier: BSD-2-Clause
"""What describes a Mali's jobs in GPU memory, field by field: `descriptors.toml` in Python.

The head of that file says what its keys mean, and names the sources. The virtual GPU's header and
docs/DESCRIPTORS.md come from it, too (host_tools/gpus/mali/emit.py).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

from trace_format.errors import TraceError
from trace_format.toml_table import Table, loads

FILE = "descriptors.toml"
WORD = 32  # bits
POINTER = 64  # bits


class DescriptorError(TraceError):
    """The table contradicts itself, or it has nothing of that name."""


@dataclass(frozen=True)
class Field:
    """Bits of a descriptor.

    Attributes:
        name: in words.
        low: the lowest, counted from the descriptor's start.
        width: how many.
        kind: "number", "flag", "address" or "name".
        minus_one: the descriptor holds one less.
        shift: the descriptor holds the value shifted right by so many bits.
        address_mask: of an address: its bits that are one; the others may be flags.
        to: name of the descriptor that it is the address of; "" otherwise.
        written: the GPU writes it.
        values: names of values.
        source: where it is from, if not from the table's source; then not every Mali has it.
        about: what it means; "" where its name says it.
    """

    name: str
    low: int
    width: int
    kind: str
    minus_one: bool
    shift: int
    address_mask: int
    to: str
    written: bool
    values: Mapping[str, int]
    source: str
    about: str

    @property
    def mask(self) -> int:
        """Its bits in the descriptor as one number."""
        return (1 << self.width) - 1 << self.low

    @property
    def words(self) -> tuple[int, int]:
        """Where the words of 32 bits are that it lies in: offset in the descriptor, and size, in bytes."""
        first, end = self.low // WORD, -(-(self.low + self.width) // WORD)
        return WORD // 8 * first, WORD // 8 * (end - first)

    def number(self, data: bytes) -> int:
        """Its value in a descriptor's bytes."""
        raw = int.from_bytes(data, "little") >> self.low & (1 << self.width) - 1
        return (raw << self.shift) + self.minus_one

    def address(self, data: bytes) -> int:
        """The GPU address that it holds, without flags."""
        return self.number(data) & self.address_mask

    def shown(self, data: bytes) -> int | str:
        """Its value for people: a number, an address in hexadecimal with its flags, or a name."""
        value = self.number(data)
        if self.kind == "address":
            return f"{value:#x}"
        if self.kind == "name":
            return next((name for name, known in self.values.items() if known == value), str(value))
        return value


@dataclass(frozen=True)
class Descriptor:
    """A descriptor.

    Attributes:
        name, title: in words; in the source.
        size: in bytes.
        align: its address is a multiple; 1 where it is part of something else.
        words: names of whole words of 32 bits, by number.
        fields: by name, in the order in which they are listed.
    """

    name: str
    title: str
    size: int
    align: int
    words: Mapping[str, int]
    fields: Mapping[str, Field]

    def __getitem__(self, field: str) -> Field:
        """A field; DescriptorError when there is none of that name."""
        try:
            return self.fields[field]
        except KeyError:
            names = ", ".join(self.fields)
            raise DescriptorError(f"{self.name} has no field {field!r}; there are: {names}") from None

    @property
    def written_bytes(self) -> int:
        """How many bytes at its beginning the GPU writes."""
        return max((field.low + field.width for field in self.fields.values() if field.written), default=0) // 8

    def unnamed(self, word: int) -> int:
        """Bits of a word of 32 bits that no field has."""
        named = functools.reduce(int.__or__, (field.mask for field in self.fields.values()), 0)
        return ~(named >> WORD * word) & (1 << WORD) - 1

    def listed(self, data: bytes) -> dict[str, int | str]:
        """The values of all fields that every Mali has, for people."""
        return {name: field.shown(data) for name, field in self.fields.items() if not field.source}


@dataclass(frozen=True)
class Part:
    """A descriptor that lies in a job's, by its offset in bytes."""

    offset: int
    descriptor: Descriptor


@dataclass(frozen=True)
class Job:
    """A job's descriptor: the header, and what follows it by the header's type.

    Attributes:
        type: name of the type.
        number: of the type, in the header.
        title: in the source.
        parts: by name.
    """

    type: str
    number: int
    title: str
    parts: Mapping[str, Part]

    @property
    def size(self) -> int:
        """In bytes, with its header."""
        return max(part.offset + part.descriptor.size for part in self.parts.values())


@dataclass(frozen=True)
class Place:
    """A field that is found from a job's address on.

    Attributes:
        pointers: offsets in bytes of the addresses on the way, each from where the one before leads to, and their
            bits that are an address.
        offset: of the descriptor with the field, in bytes, from where they lead to.
        field: the field.
    """

    pointers: tuple[tuple[int, int], ...]
    offset: int
    field: Field


@dataclass(frozen=True)
class Descriptors:
    """All that there are, and the jobs that are made of them, by name; `source`: where they are from."""

    source: str
    address_mask: int
    descriptors: Mapping[str, Descriptor]
    jobs: Mapping[str, Job]

    def place(self, job: str, path: str) -> Place:
        """Where a field of jobs of a type is; `path`: a part's name, pointers in it, and a field, between dots.

        Raises:
            DescriptorError: there is no such job, part or field, or what should lead on leads to no descriptor.
        """
        if job not in self.jobs:
            raise DescriptorError(f"no job of type {job!r}; there are: {', '.join(self.jobs)}")
        first, *way = path.split(".")
        part = self.jobs[job].parts.get(first)
        if part is None or not way:
            parts = ", ".join(self.jobs[job].parts)
            raise DescriptorError(f"{path!r} names no field of a part; parts: {parts}")
        pointers, offset, descriptor = [], part.offset, part.descriptor
        for name in way[:-1]:
            pointer = descriptor[name]
            if not pointer.to:
                raise DescriptorError(f"{descriptor.name}: {name} leads to no descriptor")
            pointers.append((offset + pointer.low // 8, pointer.address_mask))
            offset, descriptor = 0, self.descriptors[pointer.to]
        return Place(tuple(pointers), offset, descriptor[way[-1]])


def parse(text: bytes) -> Descriptors:
    """Read a table.

    Raises:
        DescriptorError: it is malformed, or contradicts itself.
    """
    top = Table(loads(text, DescriptorError), "", DescriptorError)
    source, bits = top.text("source"), top.number("address_bits", POINTER + 1)
    tables, kinds = top.table("descriptors"), top.table("jobs", {})
    top.end()
    found = {name: _descriptor(name, tables.table(name), bits) for name in list(tables.rows)}
    for descriptor in found.values():
        for field in descriptor.fields.values():
            if field.to and field.to not in found:
                raise DescriptorError(f"{descriptor.name}: {field.name} leads to {field.to!r}, which is missing")
    types = found["job header"]["type"].values if "job header" in found else {}
    return Descriptors(
        source,
        (1 << bits) - 1,
        found,
        {name: _job(name, kinds.table(name), types, found) for name in list(kinds.rows)},
    )


def _descriptor(name: str, table: Table, address_bits: int) -> Descriptor:
    rows = table.table("fields")
    words = table.table("words", {})
    size = table.number("bytes", 1 << 12)
    descriptor = Descriptor(
        name,
        table.text("title"),
        size,
        table.number("align", 1 << 12, 1),
        {word: words.number(word, size // 4) for word in list(words.rows)},
        {field: _field(field, rows.table(field), address_bits) for field in list(rows.rows)},
    )
    table.end()
    taken = 0
    for field in descriptor.fields.values():
        if field.mask & taken or field.mask >> 8 * size:
            raise table.fail(f"{field.name} lies on another field, or outside of {size} bytes")
        taken |= field.mask
    return descriptor


def _field(name: str, row: Table, address_bits: int) -> Field:
    at = row.take("at", list)
    if len(at) != 2 or any(type(number) is not int for number in at) or not 0 <= at[1] < WORD:
        raise row.fail("at", "[word, bit]", at)
    kind = row.take("type", str, "number" if "bits" in row.rows else "flag")
    if kind not in ("number", "flag", "address", "name"):
        raise row.fail("type", "number, flag, address or name", repr(kind))
    width = row.number("bits", POINTER + 1, {"flag": 1, "address": POINTER}.get(kind))
    flags = row.number("flags", POINTER) if "flags" in row.rows else None
    values = row.table("values", {})
    field = Field(
        name=name,
        low=WORD * at[0] + at[1],
        width=width,
        kind=kind,
        minus_one=row.take("minus_one", bool, False),
        shift=row.number("shift", POINTER, 0),
        address_mask=(1 << POINTER) - 1 if flags is None else (1 << address_bits) - (1 << flags),
        to=str(row.take("to", str, "")),
        written=row.take("written", bool, False),
        values={value: values.number(value, 1 << width) for value in list(values.rows)},
        source=str(row.take("source", str, "")),
        about=str(row.take("about", str, "")),
    )
    row.end()
    if kind != "address" and (flags is not None or field.to):
        raise row.fail("only an address has flags, or leads to a descriptor")
    return field


def _job(name: str, table: Table, types: Mapping[str, int], known: Mapping[str, Descriptor]) -> Job:
    if name not in types:
        raise table.fail("the job header has no such type")
    rows = table.table("parts")
    parts, end = {}, 0
    for part in list(rows.rows):
        place = rows.take(part, list)
        if [type(value) for value in place] != [int, str] or place[0] < end or place[1] not in known:
            raise rows.fail(part, "an offset after the part before it, and a descriptor", place)
        offset, descriptor = place
        parts[part] = Part(offset, known[descriptor])
        end = offset + known[descriptor].size
    job = Job(name, types[name], table.text("title"), parts)
    table.end()
    return job


TABLE = parse((resources.files(__package__) / FILE).read_bytes())
HEADER = TABLE.descriptors["job header"]
INVOCATION = TABLE.descriptors["invocation"]
DRAW = TABLE.descriptors["draw"]
STATE = TABLE.descriptors["renderer state"]
STORAGE = TABLE.descriptors["local storage"]
UNIFORM_BUFFER = TABLE.descriptors["uniform buffer"]
WRITE_VALUE = TABLE.descriptors["write value"]
JOBS = {job.number: job for job in TABLE.jobs.values()}  # by the number of their type
MAX_CHAIN = 1 << HEADER["index"].width  # jobs
PUSH_BYTES = 8  # of a push uniform


def workgroups(data: bytes) -> dict[str, int | str]:
    """What an Invocation's packed numbers are: six values, each stored less one, from a bit to the next one's."""
    packed = INVOCATION["invocations"].number(data)
    starts = (field.number(data) for name, field in INVOCATION.fields.items() if name.endswith(" shift"))
    values = []
    for low, high in itertools.pairwise([0, *starts, WORD]):
        values.append(str((packed >> low & (1 << max(high - low, 0)) - 1) + 1))
    return {"workgroup size": " x ".join(values[:3]), "workgroups": " x ".join(values[3:])}


def joined(fields: Iterable[Field], data: bytes) -> bytes:
    """The bytes of fields of whole bytes, one after the other."""
    return b"".join(data[field.low // 8 : (field.low + field.width) // 8] for field in fields)
