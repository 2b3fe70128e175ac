# SPDX-License-Identifier: BSD-2-Clause
"""Rules from one GPU to another: what each changes and leaves unchanged."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.gpus.mali.rules import RuleError, apply, retarget
from host_tools.gpus.mali.rules.file import load
from tests.support import mali_rule_samples as sample
from tests.support import mali_samples as m
from tests.support.mali_rules import DESCRIPTOR, FILE, OF_THE_SAMPLE, REGISTER, rules
from tests.support.mali_samples import CONTENTS, DATA, HISTORY, JOBS, PAGE
from trace_format import profile
from trace_format.actions import MAP_READ, Op, action, actions_of, array_of
from trace_format.trace import Trace

RULES = rules(OF_THE_SAMPLE)
WITHOUT_JM_CONFIG = dataclasses.replace(
    RULES, rules=tuple(r for r in RULES.rules if r.name != "job-manager-settings")
)


@pytest.fixture
def files() -> dict[str, bytes]:
    return sample.recording()


def imported(folder: Path, files: dict[str, bytes]) -> Trace:
    return import_gpureplay(m.write(folder, files), "small", "mali_g72")


def before_a_run(page: bytes) -> bytes:
    """A page of job headers as the importer has it: without what the run has written."""
    data = bytearray(page)
    for at in (0x000, 0x0C0, 0x180):
        data[at : at + 16] = bytes(16)
    return bytes(data)


def writes(trace: Trace, name: str) -> list[int]:
    offset = trace.profile.register(name).index
    return [int(r["value"]) for r in trace.actions if r["op"] == Op.REG_WRITE and int(r["arg"]) == offset]


def reads(trace: Trace) -> set[str]:
    ops = (Op.REG_READ_ONCE, Op.REG_READ_WAIT, Op.REG_READ_KEEP)
    return {trace.profile.describe(int(r["arg"]) * 4) for r in trace.actions if r["op"] in ops}


def test_every_rule_of_a_file(tmp_path: Path, files: dict[str, bytes]) -> None:
    old = imported(tmp_path, files)
    new, applied = apply(old, RULES)
    assert {a.rule: a.places for a in applied} == {
        "job-task-split": 2,  # not in the job that is split another way, nor in what looks like a job
        "shader-register-allocation": 1,
        "preload": 2,  # a state that two jobs share counts once
        "identity": 5,
        "job-manager-settings": 1,
        "core-settings": 3,
        "coherency": 1,
    }
    assert new.image[:PAGE] == old.image[:PAGE]
    assert new.image[PAGE : 2 * PAGE] == before_a_run(sample.jobs_page(g71=True))
    assert new.image[2 * PAGE :] == old.image[2 * PAGE :]
    assert (new.gpu, new.raw, new.slots, new.va_bytes) == ("mali_g71", True, old.slots, old.va_bytes)
    assert new.notes["recorded_on"] == "mali_g72"
    assert new.notes["rules"]["file"] == FILE
    assert new.notes["rules"]["places"]["job-task-split"] == 2
    assert Trace.parse(new.build()).gpu == "mali_g71"
    assert old.gpu == "mali_g72"
    assert old.image[PAGE : 2 * PAGE] == before_a_run(sample.jobs_page())


def test_a_field_is_found_in_its_word() -> None:
    for name, where, before, after in [
        ("job-task-split", ([], 40), 0x20000000, 0x1C000000),
        ("shader-register-allocation", ([120], 16), 0x08002001, 0x08000001),
        ("preload", ([120], 48), 0x029000, 0x829000),
    ]:
        rule: Any = next(rule for rule in RULES.rules if rule.name == name)
        assert ([at for at, _ in rule.pointers], rule.offset, rule.bytes) == (*where, 4)
        assert before & rule.mask == rule.before
        assert before & ~rule.mask | rule.after == after


def test_registers_are_the_targets(tmp_path: Path, files: dict[str, bytes]) -> None:
    old = imported(tmp_path, files)
    new, _ = apply(old, RULES)
    assert {"gpu.GPU_ID", "gpu.SHADER_PRESENT_LO", "gpu.SHADER_CONFIG"} <= reads(old)
    gone = ("gpu.GPU_ID", "gpu.L2_FEATURES", "gpu.MMU_FEATURES", "gpu.JS_FEATURES_1", "gpu.SHADER_PRESENT_LO")
    assert reads(new) == reads(old) - {*gone, "gpu.SHADER_CONFIG"}
    names = ("JM_CONFIG", "SHADER_CONFIG", "TILER_CONFIG", "L2_MMU_CONFIG", "COHERENCY_ENABLE")
    assert [writes(new, f"gpu.{name}") for name in names] == [[4], [0], [0], [0], [0x1F]]
    assert writes(new, "gpu.SHADER_PWRON_LO") == writes(old, "gpu.SHADER_PWRON_LO") == [3]
    others = [op for op in old.actions["op"] if op not in (Op.REG_READ_ONCE, Op.REG_WRITE)]
    assert [op for op in new.actions["op"] if op not in (Op.REG_READ_ONCE, Op.REG_WRITE)] == others


def test_rules_that_match_nothing_are_told(tmp_path: Path, files: dict[str, bytes]) -> None:
    trace = imported(tmp_path, files)
    new, applied = apply(trace, rules(*parts_for_all(), DESCRIPTOR))
    assert {a.rule: a.places for a in applied if a.places == 0} == {"field": 0}
    assert new.image == trace.image


def parts_for_all() -> list[str]:
    """What must be there so that the sample's registers are allowed."""
    gone = REGISTER.replace('"register"\nk', '"gone"\nk').replace("to = 4\n", "")
    return [gone.replace('["gpu.JM_CONFIG"]', '["gpu.*_CONFIG", "gpu.COHERENCY_ENABLE"]')]


