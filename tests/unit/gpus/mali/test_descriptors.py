# SPDX-License-Identifier: BSD-2-Clause
"""The one table of a Mali's descriptors: against Mesa's, against what Mesa packed, and that it is the only one."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from host_tools.gpus.mali import emit, valhall_descriptors
from host_tools.gpus.mali.descriptors import (
    DRAW,
    FILE,
    HEADER,
    INVOCATION,
    STATE,
    STORAGE,
    TABLE,
    UNIFORM_BUFFER,
    DescriptorError,
    parse,
    workgroups,
)
from host_tools.gpus.mali.job_chains import Walker, chains
from host_tools.model.memory import Memory
from tests.support import mali_chains
from tests.support.mesa_descriptors import SHAPES, raw
from tests.support.places import CHECKOUT
from trace_format.trace import Trace

MALI = CHECKOUT / "host_tools" / "gpus" / "mali"
LENET = CHECKOUT / "tests" / "support" / "lenet.mali_g71.raw.gtr"
ADDRESS = (1 << 48) - 1

# --- against Mesa's


@pytest.mark.parametrize("name", TABLE.descriptors)
@given(st.data())
def test_any_bytes_are_what_mesa_says(name: str, data: st.DataObject) -> None:
    descriptor = TABLE.descriptors[name]
    content = data.draw(st.binary(min_size=descriptor.size, max_size=descriptor.size))
    found = {name: field.number(content) for name, field in descriptor.fields.items() if not field.source}
    expected = raw(name, content)
    if descriptor is UNIFORM_BUFFER:
        low, high = expected.pop("pointer low"), expected.pop("pointer high")
        expected = {"entries": expected["entries"] + 1, "pointer": (low | high << 20) << 4}
    assert found == expected


def test_every_structure_is_compared() -> None:
    assert SHAPES.keys() == TABLE.descriptors.keys()


def test_jobs_are_made_of_the_parts_that_mesa_says() -> None:
    """The aggregates of v6.xml."""
    parts = {name: {p: part.offset for p, part in job.parts.items()} for name, job in TABLE.jobs.items()}
    assert parts == {
        "null": {"header": 0},
        "write_value": {"header": 0, "payload": 32},
        "cache_flush": {"header": 0, "payload": 32},
        "compute": {"header": 0, "invocation": 32, "parameters": 40, "draw": 64},
    }
    assert {name: (job.number, job.size) for name, job in TABLE.jobs.items()} == {
        "null": (1, 32),
        "write_value": (2, 56),
        "cache_flush": (3, 40),
        "compute": (4, 192),
    }
    assert {name: one.align for name, one in TABLE.descriptors.items() if one.align > 1} == {
        "job header": 64,
        "draw": 64,
        "renderer state": 64,
        "local storage": 64,
        "uniform buffer": 8,
    }


def test_what_is_not_in_v6() -> None:
    """A G52's field, and two bits without a name; listings leave them out."""
    extra = {name: field.mask >> 32 * (field.low // 32) for name, field in STATE.fields.items() if field.source}
    assert extra == {"shader register allocation": 0x3000, "preload 22": 1 << 22, "preload 23": 1 << 23}
    assert not extra.keys() & STATE.listed(bytes(STATE.size)).keys()
    assert not any(
        field.source for one in TABLE.descriptors.values() if one is not STATE for field in one.fields.values()
    )


def test_what_code_asks_of_words() -> None:
    assert HEADER.written_bytes == 16
    assert HEADER.unnamed(HEADER.words["control"]) == 1 << 10 | 1 << 13
    assert STATE.unnamed(STATE.words["preload"]) == 0xFF00003F


# --- against what Mesa packed


def packed(number: int) -> tuple[bytes, bytes, bytes]:
    """The bytes of a compute job of LeNet's recording, of its renderer state, and of its local storage."""
    memory = Memory.of(Trace.read(LENET))
    walker = Walker(memory)
    for chain in chains(memory)[: number + 1]:
        walker.walk(chain)
    job = walker._bytes(chain.head, 192, "job")
    state, storage = (int.from_bytes(job[at : at + 8], "little") for at in (120, 176))
    return job, walker._bytes(state, 64, "state"), walker._bytes(storage, 32, "storage")


def test_a_job_that_mesa_packed() -> None:
    """LeNet's second job: the first convolution, whose shader spills registers. Words that are 0 are left out."""
    job, state, storage = packed(1)
    words = {i: word for i, word in enumerate(memoryview(job).cast("I")) if word}
    assert words == {
        4: 0x00010009,
        8: 0x0000011F,
        9: 0x524914A4,
        10: 0x20000000,
        16: 0x00000003,
        28: 0x0A054260,
        30: 0x0A0091C0,
        44: 0x0A054180,
    }
    header, invocation, draw = job[:32], job[32:40], job[64:]
    assert set_fields(HEADER.listed(header)) == {"is 64b": 1, "type": "compute", "index": 1}
    assert workgroups(invocation) == {"workgroup size": "16 x 2 x 1", "workgroups": "9 x 1 x 1"}
    assert set_fields(INVOCATION.listed(invocation)) == {
        "invocations": 0x11F,
        "size y shift": 4,
        "size z shift": 5,
        "workgroups x shift": 5,
        "workgroups y shift": 9,
        "workgroups z shift": 9,
        "thread group split": 5,
    }
    assert set_fields(DRAW.listed(draw)) == {
        "four components per vertex": 1,
        "draw descriptor is 64b": 1,
        "push uniforms": "0xa054260",
        "state": "0xa0091c0",
        "thread storage": "0xa054180",
    }
    assert {i: word for i, word in enumerate(memoryview(state).cast("I")) if word} == {
        0: 0x0A028000,
        12: 0x00038680,
    }
    assert set_fields(STATE.listed(state)) == {
        "shader": "0xa028000",
        "preload local invocation xy": 1,
        "preload work group x": 1,
        "preload work group y": 1,
        "uniform count": 7,
    }
    assert {i: word for i, word in enumerate(memoryview(storage).cast("I")) if word} == {
        0: 1,
        1: 31,
        2: 0x0A064000,
    }
    assert set_fields(STORAGE.listed(storage)) == {
        "tls size": 1,
        "wls instances": 31,
        "tls base pointer": "0xa064000",
    }


def set_fields(listed: dict[str, int | str]) -> dict[str, int | str]:
    return {name: value for name, value in listed.items() if value not in (0, "0x0")}


def test_flags_are_no_part_of_an_address() -> None:
    flags = 0xABCD << 48
    draw = mali_chains.compute(flags | 0x12345F, storage=flags | 0x654321)[64:]
    assert DRAW["state"].address(draw) == 0x123450
    assert DRAW["thread storage"].address(draw) == 0x654321
    assert DRAW["state"].number(draw) == flags | 0x12345F
    header = mali_chains.header(4, next_va=flags | 1)
    assert HEADER["next"].address(header) == flags | 1, "the chip does not know flags there"


# --- the only one


@pytest.mark.parametrize(
    ("module", "numbers"),
    [
        ("job_chains.py", {0, 1, 2, 4, 7, 16, 32}),  # words of 4 bytes in pairs, 16 bytes an entry, 32 bits a word
        ("chain_memory.py", {0, 1}),
        ("listing.py", {0, 1, 32}),
        ("rules/retarget.py", {0, 1, 4, 8, 255}),
        ("rules/file.py", {0, 1, 2, 8, 20, 23, 32, 64}),  # bits of instructions, registers and numbers
        ("planning.py", {0, 1}),
    ],
)
def test_no_module_has_places_in_descriptors(module: str, numbers: set[int]) -> None:
    """The numbers that a module has, all of them: a new one must be none of a descriptor."""
    tree = ast.parse((MALI / module).read_text(encoding="utf-8"))
    found = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is int}
    assert found == numbers


C_PLACES = {
    "a place after an address": r"(?:va|descriptor|header|payload|invocation|draw|state|storage)\s*\+\s*\d",
    "bits of a word": r">>\s*\d+\s*&\s*(?:0x)?\d",
    "a mask": r"1u\s*<<\s*\d|0x[0-9a-f]{4,}",
    "a word by its number": r"\b(?:mali_words?|word|pointer)\s*\(",
    "a place by another name": r"\b(?:HEADER|JOB|DRAW|STATE|STORAGE|INVOCATION|PAYLOAD)_\w+\s*=\s*\d",
    "the bytes of a descriptor": r"uint8_t (?:header|payload|invocation|draw|state|storage)\[\d",
    "a structure of its own": r"^struct \w*(?:header|payload|invocation|draw|state|storage)\w* \{",
}
# Bits of registers, not of descriptors.
NOT_DESCRIPTORS = r"0x10001u << i|0x10000u << i|MALI_DONE \? index : 16 \+ index|1u << \(status == MALI_DONE"


@pytest.mark.parametrize("file", ["mali_dispatch.c", "mali_jobs.c"])
def test_no_c_file_has_places_in_descriptors(file: str) -> None:
    text = re.sub(r"/\*.*?\*/", "", (MALI / "vgpu" / "device" / file).read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(NOT_DESCRIPTORS, "", text)
    found = {what: hit[0] for what, pattern in C_PLACES.items() if (hit := re.search(pattern, text, re.MULTILINE))}
    assert not found
    assert '#include "mali_descriptors.h"' in text


def test_places_in_c_are_found() -> None:
    for text in (
        "mali_read(dev, space, va + 32, draw, sizeof(draw))",
        "shifts >> 5 & 31",
        "#define STATE_BARRIER (1u << 11)",
        "word(state, 12)",
        "    DRAW_STATE = 56,",
        "uint8_t state[64];",
        "struct header {",
    ):
        assert any(re.search(pattern, text, re.MULTILINE) for pattern in C_PLACES.values()), text


def test_rules_name_fields() -> None:
    files = sorted((MALI / "rules").glob("*.toml"))
    assert files
    for file in files:
        for rule in tomllib.loads(file.read_text(encoding="utf-8"))["rule"]:
            if rule["kind"] == "descriptor":
                named = {"name", "kind", "job", "field", "from", "to", "reason", "fact"}
                assert rule.keys() - {"source", "target"} == named


# --- what comes from it


def test_the_committed_files_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert emit.main(["--check"]) == 0, capsys.readouterr().out


def test_a_change_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at_root = ["--root", str(tmp_path)]
    assert emit.main([*at_root, "--check"]) == 1
    assert emit.main(at_root) == 0
    assert emit.main([*at_root, "--check"]) == 0
    header = tmp_path / emit.HEADER_FILE
    header.write_text(header.read_text().replace("mali_words(d, 14u)", "mali_words(d, 12u)", 1))
    capsys.readouterr()
    assert emit.main([*at_root, "--check"]) == 1
    assert "mali_words(d, 14u)" in capsys.readouterr().out


def test_the_page_has_every_field() -> None:
    text = emit.page()
    every = [*TABLE.descriptors.values(), *valhall_descriptors.TABLE.descriptors.values()]
    for descriptor in every:
        section = text.partition(f"## {descriptor.title} (`{descriptor.name}`)\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| `([^`]+)` \| (\d+):(\d+) \| (\d+) \|", section, re.MULTILINE)
        expected = [(f.name, f.low // 32, f.low % 32, f.width) for f in descriptor.fields.values()]
        assert [(name, *map(int, place)) for name, *place in rows] == expected
    tables = [token for token in MarkdownIt().enable("table").parse(text) if token.type == "table_open"]
    assert len(tables) == 1 + len(every)


# --- a table that contradicts itself

GOOD = (MALI / FILE).read_text(encoding="utf-8")
MALFORMED: list[tuple[str, str, str, str]] = [
    # name, what is replaced, by what, message
    ("not TOML", "[descriptors.draw]", "[descriptors.draw", "not TOML"),
    ("no source", 'source = "Mesa 22.3.6 src/panfrost/lib/genxml/v6.xml"\n', "", "source is missing"),
    ("unknown key", "address_bits = 48", "bits = 1\naddress_bits = 48", "unknown keys bits"),
    ("a field on another", '"is 64b" = { at = [4, 0]', '"is 64b" = { at = [4, 1]', "type lies on another field"),
    (
        "a field outside",
        '"job task split" = { at = [0, 26]',
        '"job task split" = { at = [6, 26]',
        "outside of 24 bytes",
    ),
    ("no such bit", "at = [0, 26]", "at = [0, 32]", "at: expected [word, bit], found [0, 32]"),
    (
        "unknown type",
        'type = "address", flags = 4, to',
        'type = "pointer", flags = 4, to',
        "type: expected number, flag",
    ),
    ("no bits", 'type = "name", bits = 7', 'type = "name"', "type: bits is missing"),
    ("a value too large", "none = 31", "none = 32", "none: expected 0 to 0x1f, found 0x20"),
    (
        "flags of a number",
        "at = [0, 26], bits = 4",
        "at = [0, 26], bits = 4, flags = 1",
        "only an address has flags",
    ),
    ("leads nowhere", 'to = "renderer state"', 'to = "state"', "state leads to 'state', which is missing"),
    ("unknown key of a field", "at = [4, 8] }", "at = [4, 8], bit = 1 }", "barrier: unknown keys bit"),
    (
        "a word outside",
        "words = { control = 4 }",
        "words = { control = 8 }",
        "control: expected 0 to 0x7, found 0x8",
    ),
    ("unknown job", "[jobs.compute]", "[jobs.computer]", "jobs.computer: the job header has no such type"),
    ("unknown part", '[64, "draw"]', '[64, "drawing"]', "draw: expected an offset after the part before it"),
    ("a part on another", '[64, "draw"]', '[56, "draw"]', "draw: expected an offset after the part before it"),
]


@pytest.mark.parametrize(("name", "what", "by", "message"), MALFORMED, ids=[row[0] for row in MALFORMED])
def test_a_malformed_table(name: str, what: str, by: str, message: str) -> None:
    assert what in GOOD
    with pytest.raises(DescriptorError, match=re.escape(message)):
        parse(GOOD.replace(what, by, 1).encode())


def test_a_field_that_is_not_there() -> None:
    with pytest.raises(DescriptorError, match="draw has no field 'shader'; there are: four components"):
        DRAW["shader"]
    with pytest.raises(DescriptorError, match="no job of type 'tiler'; there are: null, write_value"):
        TABLE.place("tiler", "draw.state")
