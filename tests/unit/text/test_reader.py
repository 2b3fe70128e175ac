# SPDX-License-Identifier: BSD-2-Clause
"""A trace's text that was written or edited by hand: what it becomes, and where what is wrong with it stands."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.text.reader import assemble
from host_tools.text.words import TextError
from tests.support.trace_samples import sample
from tests.support.trace_text import plain
from trace_format.actions import Op, actions_of
from trace_format.trace import Trace

SAMPLE = plain(sample().build())
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
    assert assemble(plain(data), "again.txt")[0] == data


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
        "expected a block (manifest, slot, network, notes, storage, actions, image), found `note`",
    ),
    "a block twice": ("storage\n", "notes\n  {}\nstorage\n", "found `notes` after `notes`"),
    "words after a block": ("\nactions\n", "\nactions now\n", "expected `actions` alone in its line, found `now`"),
    "a line of a slot": ("as0\n\nnotes", "as0\n  more\nnotes", "expected a line in the first column"),
    "an unknown key": ("  kernel ", "  colonel ", "expected a key of the manifest, found `colonel`"),
    "a key twice": ("  kernel ", "  driver ", "found driver again"),
    "an unknown GPU": (
        "gpu v3d42",
        "gpu v3d99",
        "expected a GPU (mali_g31, mali_g52r1, mali_g610, mali_g71, mali_g72, v3d42, v3d71), found `v3d99`",
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
    "an unknown codec": ("  slots lz4", "  slots zip", "expected a codec (stored, lz4), found `zip`"),
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
