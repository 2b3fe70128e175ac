# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone lint`: each rule finds what breaks it, and nothing in what is good."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from host_tools.audit.document import TARGET
from host_tools.audit.lint import STOPPED, lint, stopped
from host_tools.audit.rules import RULES, Severity, document
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.passes.pipeline import build
from signing.envelope import split
from signing.key_files import private_pem
from tests.support import hostile
from tests.support import replayer_samples as s
from tests.support.hostile_rows import Hostile
from tests.support.replayer_samples import PAGE, VA, trace, write
from trace_format import profile
from trace_format.actions import (
    ALL_BITS,
    FLAG_BESIDE,
    FLAG_REPEAT,
    MAP_EXECUTE,
    MAP_READ,
    MAP_WRITE,
    Action,
    Op,
    action,
    array_of,
)
from trace_format.errors import TraceError
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

CODE_VA, WORK_VA = 4, 8  # pages
DONE = write("core0.INT_CLR", 0x80)
WAIT = action(Op.WAIT_IRQ, timeout_us=100)
MAPS = (
    action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_EXECUTE, pages=1, va_page=CODE_VA, frame=0),
    action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=2, va_page=WORK_VA, frame=s.MEMORY_PAGE),
    action(Op.CLEAR, bytes=64, target=s.MEMORY_PAGE * PAGE),
    action(Op.SET_GPU_PGTABLE),
    action(Op.REPLAY_START),
)
MALI = profile.load("mali_g71")


def job(code: int = CODE_VA, uniforms: int = WORK_VA * PAGE, number: int = 0) -> tuple[Action, ...]:
    return (
        action(Op.JOB, number=number),
        write("core0.CSD_QUEUED_CFG5", code * PAGE | 5),
        write("core0.CSD_QUEUED_CFG6", uniforms),
        write("core0.CSD_QUEUED_CFG0", 1 << 16),
    )


def slot(name: str, kind: SlotKind, page: int, offset: int = 0) -> Slot:
    return Slot(name, kind, DType.FLOAT32, (4,), (4,), page * PAGE + offset, bound=True)


def good(*extra: Action, maps: tuple[Action, ...] = MAPS, slots: list[Slot] | None = None, **meta: Any) -> Trace:
    """A trace with one job, whose end is waited for and acknowledged; then what is given."""
    slots = slots or []
    copies = [action(Op.COPY_TO_GPU, slot=i) for i, item in enumerate(slots) if item.kind != SlotKind.OUTPUT]
    copies += [action(Op.COPY_FROM_GPU, slot=i) for i, item in enumerate(slots) if item.kind == SlotKind.OUTPUT]
    rows = [*maps, *job(), WAIT, DONE, *copies, *extra]
    return trace(*rows, slots=slots, meta={"name": "small"} | meta)


def on_mali(*rows: Action) -> Trace:
    return Trace("mali_g71", array_of(rows), b"", 16 * PAGE, 32 * PAGE)


def on(register: str, value: int) -> Action:
    return action(
        Op.REG_WRITE, register=profile.load("mali_g71").register(register).index, value=value, mask=ALL_BITS
    )


def space_command(value: int, space: int = 0) -> Action:
    return on(f"as{space}.COMMAND", value)


START = on("js1.COMMAND_NEXT", 1)

