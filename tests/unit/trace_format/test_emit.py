# SPDX-License-Identifier: BSD-2-Clause
"""The generated descriptions: up to date, and read by programs that know nothing of the schema.

The C headers have tests of their own in tests/emulated.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from construct import Struct
from markdown_it import MarkdownIt

from signing.keys import Algorithm, PublicKey, generate
from signing.sign import FileSigner, sign_trace
from tests.support.places import CHECKOUT
from tests.support.trace_samples import Damage, sample
from trace_format import errors, packing, schema
from trace_format.actions import ACTION_DTYPE, ACTIONS
from trace_format.emit import __main__ as emit
from trace_format.emit import (
    kaitai,
    kaitai_capture,
    markdown,
    markdown_capture,
    markdown_device,
    walk,
)
from trace_format.operators import OPERATORS
from trace_format.schema import STRUCTURES, SectionType
from trace_format.schema.capture import RecordKind
from trace_format.schema.vocabulary import Described, u64

KAITAI_FOLDER = CHECKOUT / "build" / "npm" / "node_modules"


# --- the command


def test_the_committed_files_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    status = emit.main(["--check"])
    assert status == 0, capsys.readouterr().out


def test_write_then_check_then_notice_a_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at_root = ["--root", str(tmp_path)]
    assert emit.main([*at_root, "--check"]) == 1, "files that are missing are stale"
    assert list(tmp_path.rglob("*")) == [], "--check writes nothing"
    assert emit.main(at_root) == 0
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == set(emit.EMITTERS)
    assert emit.main([*at_root, "--check"]) == 0
    for name in emit.EMITTERS:
        path = tmp_path / name
        good = path.read_text()
        path.write_text(good.replace("enerated", "enareted", 1))
        capsys.readouterr()
        assert emit.main([*at_root, "--check"]) == 1
        out = capsys.readouterr().out
        assert f"--- {name}\n" in out
        assert out.count("\n@@ ") == 1
        path.write_text(good)
    assert emit.main([*at_root, "--check"]) == 0


def shapes_of(group: schema.Format) -> set[str]:
    """Generated files that have a format's structures."""
    if group is schema.TRACE:
        own = {"docs/FORMAT.md", "gramophone_trace.h", "gramophone_trace.ksy"}
    elif group in (schema.CAPTURE, schema.COUNTERS):
        own = {"docs/FORMAT-CAPTURE.md", "gramophone_capture.ksy"}
    else:
        own = {"docs/FORMAT-DEVICE.md"}
    return {name if "/" in name else f"trace_format/generated/{name}" for name in own} | {
        f"trace_format/generated/gramophone_{group.name}.h"
    }


@pytest.mark.parametrize("group", schema.FORMATS, ids=lambda group: group.name)
def test_a_structure_that_grows_is_seen_everywhere(group: schema.Format, monkeypatch: pytest.MonkeyPatch) -> None:
    name, (shape, doc) = list(group.structures.items())[-2 if group is schema.TRACE else -1]
    grown = Struct(*shape.subcons, "colour" / u64 * "a field that was not there")
    monkeypatch.setitem(group.structures, name, (grown, doc))
    assert {name for name, emitter in emit.EMITTERS.items() if "colour" in emitter()} == shapes_of(group)


# --- FORMAT.md


def test_format_document_names_everything() -> None:
    text = markdown.emit()
    for structure in walk.structures():
        assert f"**`{structure.name}`**, {structure.size} bytes" in text
        for field in structure.fields:
            assert f"| {field.offset} | {field.size} | `{field.name}` |" in text
    for row in ACTIONS.values():
        assert f"| `{row.op:#04x}` | **{row.name}** | {row.what} |" in text
    for name, error in vars(errors).items():
        if isinstance(error, type) and issubclass(error, errors.TraceError):
            assert f"`{name}`" in text
    assert not re.search(r"\{\w+\}", text), "a placeholder was left"
    tables = [token for token in MarkdownIt().enable("table").parse(text) if token.type == "tr_open"]
    for operator in OPERATORS.values():
        assert f"| {int(operator.operator)} **{operator.name}** | {operator.what}" in text
    heads = len(STRUCTURES) + 3  # and those of actions, operators and errors
    fields = sum(len(structure.fields) for structure in walk.structures())
    classes = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.TraceError)]
    assert len(tables) == heads + fields + len(ACTIONS) + len(OPERATORS) + len(classes)