def test_an_upload_between_jobs_is_followed(tmp_path: Path, files: dict[str, bytes]) -> None:
    """The second job's descriptor is only there when it starts; before that the page has other bytes."""
    trace = imported(tmp_path, files)
    job = before_a_run(sample.jobs_page())[0x180:0x240]
    maps = {r.va_page * PAGE: r.frame * PAGE for r in actions_of(trace.actions) if r.op == Op.MAP_GPU_MEM}
    page = maps[JOBS] + PAGE
    image = bytearray(trace.image)
    image[PAGE + 0x180 : PAGE + 0x240] = bytes(0xC0)
    late = action(Op.UPLOAD, bytes=len(job), target=page + 0x180, source=len(image))
    image = image.ljust(4 * PAGE, b"\0")
    image[3 * PAGE : 3 * PAGE + len(job)] = job
    actions = shifted(trace, PAGE)
    second = int(np.flatnonzero(actions["op"] == Op.JOB)[1])
    actions = np.concatenate([actions[:second], array_of([late]), actions[second:]])
    changed = trace.with_(actions=actions, image=bytes(image), carveout_bytes=trace.carveout_bytes + PAGE)
    changed.check()
    new, applied = apply(changed, RULES)
    assert {a.rule: a.places for a in applied}["job-task-split"] == 2
    expected = before_a_run(sample.jobs_page(g71=True))
    assert new.image[3 * PAGE : 3 * PAGE + len(job)] == expected[0x180:0x240]
    assert not any(new.image[PAGE + 0x180 : PAGE + 0x240])


def shifted(trace: Trace, by: int) -> np.ndarray[Any, Any]:
    """Actions with the carve-out's pages after the image moved up, to make room in the image."""
    actions = trace.actions.copy()
    actions["b"][actions["op"] == Op.MAP_GPU_MEM] += by // PAGE
    actions["a"][np.isin(actions["op"], [Op.UPLOAD, Op.CLEAR])] += by
    return actions


def test_bytes_that_are_used_elsewhere_too(tmp_path: Path, files: dict[str, bytes]) -> None:
    """The page of jobs is also data in another place: there it must not change."""
    trace = imported(tmp_path, files)
    data = trace.carveout_bytes - PAGE
    copy = action(Op.UPLOAD, bytes=PAGE, target=data, source=PAGE)
    at = int(np.flatnonzero(trace.actions["op"] == Op.UPLOAD)[0])
    actions = np.concatenate([trace.actions[:at], array_of([copy]), trace.actions[at:]])
    with pytest.raises(RuleError, match=f"the rules change the image at 0x102b .* used at {data + 0x2B:#x} too"):
        apply(trace.with_(actions=actions), RULES)


def test_a_page_of_the_image_that_is_mapped_itself(tmp_path: Path, files: dict[str, bytes]) -> None:
    """Mapped as data, the page that is uploaded as jobs must not change."""
    trace = imported(tmp_path, files)
    extra = action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, frame=1, arg=0, a=5)
    with pytest.raises(RuleError, match="the rules change the image at 0x10"):
        apply(trace.with_(actions=np.concatenate([array_of([extra]), trace.actions])), RULES)


BROKEN: list[tuple[str, int, bytes, str]] = [
    # name, offset in the page of jobs, bytes there, message
    ("state not mapped", 120, (0x1000).to_bytes(8, "little"), "rule shader-register-allocation: the field at GPU"),
    ("state not recorded", 120, DATA.to_bytes(8, "little"), "at GPU address 0xffffac020010 was not recorded"),
    ("a descriptor of 32 bits", 16, b"\x08", "the job at 0xffffac010000 has a descriptor of 32 bits"),
]


@pytest.mark.parametrize(("name", "at", "data", "message"), BROKEN, ids=[row[0] for row in BROKEN])
def test_descriptors_that_cannot_be_followed(
    name: str, at: int, data: bytes, message: str, tmp_path: Path
) -> None:
    files = sample.recording()
    start = files[CONTENTS].index(sample.jobs_page()) + at
    files[CONTENTS] = files[CONTENTS][:start] + data + files[CONTENTS][start + len(data) :]
    with pytest.raises(RuleError, match=re.escape(message)):
        apply(imported(tmp_path, files), RULES)


