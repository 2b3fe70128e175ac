# SPDX-License-Identifier: BSD-2-Clause
"""The schemas of `--json`: one for each command, made of its result's type; and what they let through.

That they fit real outputs is checked wherever a test runs a command with --json (tests/support/json_schemas.py).
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from docs import json_page
from host_tools.cli import main
from host_tools.commands import record_options as recording_options
from host_tools.commands.result_schemas import commands
from host_tools.demo import RAW
from host_tools.flash.check import Checked
from host_tools.flash.contents import Contents
from host_tools.flash.manifest import Manifest, TrustedApplication
from host_tools.flash.signed_ta import PUBLISHED_KEY
from host_tools.model.description import action_fields
from host_tools.support.messages import LOG, listening, warn
from host_tools.support.results import fields
from signing import key_files
from tests.support import crypto_trees, json_schemas
from tests.support.places import CHECKOUT
from tests.support.signing_samples import EDDSA, ES256, small_trace
from trace_format.actions import ACTIONS, Action
from trace_format.profile import load
from trace_format.trace import Trace

NAMES = [" ".join(words) for words, _ in commands(main)]


@pytest.mark.parametrize("name", NAMES)
def test_each_object_is_strict_and_said_what_it_is(name: str) -> None:
    schema = json_schemas.validator(name).schema
    json_schemas.validator(name).check_schema(schema)
    for part in (*schema["oneOf"], *schema.get("$defs", {}).values()):
        assert part["description"], part["title"]
        assert part.get("additionalProperties", True) is False or "properties" not in part
        assert "Attributes:" not in part["description"], part["title"]


def test_a_part_of_a_docstring_is_its_fields() -> None:
    """Also where two fields share it, and where it goes over two lines."""
    slot = json_schemas.validator("dump").schema["$defs"]["SlotFacts"]["properties"]
    assert slot["strides"]["description"] == "In bytes."
    network = json_schemas.validator("dump").schema["$defs"]["Network"]
    texts = {name: field.get("description") for name, field in network["properties"].items()}
    assert texts["first_slot"] == texts["slot_count"] == "its slots."
    assert network["required"] == list(network["properties"])
    signed = json_schemas.validator("sign").schema["oneOf"][0]["properties"]
    assert signed["proven_recipients"]["description"].endswith("the others are claims.")


def test_the_page_is_up_to_date() -> None:
    assert (CHECKOUT / json_page.PAGE).read_text(encoding="utf-8") == json_page.page()


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_described_fits(name: str) -> None:
    json_schemas.check(name, {"ok": False, "error": "no"})
    bad: list[Any] = [{}, {"ok": True}, {"ok": True, "error": "no"}, {"ok": False, "error": "no", "more": 1}, []]
    for data in bad:
        with pytest.raises(AssertionError):
            json_schemas.check(name, data)


def command(*words: str, status: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == status, done.output
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.gtr").write_bytes(small_trace())
    Path("raw.gtr").write_bytes(Trace.parse(small_trace()).with_(raw=True).build())
    Path("key.pem").write_bytes(key_files.private_pem(ES256.key))
    Path("eddsa.pem").write_bytes(key_files.private_pem(EDDSA.key))
    Path("pub.pem").write_bytes(ES256.public.pem())


def test_warnings_are_in_the_result() -> None:
    assert command("sign", "net.gtr", "--signing-key", "key.pem", "-o", "a")["warnings"] == []
    found = command("sign", "raw.gtr", "--signing-key", "eddsa.pem", "-o", "b")
    assert [text.split(" ")[:2] for text in found["warnings"]] == [["raw.gtr:", "devices"], ["raw.gtr", "is"]]
    assert not any(text.startswith("warning") for text in found["warnings"])
    trees = crypto_trees.empty(Path("trees"))
    options = ("--bearssl", str(trees.bearssl), "--aws-lc", str(trees.aws_lc), "--key", "pub.pem", "-o", "out")
    optee = command("generate", "--gpu", "v3d42", "--platform", "optee", "--any-client", *options)
    assert any("lets any client open sessions" in text for text in optee["warnings"])


@pytest.mark.parametrize("key", [PUBLISHED_KEY, "0" * 64])
def test_an_image_whose_ta_anybody_can_sign(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is what it must be; that is not all that a caller must know."""
    ta = TrustedApplication("ta/x.ta", "x", 0, key)
    manifest = Manifest("tool", "optee", "v3d42", "0", "0" * 32, "0" * 64, 0, (), (), (ta,), (), 0, "0" * 64)
    checked = Checked("archive", manifest, "0" * 64, cast(Contents, None), (), ())
    monkeypatch.setattr("host_tools.commands.flash.check_image", lambda *_: checked)
    warnings = command("flash", "--check", "net.gtr")["warnings"]
    assert ["anybody can sign TAs for this core" in text for text in warnings] == [True] * (key == PUBLISHED_KEY)


def test_only_warnings_count(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(quiet=True) as warnings:
        LOG.info("a note")
        LOG.error("an error")
        LOG.log(logging.DEBUG, "a detail")
        warn("a warning")
    assert warnings == ["a warning"]
    assert "warning: a warning\n" in capsys.readouterr().err


def test_a_dump_has_fields() -> None:
    found = command("dump", "net.gtr")["action_list"]
    assert found == [{"op": "Interval", "us": 7}, {"op": "ReplayStart", "flags": []}, {"op": "Interval", "us": 9}]


@pytest.mark.parametrize("row", ACTIONS.values(), ids=lambda row: row.name)
def test_every_action_fits_the_schema(row: Any) -> None:
    """All operands are there, by the names of docs/FORMAT.md, and all flags."""
    trace = Trace.read(CHECKOUT / "host_tools/demo/lenet/lenet.raw.gtr")
    action = Action(int(row.op), sum(row.flags), 0, 3, 2, 1)
    fields = action_fields(action, load("v3d42"), trace.slots)
    assert {operand.name for operand in row.operands} <= fields.keys()
    assert fields.get("flags", []) == [flag.name for flag in row.flags.values()]
    assert (fields.get("offset") == 0) == ("register" in fields)
    dump = {"ok": True, "warnings": [], **command("dump", "net.gtr"), "action_list": [fields]}
    json_schemas.check("dump", dump)


def test_registers_of_a_recording() -> None:
    recording = str(CHECKOUT / "host_tools/demo/lenet/lenet.raw.gtr")
    first = command("dump", recording)["action_list"][:5]
    offset = load("v3d42").register("hub.MMU_DEBUG_INFO").offset
    assert first[0] == {
        "op": "RegReadOnce",
        "register": "hub.MMU_DEBUG_INFO",
        "offset": offset,
        "expected": 0x621,
        "mask": 0xFFFFFFFF,
        "flags": [],
    }
    assert first[4]["op"] == "RegWrite"
    assert first[4]["register"] == "core0.CTL_L2TFLSTA"


@pytest.mark.parametrize("stamp", ["", "20261101T000000Z"])
def test_what_record_prints(stamp: str) -> None:
    """Without the boots before it."""
    outcome = recording_options.written(Trace.parse(RAW.read_bytes()), Path("out"), stamp)
    json_schemas.check("record ncnn", {"ok": True, "warnings": [], **json.loads(json.dumps(fields(outcome.data)))})