BOTH = [slot("in", SlotKind.INPUT, WORK_VA), slot("out", SlotKind.OUTPUT, WORK_VA, 256)]
INNER = [slot(name, SlotKind.INTERNAL, WORK_VA, at) for name, at in (("to", 0), ("from", 64))]
# Rule -> a trace that breaks it.
BROKEN: dict[str, Callable[[], Trace]] = {
    "GR002": lambda: good().with_(raw=True),
    "GR006": lambda: good(security_version=65_536),
    "GR101": lambda: good(write("hub.MMU_CTL", 0)),
    "GR102": lambda: good(action(Op.REG_WRITE_KEPT, register=s.register("core0.CTL_L2TCACTL"), keep=1)),
    "GR103": lambda: good(action(Op.REG_READ_KEEP, register=s.register("hub.IDENT1"), keep=0)),
    "GR202": lambda: good(*job(WORK_VA, number=1), WAIT, DONE),
    "GR203": lambda: on_mali(
        action(Op.MAP_GPU_MEM, flags=MAP_WRITE | MAP_EXECUTE, pages=1, va_page=VA, frame=s.MEMORY_PAGE)
    ),
    "GR204": lambda: good(
        *job(WORK_VA, number=1),
        *(WAIT, DONE),
        action(Op.MAP_GPU_MEM, flags=MAP_WRITE, pages=1, va_page=12, frame=s.MEMORY_PAGE),
    ),
    "GR205": lambda: good(action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, va_page=WORK_VA, frame=9)),
    "GR301": lambda: good(*job(14, number=1), WAIT, DONE),
    "GR302": lambda: good(maps=(*MAPS[:2], *MAPS[3:])),
    "GR304": lambda: good(maps=(*MAPS[:3], MAPS[4])),
    "GR305": lambda: on_mali(space_command(2), START),
    "GR306": lambda: on_mali(START, on("js2.COMMAND_NEXT", 1)),
    "GR307": lambda: Trace(
        "mali_g610",
        array_of([action(Op.JOB), action(Op.RUN_STREAM, stream=PAGE, instructions=1, timeout_us=1)]),
        b"",
        16 * PAGE,
        32 * PAGE,
    ),
    "GR401": lambda: good(slots=[slot("in", SlotKind.INPUT, 14)]),
    "GR403": lambda: good().with_(slots=BOTH),
    "GR405": lambda: good(action(Op.COPY_FROM_GPU, slot=0), slots=BOTH[:1]),
    "GR404": lambda: good(slots=[*BOTH, slot("also", SlotKind.INPUT, WORK_VA, 260)]),
    "GR407": lambda: good(action(Op.COPY_FROM_GPU, slot=1), slots=BOTH),
    "GR408": lambda: good(slots=[slot("weights", SlotKind.PARAMETER, WORK_VA)]),
    "GR501": lambda: good(time_budget_us=99),
    "GR502": lambda: good(action(Op.INTERVAL, us=1000), time_budget_us=500),
    "GR503": lambda: good(retry_limit=9),
    "GR504": lambda: good(action(Op.INTERVAL, us=1_000_001)),
    "GR601": lambda: good(*job(number=1)),
    "GR602": lambda: good(WAIT),
    "GR603": lambda: good(*job(number=1)[1:], WAIT, DONE),
    "GR606": lambda: good(action(Op.OPERATE, flags=FLAG_BESIDE, operator=1, operands=2), slots=INNER),
    "GR605": lambda: good(action(Op.JOB, number=1, flags=FLAG_REPEAT), *job(number=1)[1:], WAIT, DONE),
}
# What is not lint's to find: what the file's parser says, what `verify` says, what only a device sees.
ELSEWHERE = {"GR303", "GR409", "GR001", "GR003", "GR004", "GR005", "GR406", "GR604"}
DYNAMIC = {rule for rule in RULES if rule >= "GR700"}  # tests/vgpu/test_lint_dynamic.py


def ids(found: Trace) -> set[str]:
    return {finding.rule.id for finding in lint(found)}


def test_every_rule_has_a_case() -> None:
    assert BROKEN.keys() | ELSEWHERE | DYNAMIC == RULES.keys()


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_finds_what_breaks_it(rule: str) -> None:
    assert rule in ids(BROKEN[rule]())


@pytest.mark.parametrize("slots", [[], BOTH])
def test_nothing_is_found_in_what_is_good(slots: list[Slot]) -> None:
    assert ids(good(slots=slots)) == set()


def test_what_ends_a_lock() -> None:
    """An unlock and both flushes, of the same address space; neither an update nor what another space is told."""
    lock = space_command(2, space=3)
    for command in (3, 4, 5):
        assert "GR305" not in ids(on_mali(lock, space_command(command, space=3), START))
        assert "GR305" in ids(on_mali(lock, space_command(command, space=2), START))
    assert "GR305" in ids(on_mali(lock, space_command(1, space=3), START))
    assert "GR305" not in ids(on_mali(START, lock))
    kept = action(Op.REG_WRITE_KEPT, register=space_command(0).register, keep=0)
    assert "GR305" in ids(on_mali(kept, START))


