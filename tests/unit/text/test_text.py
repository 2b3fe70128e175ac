# SPDX-License-Identifier: BSD-2-Clause
"""A trace as text: dumped and assembled it is the same, by functions and by commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import lz4.block
import numpy as np
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.text import words
from host_tools.text.action_lines import FORMS, PATTERNS, ActionLines
from host_tools.text.image_lines import HEX_IMAGE, ImageReader, Marks, image_lines
from host_tools.text.reader import assemble
from signing.sign import sign_trace
from tests.support.signing_samples import ES256
from tests.support.trace_samples import sample, traces
from tests.support.trace_text import plain
from trace_format import assembly, layout, profile
from trace_format.actions import ALL_BITS, FLAG_IGNORE, Op, Type, action, actions_of
from trace_format.schema import HEADER_FLAG_RAW, SECTION_FLAG_OPTIONAL, Codec, SectionType
from trace_format.trace import Trace

GPU = profile.load("v3d42")


def same_again(data: bytes) -> str:
    """The text of a trace, which gives the same bytes."""
    found = plain(data)
    assert assemble(found, "net.txt")[0] == data
    return found


@settings(max_examples=40)  # a trace takes long to draw
@given(traces(), st.booleans(), st.sampled_from([4096, 16384]))
def test_dumped_and_assembled_it_is_the_same(trace: Trace, compress: bool, chunk_bytes: int) -> None:
    found = same_again(trace.build(compress=compress, chunk_bytes=chunk_bytes))
    assert all(line.isprintable() for line in found.split("\n"))


def test_the_demo_recording_too() -> None:
    same_again(RAW.read_bytes())


def parts_of(trace: Trace) -> tuple[list[layout.Part], list[layout.Part], int]:
    header, parts = layout.disassemble(trace.build(compress=False))
    kept = [part for part in parts if part.type != SectionType.CHUNKS]
    return kept[:2], kept[2:], header["flags"]


def test_sections_that_another_program_packed() -> None:
    """Another encoder's LZ4, an image in pieces, one of them empty, spaces in the notes, sections of its own."""
    head, body, flags = parts_of(
        sample().with_(image=np.random.default_rng(1).integers(0, 3, 9000, np.uint8).tobytes())
    )
    image, notes = body[1], body[2]
    packed = lz4.block.compress(image.stored[:5000], store_size=False, acceleration=50)
    pieces = [
        layout.Part(SectionType.IMAGE, packed, 0, Codec.LZ4, 5000),
        layout.Part(SectionType.IMAGE, b""),
        layout.Part(SectionType.IMAGE, image.stored[5000:]),
    ]
    other = [
        layout.Part(77, b"\xff" * 200, SECTION_FLAG_OPTIONAL),
        layout.Part(78, b"not LZ4", SECTION_FLAG_OPTIONAL, Codec.LZ4, 1000),
        layout.Part(79, b"", SECTION_FLAG_OPTIONAL),
    ]
    spaced = layout.Part(SectionType.NOTES, bytes(notes.stored).replace(b":", b" :  "), SECTION_FLAG_OPTIONAL)
    data = assembly.assemble(head, [body[0], *pieces, other[0], spaced, *other[1:]], 4096, flags)
    found = same_again(data)
    assert "  image lz4 5000 base64 " in found
    assert "  section 77 stored 200 base64 200\n" in found
    assert "notes base64 " in found


def test_notes_that_are_empty() -> None:
    head, body, _ = parts_of(sample().with_(notes={}))
    notes = layout.Part(SectionType.NOTES, b"{}", SECTION_FLAG_OPTIONAL)
    assert "notes\n  {}\n" in same_again(assembly.assemble(head, [*body, notes], 16384, HEADER_FLAG_RAW))


def test_a_large_image() -> None:
    """What is not zero is base64, and what is marked is hexadecimal."""
    image = bytearray(HEX_IMAGE + 12345)
    image[70_000:170_000] = np.random.default_rng(3).bytes(100_000)
    marks = Marks({80_000: ["here"]}, {80_008: (8, "an instruction")}, [(80_000, 80_064)])
    lines = list(image_lines(bytes(image), marks))
    assert any(line.startswith("0x000138a0: ") and " base64 " not in line for line in lines)
    assert f"0x00013880: {image[80_003:79_999:-1].hex()} {image[80_007:80_003:-1].hex()}" in lines
    assert f"0x00013888: {image[80_015:80_007:-1].hex()}  # an instruction" in lines
    assert sum(len(line) for line in lines) < 1.5 * 100_000
    reader = ImageReader(len(image))
    for line in lines:
        if found := words.without_comment(line).strip():
            reader.take(found)
    assert reader.end() == image


@given(st.binary(max_size=700), st.data())
def test_an_image_with_marks_anywhere(image: bytes, data: st.DataObject) -> None:
    places = st.integers(0, max(len(image) - 1, 0))
    marks = Marks(
        data.draw(st.dictionaries(places, st.just(["above"]), max_size=4)),
        data.draw(st.dictionaries(places, st.tuples(st.integers(1, 8), st.just("beside")), max_size=4)),
    )
    reader = ImageReader(len(image))
    for line in image_lines(image, marks):
        if found := words.without_comment(line).strip():
            reader.take(found)
    assert reader.end() == image