@pytest.mark.parametrize(
    ("groups", "document"),
    [
        ((schema.CAPTURE, schema.COUNTERS), markdown_capture),
        (
            (schema.REPORT, schema.MAILBOX, schema.NORMAL_WORLD, schema.DEVICE, schema.BOARD, schema.OPTEE),
            markdown_device,
        ),
    ],
)
def test_the_other_documents_name_everything(groups: tuple[schema.Format, ...], document: Any) -> None:
    text = document.emit()
    for structure in (structure for group in groups for structure in walk.structures(group)):
        assert f"**`{structure.name}`**, {structure.size} bytes" in text
        for field in structure.fields:
            assert f"| {field.offset} | {field.size} | `{field.name}` |" in text
    for item in (item for group in groups for values in group.enumerations for item in values):
        assert isinstance(item, Described)
        assert f"| `{item.name}` | {item.text} |" in text
    assert not re.search(r"\{\w+\}", text), "a placeholder was left"


def run_snippet(folder: Path, signed: bytes, key: bytes) -> None:
    """Run the program of FORMAT.md in a process of its own."""
    (folder / "trace.sgtr").write_bytes(signed)
    (folder / "key.bin").write_bytes(key)
    (code,) = re.findall(r"```python\n(.*?)```", markdown.emit(), re.DOTALL)
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)


def test_the_program_in_the_format_document_verifies_a_trace(tmp_path: Path) -> None:
    key = generate(Algorithm.ES256)
    trace = sample().build(compress=False, chunk_bytes=4096)
    signed = sign_trace(trace, FileSigner(key))
    run_snippet(tmp_path, signed, PublicKey(key.public_key()).raw)
    start = len(signed) - len(trace)
    for at in (start + 200, len(signed) - 7, start + 5000):
        bad = bytearray(signed)
        bad[at] ^= 1
        with pytest.raises(subprocess.CalledProcessError) as caught:
            run_snippet(tmp_path, bytes(bad), PublicKey(key.public_key()).raw)
        assert b"AssertionError" in caught.value.stderr or b"InvalidSignature" in caught.value.stderr
    other = generate(Algorithm.ES256)
    with pytest.raises(subprocess.CalledProcessError):
        run_snippet(tmp_path, signed, PublicKey(other.public_key()).raw)


# --- Kaitai Struct


