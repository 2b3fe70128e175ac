# SPDX-License-Identifier: BSD-2-Clause
"""A trace as text: dumped and assembled it is the same; edited it is a valid trace; what is wrong is located."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import lz4.block
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.text import words
from host_tools.text.action_lines import FORMS, PATTERNS, ActionLines
from host_tools.text.image_lines import HEX_IMAGE, ImageReader, Marks, image_lines
from host_tools.text.reader import assemble
from host_tools.text.words import TextError
from host_tools.text.writer import Annotations, text_of
from signing.sign import sign_trace
from tests.support.signing_samples import ES256
from tests.support.trace_samples import sample, traces
from trace_format import codec, layout, profile
from trace_format.actions import ALL_BITS, FLAG_IGNORE, Op, Type, action, actions_of
from trace_format.schema import HEADER_FLAG_RAW, SECTION_FLAG_OPTIONAL, Codec, SectionType
from trace_format.trace import Trace

GPU = profile.load("v3d42")


def text(data: bytes) -> str:
    return "\n".join(text_of(data, Trace.parse(data), Annotations())) + "\n"


def same_again(data: bytes) -> str:
    """The text of a trace, which gives the same bytes."""
    found = text(data)
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
    data = layout.assemble(head, [body[0], *pieces, other[0], spaced, *other[1:]], 4096, flags)
    found = same_again(data)
    assert "  image lz4 5000 base64 " in found
    assert "  section 77 stored 200 base64 200\n" in found
    assert "notes base64 " in found


def test_a_section_that_is_as_small_as_it_can_be() -> None:
    """`build --optimise size` keeps short matches of LZ4; the text says so in a word."""
    head, body, flags = parts_of(
        sample().with_(image=np.random.default_rng(1).integers(0, 3, 9000, np.uint8).tobytes())
    )
    small = codec.packed_as(Codec.LZ4, body[1].stored, smallest=True)
    body[1] = layout.Part(SectionType.IMAGE, small, 0, Codec.LZ4, 9000)
    assert "  image lz4 9000 smallest\n" in same_again(layout.assemble(head, body, 4096, flags))


def test_notes_that_are_empty() -> None:
    head, body, _ = parts_of(sample().with_(notes={}))
    notes = layout.Part(SectionType.NOTES, b"{}", SECTION_FLAG_OPTIONAL)
    assert "notes\n  {}\n" in same_again(layout.assemble(head, [*body, notes], 16384, HEADER_FLAG_RAW))


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


SAMPLE = text(sample().build())
EDITS = {
    "a register's value": ("CSD_QUEUED_CFG0 = WG_X_OFFSET(7)", "CSD_QUEUED_CFG0 = NUM_WGS_X(2) | 0x5"),
    "a register": ("RegWriteKept hub.INT_CLR", "RegWriteKept 0x58"),
    "a slot's name": ('"output"', '"the \\u00f6utput # 1"'),
    "a wait": ("1000 us", "250000 us"),
    "a number of the manifest": ("security_version 3", "security_version 4"),
    "a note": ('"none"', '"edited by hand"'),
    "an action more": ("  Job 0\n", "  Job 0\n  Interval 3 us\n"),
    "an action less": ("  Interval 10 us\n", ""),
    "a word of the image": ("0x00000000: 03020100", "0x00000000: 3f800000"),
    "less is said of storage": ("storage\n  chunk_bytes 16384\n", "storage\n"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_text_is_a_valid_trace(edit: str) -> None:
    before, after = EDITS[edit]
    assert before in SAMPLE
    data, trace = assemble(SAMPLE.replace(before, after), "net.txt")
    assert Trace.parse(data).trace_id == trace.trace_id
    assert (data == sample().build()) == (edit in ("a register", "less is said of storage"))
    assert assemble(text(data), "again.txt")[0] == data


def test_what_an_edit_changes() -> None:
    source = SAMPLE
    for edit in ("a register's value", "a slot's name", "a wait", "a word of the image"):
        source = source.replace(*EDITS[edit])
    trace = assemble(source, "net.txt")[1]
    rows = list(actions_of(trace.actions))
    assert [row.value for row in rows if row.op == Op.REG_WRITE] == [0x20005]
    assert [row.timeout_us for row in rows if row.op == Op.WAIT_IRQ] == [250_000]
    assert [slot.name for slot in trace.slots] == ["input", "the öutput # 1"]
    assert trace.image[:4] == np.float32(1).tobytes()


def test_comments_spaces_and_line_ends_are_passed_over() -> None:
    source = "# hand-made\n\n" + SAMPLE.replace("  Job 0\n", "\t  # here it begins\n\n  Job   0  # the only one\n")
    assert assemble(source.replace("\n", "\r\n"), "net.txt")[0] == sample().build()


def test_little_is_enough() -> None:
    """What is not said has its default."""
    manifest = "manifest\n  gpu v3d42\n  carveout_bytes 4096\n  va_bytes 4096\n"
    data, trace = assemble(f"gramophone-trace 1\n{manifest}actions\n  Interval 5 us\n", "net.txt")
    assert data == trace.build()
    assert (len(trace.actions), trace.image, trace.slots, trace.notes, trace.raw) == (1, b"", [], {}, False)


# what is replaced by what in the text of the sample -> what is said of the line where that is
BAD: dict[str, tuple[str, str, str]] = {
    "another first line": (
        "gramophone-trace 1",
        "gramophone-trace 2",
        "expected `gramophone-trace 1` as the first",
    ),
    "no block": (
        "notes",
        "note",
        "expected a block (manifest, slot, notes, storage, actions, image), found `note`",
    ),
    "a block twice": ("storage\n", "notes\n  {}\nstorage\n", "found `notes` after `notes`"),
    "words after a block": ("\nactions\n", "\nactions now\n", "expected `actions` alone in its line, found `now`"),
    "a line of a slot": ("as0\n\nnotes", "as0\n  more\nnotes", "expected a line in the first column"),
    "an unknown key": ("  kernel ", "  colonel ", "expected a key of the manifest, found `colonel`"),
    "a key twice": ("  kernel ", "  driver ", "found driver again"),
    "an unknown GPU": (
        "gpu v3d42",
        "gpu v3d99",
        "expected a GPU (mali_g31, mali_g52, mali_g52r1, mali_g71, mali_g72, v3d42, v3d71), found `v3d99`",
    ),
    "another policy": (
        "profile_id 0x7",
        "profile_id 0x8",
        "the register policy that this version has of the GPU, found `0x8",
    ),
    "neither yes nor no": ("raw no", "raw maybe", "expected yes or no, found `maybe`"),
    "no number": ("retry_limit 2", "retry_limit two", "expected a number, found `two`"),
    "a number too large": ("retry_limit 2", "retry_limit 4294967296", "of at most 0xffffffff, found `4294967296`"),
    "a hash too short": ("source_hash 00", "source_hash ", "expected 64 hexadecimal digits, found"),
    "no quotes": ('kernel ""', "kernel Linux", "expected a text in double quotes, escaped as JSON, found `Linux`"),
    "a text too long": ('kernel ""', f'kernel "{"k" * 65}"', "expected at most 64 bytes of UTF-8 without NUL"),
    "a lone surrogate": ('kernel ""', r'kernel "\ud800"', "expected a text in double quotes"),
    "a carve-out of half a page": ("carveout_bytes 0x10000", "carveout_bytes 0x10800", "a multiple of 4096"),
    "no slot's words": ("float32 [2, 3]", "float32 (2, 3)", 'expected `slot "NAME" KIND TYPE [SHAPE]'),
    "an unknown type": ("float32 [2", "float33 [2", "expected an element type (float32, float16, int32"),
    "an unknown kind": (
        "input float32",
        "inout float32",
        "a slot's kind (input, output, parameter, internal)",
    ),
    "a slot's name twice": ('slot "output"', 'slot "input"', "slot name 'input' is empty or used twice"),
    "a stride too small": ("strides [12, 4]", "strides [12, 2]", "slot input: dimension 3 with stride 2"),
    "a slot outside": ("at 0x00010100", "at 0x00040000", "slot output reaches beyond va_bytes"),
    "an address space too many": ("as0 bound", "as1 bound", "slot input: no such address space"),
    "notes that are no object": ("  {\n", "  [{}]\n", "expected notes in JSON"),
    "a chunk of three": ("chunk_bytes 16384", "chunk_bytes 12288", "a power of two from 4096 to 65536"),
    "an unknown section": ("  slots lz4", "  slot lz4", "expected `chunk_bytes NUMBER`, or a section"),
    "an unknown codec": ("  slots lz4", "  slots zip", "expected a codec (stored, lz4, planes), found `zip`"),
    "the smallest way where there is one": ("notes stored", "notes stored smallest", "`smallest` after lz4 alone"),
    "a known section's number": ("notes stored", "section 16 stored 1 base64 1", "that no known section has"),
    "a section without its bytes": ("notes stored", "section 99 stored 1", "expected a size in bytes and base64"),
    "a size where none belongs": ("notes stored", "notes stored 22", "expected no size in bytes"),
    "an image's section of another size": (
        "image lz4 8195",
        "image lz4 8194",
        "for the 8195 bytes of image, found 81",
    ),
    "another content's bytes": (
        "slots lz4",
        "slots lz4 base64 3\n    AAAA",
        "expected packed bytes of what the sect",
    ),
    "no base64": ("slots lz4", "slots lz4 base64 3\n    A?==", "expected base64, found `A?==`"),
    "too much base64": (
        "slots lz4",
        "slots lz4 base64 2\n    AAAA",
        "expected at most 2 bytes in base64, found 3",
    ),
    "an unknown action": (
        "  ReplayStart",
        "  ReplayStop",
        "expected an action (RegReadOnce, RegReadWait, RegWrite",
    ),
    "an action's words": (
        "RegWriteKept hub.INT_CLR kept[1]",
        "RegWriteKept hub.INT_CLR = 1",
        "`RegWriteKept REGIST",
    ),
    "an unknown register": (
        "RegWriteKept hub.INT_CLR",
        "RegWriteKept hub.INT_CLEAR",
        "expected a register of the v",
    ),
    "half a register": (
        "RegWriteKept hub.INT_CLR",
        "RegWriteKept 0x5a",
        "expected an offset that is a multiple of 4",
    ),
    "an unknown field": (
        "WG_X_OFFSET(7)",
        "WG_Z_OFFSET(7)",
        "of the fields NUM_WGS_X, WG_X_OFFSET, found `WG_Z_OFF",
    ),
    "a field without its number": ("WG_X_OFFSET(7)", "WG_X_OFFSET", "expected WG_X_OFFSET(NUMBER) up to 65535"),
    "a field too large": ("WG_X_OFFSET(7)", "WG_X_OFFSET(65536)", "a number in WG_X_OFFSET of at most 0xffff"),
    "a field twice": ("WG_X_OFFSET(7)", "WG_X_OFFSET(7) | 0x4", "expected bits that are given once"),
    "a value too large": ("WG_X_OFFSET(7)", "0x100000000", "expected a value of 32 bits of at most 0xffffffff"),
    "an unknown slot": (
        'CopyToGpu slot "input"',
        'CopyToGpu slot "in"',
        "expected a slot of this trace (input, outp",
    ),
    "an unknown line": ("WaitIrq v3d", "WaitIrq gpu", "expected an interrupt line (v3d), found `gpu`"),
    "a range of another size": (
        "017fff (8 pages) ->",
        "017fff (7 pages) ->",
        "expected 0x16fff as the last address",
    ),
    "half a page": ("-> 0x00008000", "-> 0x00008800", "expected a multiple of 0x1000"),
    "unknown flags": ("rwx", "rwq", "expected `MapGpuMem asNUMBER 0xFIRST..0xLAST"),
    "flags in disorder": ("rwx", "wrx", "expected r or -, found `wrx`"),
    "no such operand": (
        "Interval 10 us",
        "Interval 10 us with us 3",
        "expected an operand of Interval that is not",
    ),
    "no such flag": ("  ReplayStart", "  ReplayStart with flag r", "expected a flag that ReplayStart has"),
    "no timeout": ("within 1000 us", "within 0 us", "action 10: timeout is zero"),
    "a write to the image": ("-> 0x00008000 rwx", "-> 0x00001000 rwx", "the GPU may write to the image"),
    "a job's number": ("  Job 0", "  Job 1", "job numbers do not count from 0: expected 0, found 1"),
    "a second start": ("  Interval 10 us", "  ReplayStart", "action 9: a second ReplayStart"),
    "an image's words": ("image 8195\n", "image\n", "expected `image NUMBER`, its size in bytes"),
    "an offset": ("  0x00000020:", "  0x00000024:", "expected offset 0x00000020, found 0x00000024"),
    "a digit missing": (
        "0x00000000: 03020100",
        "0x00000000: 3020100",
        "expected groups of 2 to 16 hexadecimal digits",
    ),
    "no offset": ("  0x00000020:", "  ", "expected an offset and bytes, such as"),
    "too many zeros": ("  0x00002000: ", "  0x00002000: zeros 4 #", "expected a number of bytes of at most 0x3"),
    "an unfinished piece": ("  0x00002000: ", "  0x00002000: base64 3 #", "expected 3 more bytes in base64"),
    "an image that is too short": (
        "  0x00002000: ",
        "  # 0x00002000: ",
        "expected an image of 8195 bytes, found 8192",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_located(case: str) -> None:
    before, after, expected = BAD[case]
    at = SAMPLE.index(before)
    source = SAMPLE[:at] + after + SAMPLE[at + len(before) :]
    with pytest.raises(TextError) as error:
        assemble(source, "net.txt")
    found = re.fullmatch(r"net\.txt:(\d+): (.*)", str(error.value))
    assert found
    assert expected in found[2]
    first = SAMPLE[:at].count("\n") + 1
    # Sections are judged when all is there, a block when it ends.
    later = case in ("an image's section of another size", "notes that are no object")
    assert later or int(found[1]) in range(first - 1, first + 2 + after.count("\n")), found[0]


@pytest.mark.parametrize("left_out", ["manifest", "actions", "image", "storage", "notes"])
def test_a_block_is_left_out(left_out: str) -> None:
    source = re.sub(rf"^{left_out}.*\n(?:  .*\n)*", "", SAMPLE, flags=re.M)
    assert source != SAMPLE
    if left_out == "storage":
        assert assemble(source, "net.txt")[0] == sample().build()
        return
    with pytest.raises(TextError) as error:
        assemble(source, "net.txt")
    said = {
        "manifest": "expected the manifest as the first block, found `slot",
        "actions": "expected `actions`, found the end of the text",
        "image": "action 6: source outside the image",
        "notes": "expected notes, for there is a section for them, found none",
    }
    assert said[left_out] in str(error.value)


@pytest.mark.parametrize("source", ["", "\n\n# nothing\n", "  gramophone-trace 1\n", "gramophone-trace 1\n"])
def test_almost_nothing(source: str) -> None:
    with pytest.raises(TextError, match=r"net\.txt:\d+: expected `(gramophone-trace 1` as the first|manifest`)"):
        assemble(source, "net.txt")


@given(st.text(alphabet=st.characters(codec="utf-8")), st.integers(0, len(SAMPLE)), st.integers(0, 40))
def test_any_damage_is_located(more: str, at: int, less: int) -> None:
    """Or does no harm: a comment is damaged, say."""
    source = SAMPLE[:at] + more + SAMPLE[at + less :]
    try:
        found = "" if Trace.parse(assemble(source, "net.txt")[0]) else "no trace"
    except TextError as error:
        found = str(error)
    assert re.match(r"net\.txt:\d+: |$", found)


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
        expected = f"--json and --format {form} exclude each other: there is one standard output"
        assert said == f"error: {expected}\n"
    (tmp_path / "net.txt").write_bytes(SAMPLE.encode() + b"# \xff\n")
    said = command("assemble", tmp_path / "net.txt", "-o", tmp_path / "out", status=2).stderr
    line = SAMPLE.count("\n") + 1
    assert said == f"error: {tmp_path / 'net.txt'}:{line}: expected UTF-8, found the byte 0xff\n"
    assert not (tmp_path / "out").exists()