def test_a_job_without_a_state(tmp_path: Path, files: dict[str, bytes]) -> None:
    start = files[CONTENTS].index(sample.jobs_page()) + 0x180 + 120
    files[CONTENTS] = files[CONTENTS][:start] + bytes(8) + files[CONTENTS][start + 8 :]
    _, applied = apply(imported(tmp_path, files), RULES)
    assert {a.rule: a.places for a in applied}["preload"] == 1


def test_flags_in_a_pointer_are_no_address(tmp_path: Path, files: dict[str, bytes]) -> None:
    start = files[CONTENTS].index(sample.jobs_page()) + 120
    pointer = (sample.STATE_1 | 1 << 60 | 3).to_bytes(8, "little")
    files[CONTENTS] = files[CONTENTS][:start] + pointer + files[CONTENTS][start + 8 :]
    _, applied = apply(imported(tmp_path, files), RULES)
    assert {a.rule: a.places for a in applied}["shader-register-allocation"] == 1


def test_a_field_that_is_zero_and_not_in_the_image(tmp_path: Path, files: dict[str, bytes]) -> None:
    """A cleared page has no bytes to change."""
    zero = m.region(0xFFFFAC050000, m.FLAGS_DATA, [b""])
    start = files[CONTENTS].index(sample.jobs_page()) + 120
    pointer = (0xFFFFAC050000).to_bytes(8, "little")
    files[CONTENTS] = files[CONTENTS][:start] + pointer + files[CONTENTS][start + 8 :] + zero
    with pytest.raises(
        RuleError, match=r"rule preload: the bytes at carve-out offset .* are cleared, not recorded"
    ):
        apply(imported(tmp_path, files), RULES)


REGISTERS: list[tuple[str, tuple[bool, int, int], str]] = [
    # name, access at the end of the recording (write, offset, value), message
    (
        "write that a trace may not do",
        (True, 0x1014, 1),
        "a write to job.IRQ_THROTTLE, which a trace for Arm Mali G71",
    ),
    (
        "bits that a trace may not set",
        (True, 0x30, 9),
        "a write to gpu.COMMAND, and no rule is about it: expected bits",
    ),
]


@pytest.mark.parametrize(("name", "access", "message"), REGISTERS, ids=[row[0] for row in REGISTERS])
def test_registers_that_the_target_does_not_allow(
    name: str, access: tuple[bool, int, int], message: str, tmp_path: Path
) -> None:
    files = sample.recording()
    files[HISTORY] += m.access(5, *access)
    with pytest.raises(RuleError, match=re.escape(message)):
        apply(imported(tmp_path, files), RULES)


def test_a_register_that_the_target_lacks(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = imported(tmp_path, files)
    g71 = profile.load("mali_g71")
    fewer = {name: register for name, register in g71.registers.items() if name != "gpu.JM_CONFIG"}
    monkeypatch.setattr(profile, "load", lambda name: dataclasses.replace(g71, registers=fewer))
    with pytest.raises(
        RuleError, match=r"action \d+: Arm Mali G71 has no register gpu\.JM_CONFIG, and no rule is about"
    ):
        apply(trace, WITHOUT_JM_CONFIG)


def test_a_live_value_has_no_rule(tmp_path: Path, files: dict[str, bytes]) -> None:
    flush = REGISTER.replace("JM_CONFIG", "LATEST_FLUSH").replace("to = 4\n", "")
    with pytest.raises(
        RuleError, match=r"rule register: gpu\.LATEST_FLUSH carries a value from a read to a write"
    ):
        apply(imported(tmp_path, files), rules(*parts_for_all(), flush))


def test_only_raw_recordings_of_the_source(tmp_path: Path, files: dict[str, bytes]) -> None:
    trace = imported(tmp_path, files)
    with pytest.raises(RuleError, match="expected a raw recording"):
        apply(trace.with_(raw=False), RULES)
    with pytest.raises(
        RuleError, match=r"no rules turn a recording of mali_g72 into .* v3d42; there are for mali_g31, mali"
    ):
        retarget(trace, "v3d42")
    with pytest.raises(RuleError, match="the rules are for another GPU: expected mali_g72, found v3d42"):
        apply(trace.with_(gpu="v3d42"), load("mali_g72", "mali_g71"))


@pytest.fixture
def raw(tmp_path: Path, files: dict[str, bytes]) -> Path:
    path = tmp_path / "raw.gtr"
    path.write_bytes(imported(tmp_path, files).build(compress=False))
    return path


def build(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["build", *map(str, arguments)])


def test_the_command_refuses(raw: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gtr"
    result = build(raw, "-o", out, "--gpu", "v3d42")
    assert result.exit_code == 2
    assert (
        f"{raw}: no rules turn a recording of mali_g72 into a trace for v3d42; there are for mali_g31, mali"
        in (result.stderr)
    )
    assert build(raw, "-o", out, "--gpu", "nothing").exit_code == 2
    assert not out.exists()