@given(st.integers(0, ALL_BITS), st.sampled_from(sorted(GPU.bit_names)))
def test_a_value_by_its_fields(value: int, register: str) -> None:
    names = GPU.bit_names[register]
    assert words.value_of(words.value_words(value, names), names) == value


@given(st.text())
def test_a_quoted_text(found: str) -> None:
    line = words.quoted(found)
    assert line.isprintable()
    assert words.unquoted(line) == found
    assert words.without_comment(f"a {line}  # {line}") == f"a {line}"


def test_every_opcode_has_words_that_are_read_again() -> None:
    """And operands that its words leave out."""
    assert set(PATTERNS) == set(Type)
    lines = ActionLines(GPU, ["a", 'b # "'])
    for row in actions_of(sample().actions):
        assert lines.action(lines.line(row)) == row
    odd = action(Op.REG_READ_ONCE, flags=FLAG_IGNORE, register=3, expected=7, mask=0)
    assert lines.line(odd) == "RegReadOnce hub.IDENT1 (any value) with expected 0x7"
    assert lines.action(lines.line(odd)) == odd
    assert len(FORMS) == len(Op)


def test_registers_and_values_by_name() -> None:
    lines = ActionLines(GPU, [])
    control = GPU.register("hub.MMU_CTL").index
    assert lines.line(action(Op.REG_WRITE, register=control, value=0x80080009, mask=ALL_BITS)) == (
        "RegWrite hub.MMU_CTL = 0x80000000 | PT_INVALID_ABORT | TLB_STATS_CLEAR | ENABLE"
    )
    mali = ActionLines(profile.load("mali_g71"), [])
    config = mali.gpu.register("js2.CONFIG_NEXT").index
    assert mali.line(action(Op.REG_WRITE, register=config, value=0x803, mask=ALL_BITS)) == (
        "RegWrite js2.CONFIG_NEXT = JOB_CHAIN | AS(3)"
    )


def command(*arguments: str | Path, status: int = 0, stdin: bytes = b"") -> Any:
    done = CliRunner().invoke(main, [str(a) for a in arguments], input=stdin)
    assert done.exit_code == status, done.output
    return done


def test_the_commands(tmp_path: Path) -> None:
    data = sample().build()
    (tmp_path / "net.gtr").write_bytes(data)
    printed = command("dump", tmp_path / "net.gtr", "--format", "text").stdout
    command("dump", tmp_path / "net.gtr", "--format", "text", "-o", tmp_path / "net.txt")
    assert (tmp_path / "net.txt").read_text(encoding="utf-8") == printed
    said = command("dump", tmp_path / "net.gtr", "-o", tmp_path / "summary").stdout
    assert said == f"{tmp_path / 'summary'}: {(tmp_path / 'summary').read_text().count(chr(10))} lines\n"
    found = json.loads(command("assemble", tmp_path / "net.txt", "-o", tmp_path / "same.gtr", "--json").stdout)
    assert (tmp_path / "same.gtr").read_bytes() == data
    assert (found["name"], found["trace_bytes"]) == ("sample", len(data))
    assert command("assemble", "-", "-o", "-", stdin=printed.encode()).stdout_bytes == data
    as_json = json.loads(command("dump", tmp_path / "net.gtr", "--format", "json").stdout)
    assert as_json == json.loads(command("dump", tmp_path / "net.gtr", "--json").stdout)


def test_of_a_signed_trace_the_text_is_that_of_the_trace(tmp_path: Path) -> None:
    data = sample().build()
    (tmp_path / "net.sgtr").write_bytes(sign_trace(data, ES256))
    printed = command("dump", tmp_path / "net.sgtr", "--format", "text").stdout
    assert re.match(r"# signed by ES256 key [0-9a-f]+: not verified, and not in this text\n", printed)
    said = command("assemble", "-", "-o", tmp_path / "net.gtr", stdin=printed.encode()).stdout
    assert said.endswith("18 actions, not signed\n")
    assert (tmp_path / "net.gtr").read_bytes() == data


def test_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "net.gtr").write_bytes(sample().build())
    for form in ("text", "json"):
        said = command("dump", tmp_path / "net.gtr", "--format", form, "--json", status=2).stderr
        expected = f"--json cannot be combined with --format {form}: there is one standard output"
        assert said == f"error: {expected}\n"
    text = plain(sample().build())
    (tmp_path / "net.txt").write_bytes(text.encode() + b"# \xff\n")
    said = command("assemble", tmp_path / "net.txt", "-o", tmp_path / "out", status=2).stderr
    line = text.count("\n") + 1
    assert said == f"error: {tmp_path / 'net.txt'}:{line}: expected UTF-8, found the byte 0xff\n"
    assert not (tmp_path / "out").exists()