@pytest.fixture(scope="module")
def kaitai_modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModuleType]:
    """The generated descriptions, compiled to Python by Kaitai's own compiler."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is missing: pip install pyyaml")
    pytest.importorskip("kaitaistruct", reason="kaitaistruct is missing: pip install kaitaistruct")
    if not shutil.which("node"):
        pytest.skip("node is missing: apt-get install nodejs npm")
    if not (KAITAI_FOLDER / "kaitai-struct-compiler").is_dir():
        pytest.skip("kaitai-struct-compiler is missing: make setup-test")
    specs = {
        "gramophone_trace": kaitai.emit(),
        "gramophone_signed_trace": kaitai.emit_signed(),
        "gramophone_capture": kaitai_capture.emit(),
    }
    folder = tmp_path_factory.mktemp("kaitai")
    for root in ("gramophone_signed_trace", "gramophone_capture"):  # the first imports the plain trace
        done = subprocess.run(
            ["node", Path(__file__).with_name("kaitai_compile.js"), KAITAI_FOLDER, root],
            input=json.dumps({name: yaml.safe_load(text) for name, text in specs.items()}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for name, text in json.loads(done.stdout).items():
            (folder / name).write_text(text)
    sys.path.insert(0, str(folder))
    try:
        return {name: importlib.import_module(name) for name in specs}
    finally:
        sys.path.remove(str(folder))


def expect_same(structure: str, parsed: Any, data: bytes, offset: int) -> None:
    """Compare what Kaitai parsed with what the schema says of the same bytes, field by field."""
    size = STRUCTURES[structure][0].sizeof()
    values = packing.unpack(structure, data[offset : offset + size], offset)
    shape = next(s for s in walk.structures() if s.name == structure)
    for field in shape.fields:
        found = getattr(parsed, field.name)
        if field.kind is walk.Kind.RESERVED:
            assert found == bytes(field.size)
        elif field.kind is walk.Kind.MAGIC:
            assert found == field.magic
        elif field.kind is walk.Kind.LIST:
            assert tuple(found) == values[field.name]
        else:
            assert found == values[field.name], f"{structure}.{field.name}"


@pytest.mark.parametrize("compress", [False, True])
def test_kaitai_reads_every_field(kaitai_modules: dict[str, ModuleType], compress: bool) -> None:
    trace = sample()
    trace.meta |= {"kernel": "ядро 6.1", "driver": "x" * 64}
    data = trace.build(compress=compress, chunk_bytes=4096)
    check_parsed(kaitai_modules["gramophone_trace"].GramophoneTrace.from_bytes(data), data)


def check_parsed(parsed: Any, data: bytes) -> None:
    """Compare everything that Kaitai made of a trace with its bytes."""
    damage = Damage(data)
    expect_same("header", parsed.header, data, 0)
    assert len(parsed.sections) == damage.header("section_count")
    packed = 0
    for index, section in enumerate(parsed.sections):
        expect_same("section", section, data, 64 + 32 * index)
        start, size = damage.entry(index, "offset"), damage.entry(index, "stored_bytes")
        stored = data[start : start + size]
        assert section.stored == stored
        packed += damage.entry(index, "codec") != schema.Codec.STORED
        if damage.entry(index, "codec") != schema.Codec.STORED:
            assert section.content is None
        elif section.type == SectionType.MANIFEST:
            expect_same("manifest", section.content, data, start)
        elif section.type == SectionType.SLOTS:
            assert len(section.content.slots) == 2
            for i, slot in enumerate(section.content.slots):
                expect_same("slot", slot, data, start + 128 * i)
        elif section.type == SectionType.CHUNKS:
            assert section.content.sha256 == [stored[i : i + 32] for i in range(0, size, 32)]
        elif section.type == SectionType.ACTIONS:
            rows = np.frombuffer(stored, ACTION_DTYPE)
            names = ACTION_DTYPE.names or ()
            assert [tuple(int(getattr(a, n)) for n in names) for a in section.content.actions] == rows.tolist()
        else:
            assert section.content == stored
    assert (packed > 0) == (damage.header("chunk_count") == 1)


def test_kaitai_reads_a_signed_trace(kaitai_modules: dict[str, ModuleType]) -> None:
    trace = sample().build()
    signed = sign_trace(trace, FileSigner(generate(Algorithm.EDDSA)))
    parsed = kaitai_modules["gramophone_signed_trace"].GramophoneSignedTrace.from_bytes(signed)
    expect_same("signed_header", parsed.header, signed, 0)
    size = parsed.header.envelope_bytes
    assert parsed.envelope == signed[32 : 32 + size]
    assert len(parsed.padding) == -size % 8
    check_parsed(parsed.trace, trace)


def test_kaitai_refuses_magic_and_reserved_bytes(kaitai_modules: dict[str, ModuleType]) -> None:
    kaitaistruct = importlib.import_module("kaitaistruct")
    read = kaitai_modules["gramophone_trace"].GramophoneTrace.from_bytes
    data = sample().build()
    for at in (0, 7, 40, 63, 64 + 6):
        bad = bytearray(data)
        bad[at] ^= 1
        with pytest.raises(kaitaistruct.ValidationNotEqualError):
            read(bytes(bad))


def test_kaitai_reads_a_capture(kaitai_modules: dict[str, ModuleType]) -> None:
    mapping = packing.pack("capture_mapping", {"address": 0x41000000, "flags": 3})
    counters = {name: index for index, name in enumerate(packing.Row("vgpu_counters").unpack(bytes(80))._fields)}
    events = [
        ((RecordKind.WRITE, 5, 0x1000, 3), b""),
        ((RecordKind.MAP, 0, 0x10, 2), mapping),
        ((RecordKind.NEW_PAGE, 0, 0x10, 0), b"\1" * 4096),
        ((RecordKind.BYTES, 7, 0x10004, 3), b"abc" + bytes(13)),
        ((RecordKind.BYTES, 0, 0x10004, 16), bytes(range(16))),
        ((RecordKind.END, 0, 0, 0), packing.pack("capture_end", {"records": 5, "counters": counters})),
    ]
    header = packing.pack("capture_header", {"window_bytes": 0xC000, "interrupt_lines": 1, "gpu": "v3d42"})
    record = packing.Row("capture_record")
    rows = [record.pack(**dict(zip(("kind", "delta", "a", "b"), values, strict=True))) for values, _ in events]
    data = header + b"".join(row + tail for row, (_, tail) in zip(rows, events, strict=True))
    parsed = kaitai_modules["gramophone_capture"].GramophoneCapture.from_bytes(data)
    assert (parsed.header.window_bytes, parsed.header.interrupt_lines, parsed.header.gpu) == (0xC000, 1, "v3d42")
    found = [(e.record.kind.value, e.record.delta, e.record.a, e.record.b) for e in parsed.events]
    assert found == [values for values, _ in events]
    assert (parsed.events[1].data.address, parsed.events[1].data.flags) == (0x41000000, 3)
    assert parsed.events[2].data.content == b"\1" * 4096
    assert [event.data.content for event in parsed.events[3:5]] == [b"abc", bytes(range(16))]
    last = parsed.events[5].data
    assert last.records == 5
    assert {name: getattr(last.counters, name) for name in counters} == counters
    bad = bytearray(data)
    bad[-1] = 1
    with pytest.raises(importlib.import_module("kaitaistruct").ValidationNotEqualError):
        kaitai_modules["gramophone_capture"].GramophoneCapture.from_bytes(bytes(bad))