@pytest.mark.parametrize("rule", sorted(STOPPED - ELSEWHERE))
def test_what_every_device_stops_at_is_not_signed(rule: str, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(private_pem(s.ES256.key))
    (tmp_path / "net.gtr").write_bytes(BROKEN[rule]().build())
    words = ["sign", tmp_path / "net.gtr", "--signing-key", tmp_path / "key.pem", "-o", tmp_path / "net.sgtr"]
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == 2, result.output
    assert "]: every device stops there, so it is not signed" in result.stderr
    assert rule in {finding.rule.id for finding in stopped(BROKEN[rule]())}
    assert not (tmp_path / "net.sgtr").exists()


def test_findings_name_the_place() -> None:
    (finding,) = lint(good(*job(14, number=1), WAIT, DONE))
    assert finding.text == "the code at GPU address 0xe000 is not mapped"
    assert finding.action == len(good().actions) + 3


def test_what_is_shipped_has_no_findings() -> None:
    assert [str(f) for f in lint(build(Trace.read(RAW))) if f.rule.severity is not Severity.NOTE] == []


# What lint does not judge: signatures, which `verify` does; what depends on the device, and on its GPU's answers.
NOT_JUDGED = {"ENVELOPE", "KEY", "SIGNATURE", "IDENTITY", "ROLLBACK", "MEMORY", "TIMEOUT", "DIVERGED"}


@pytest.mark.parametrize("row", hostile.TABLE, ids=str)
def test_hostile_traces(row: Hostile) -> None:
    """Lint has a finding in every trace that a device refuses, or stops, for what the trace is.

    That two slots of the sample overlap does not count.
    """
    with contextlib.suppress(TraceError):
        found = ids(Trace.parse(split(row.make()).trace)) - {"GR404"}
        assert found or row.status in {*NOT_JUDGED, "OK"} or row.name in hostile.ONLY_A_DEVICE


def test_slots_keep_away_from_code_and_image() -> None:
    found = [str(f.text) for f in lint(good(slots=[slot("in", SlotKind.INPUT, CODE_VA)])) if f.rule.id == "GR401"]
    assert found == ["the input in lies in the image's pages"]


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["lint", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.gtr"
    path.write_bytes(good(WAIT).build())
    return path


def test_warnings_fail_only_where_that_is_asked_for(file: Path) -> None:
    status, text = run(file)
    assert status == 0
    assert text.splitlines() == [
        "warning  GR602 action 11: the interrupt v3d is waited for and not acknowledged after that",
        "0 errors, 1 warning, 0 notes",
    ]
    assert run(file, "--strict")[0] == 1


def test_a_finding_can_be_accepted(file: Path, tmp_path: Path) -> None:
    allow = tmp_path / "allow.toml"
    allow.write_text('[[allow]]\nrule = "GR602"\naction = 11\nreason = "the driver does the same"\n')
    status, text = run(file, "--strict", "--allow", allow)
    assert status == 0
    assert "(accepted: the driver does the same)" in text
    allow.write_text('[[allow]]\nrule = "GR602"\naction = 3\nreason = "another place"\n')
    assert run(file, "--strict", "--allow", allow)[0] == 1


@pytest.mark.parametrize(
    "text",
    ["[[allow]", '[[allow]]\nrule = "GR999"\nreason = "x"', '[[allow]]\nrule = "GR602"', "allow = 1", "other = 1",
     '[[allow]]\nrule = "GR602"\nreason = ""', '[[allow]]\nrule = "GR602"\nreason = "x"\naction = "3"'],
)  # fmt: skip
def test_a_malformed_list_of_accepted_findings(text: str, file: Path, tmp_path: Path) -> None:
    allow = tmp_path / "allow.toml"
    allow.write_text(text)
    status, output = run(file, "--allow", allow)
    assert status == 2
    assert output.startswith(f"error: {allow}")


def test_sarif(file: Path, tmp_path: Path) -> None:
    """What OASIS's schema asks for, as far as we write it."""
    target = tmp_path / "out.sarif"
    assert run(file, "--sarif", target)[0] == 0
    log = json.loads(target.read_text())
    assert log["version"] == "2.1.0"
    (only,) = log["runs"]
    rules = only["tool"]["driver"]["rules"]
    (result,) = only["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "GR602"
    assert result["level"] in ("none", "note", "warning", "error")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == str(file)


@pytest.mark.parametrize("name", ["net.gtr", "allow.toml"])
def test_what_is_read_is_not_written_over(name: str, file: Path, tmp_path: Path) -> None:
    allow, before = tmp_path / "allow.toml", file.read_bytes()
    allow.write_text("")
    target = tmp_path / name
    status, text = run(file, "--allow", allow, "--sarif", target)
    assert (status, text) == (2, f"error: {target}: the output is one of the files that are read\n")
    assert (file.read_bytes(), allow.read_text()) == (before, "")


def test_the_document_is_that_of_the_table() -> None:
    assert TARGET.read_text() == document(), "python -m host_tools.audit.document writes it"
