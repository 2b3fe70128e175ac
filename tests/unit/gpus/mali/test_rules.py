# SPDX-License-Identifier: BSD-2-Clause
"""Rules from one GPU to another: what each changes and leaves unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from host_tools.cli import main
from host_tools.gpus.mali.rules import RuleError, apply, retarget
from host_tools.gpus.mali.rules.file import load
from host_tools.record.importers.gpureplay_trace import import_gpureplay
from tests.support import mali_g52_samples as g52
from tests.support import mali_samples as m
from tests.support.mali_rules import CODE_RULE, DESCRIPTOR, REGISTER, rules
from tests.support.mali_samples import CODE, CONTENTS, DATA, HISTORY, JOBS, PAGE
from trace_format import profile
from trace_format.actions import ALL_BITS, MAP_EXECUTE, MAP_READ, Op, action, actions_of, array_of
from trace_format.trace import Trace

G71 = profile.load("mali_g71")


@pytest.fixture
def files() -> dict[str, bytes]:
    return g52.recording()


def imported(folder: Path, files: dict[str, bytes]) -> Trace:
    return import_gpureplay(m.write(folder, files), "small", "mali_g52")


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


def test_every_rule_that_ships(tmp_path: Path, files: dict[str, bytes]) -> None:
    old = imported(tmp_path, files)
    new, applied = retarget(old, "mali_g71")
    assert {a.rule: a.places for a in applied} == {
        "job-task-split": 2,  # not in the job that is split another way, nor in what looks like a job
        "shader-register-allocation": 1,
        "preload": 2,  # a state that two jobs share counts once
        "shader-word": 4,
        "identity": 5,
        "power-override": 2,
        "job-manager-settings": 1,
        "core-settings": 3,
        "coherency": 1,
    }
    assert new.image[:PAGE] == g52.code_page(g71=True)
    assert new.image[PAGE : 2 * PAGE] == before_a_run(g52.jobs_page(g71=True))
    assert new.image[2 * PAGE :] == old.image[2 * PAGE :]
    assert (new.gpu, new.raw, new.slots, new.va_bytes) == ("mali_g71", True, old.slots, old.va_bytes)
    assert new.notes["recorded_on"] == "mali_g52"
    assert new.notes["rules"]["places"]["job-task-split"] == 2
    assert Trace.parse(new.build()).gpu == "mali_g71"
    assert old.gpu == "mali_g52"
    assert old.image[:PAGE] == g52.code_page()


def test_the_words_of_the_original_authors() -> None:
    """The facts' values, whole words, as the rules' fields make them."""
    shipped = {r.name: r for r in load("mali_g52", "mali_g71").rules}
    for name, where, before, after in [
        ("job-task-split", ([], 40), 0x20000000, 0x1C000000),
        ("shader-register-allocation", ([120], 16), 0x08002001, 0x08000001),
        ("preload", ([120], 48), 0x029000, 0x829000),
    ]:
        rule: Any = shipped[name]
        assert ([at for at, _ in rule.pointers], rule.offset, rule.bytes) == (*where, 4)
        assert before & rule.mask == rule.before
        assert before & ~rule.mask | rule.after == after
    word: Any = shipped["shader-word"]
    assert (word.before, word.after) == (0xAF0060020C1765B9, 0xA10040020C176591)
    assert all(r.reason and r.fact for r in shipped.values())


def test_registers_are_the_targets(tmp_path: Path, files: dict[str, bytes]) -> None:
    old = imported(tmp_path, files)
    new, _ = retarget(old, "mali_g71")
    assert {"gpu.GPU_ID", "gpu.SHADER_PRESENT_LO", "gpu.SHADER_CONFIG"} <= reads(old)
    gone = ("gpu.GPU_ID", "gpu.L2_FEATURES", "gpu.MMU_FEATURES", "gpu.JS_FEATURES_1", "gpu.SHADER_PRESENT_LO")
    assert reads(new) == reads(old) - {*gone, "gpu.SHADER_CONFIG"}
    assert writes(old, "gpu.PWR_KEY") == [0x2968A819]
    assert all(int(r["arg"]) * 4 not in (0x50, 0x58) for r in new.actions if r["op"] == Op.REG_WRITE)
    names = ("JM_CONFIG", "SHADER_CONFIG", "TILER_CONFIG", "L2_MMU_CONFIG", "COHERENCY_ENABLE")
    assert [writes(new, f"gpu.{name}") for name in names] == [[4], [0], [0], [0], [0x1F]]
    assert writes(new, "gpu.SHADER_PWRON_LO") == writes(old, "gpu.SHADER_PWRON_LO") == [3]
    others = [op for op in old.actions["op"] if op not in (Op.REG_READ_ONCE, Op.REG_WRITE)]
    assert [op for op in new.actions["op"] if op not in (Op.REG_READ_ONCE, Op.REG_WRITE)] == others


def test_rules_that_match_nothing_are_told(tmp_path: Path, files: dict[str, bytes]) -> None:
    trace = imported(tmp_path, files)
    new, applied = apply(trace, rules(*parts_for_all(), DESCRIPTOR, CODE_RULE))
    assert {a.rule: a.places for a in applied if a.places == 0} == {"field": 0, "word": 0}
    assert new.image == trace.image


def parts_for_all() -> list[str]:
    """What must be there so that the sample's registers are allowed."""
    gone = REGISTER.replace('"register"\nk', '"gone"\nk').replace("to = 4\n", "")
    return [gone.replace('["gpu.JM_CONFIG"]', '["gpu.*_CONFIG", "gpu.PWR_*", "gpu.COHERENCY_ENABLE"]')]


def test_an_upload_between_jobs_is_followed(tmp_path: Path, files: dict[str, bytes]) -> None:
    """The second job's descriptor is only there when it starts; before that the page has other bytes."""
    trace = imported(tmp_path, files)
    job = before_a_run(g52.jobs_page())[0x180:0x240]
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
    new, applied = retarget(changed, "mali_g71")
    assert {a.rule: a.places for a in applied}["job-task-split"] == 2
    expected = before_a_run(g52.jobs_page(g71=True))
    assert new.image[3 * PAGE : 3 * PAGE + len(job)] == expected[0x180:0x240]
    assert not any(new.image[PAGE + 0x180 : PAGE + 0x240])


def shifted(trace: Trace, by: int) -> np.ndarray[Any, Any]:
    """Actions with the carve-out's pages after the image moved up, to make room in the image."""
    actions = trace.actions.copy()
    actions["b"][actions["op"] == Op.MAP_GPU_MEM] += by // PAGE
    actions["a"][np.isin(actions["op"], [Op.UPLOAD, Op.CLEAR])] += by
    return actions


def test_bytes_that_are_used_elsewhere_too(tmp_path: Path, files: dict[str, bytes]) -> None:
    """The page of code is also data in another place: there it must not change."""
    trace = imported(tmp_path, files)
    data = trace.carveout_bytes - PAGE
    copy = action(Op.UPLOAD, bytes=PAGE, target=data, source=0)
    at = int(np.flatnonzero(trace.actions["op"] == Op.UPLOAD)[0])
    actions = np.concatenate([trace.actions[:at], array_of([copy]), trace.actions[at:]])
    with pytest.raises(RuleError, match=f"the rules change the image at 0x8 .* used at {data + 8:#x} too"):
        retarget(trace.with_(actions=actions), "mali_g71")


def test_a_page_of_the_image_that_is_mapped_itself(tmp_path: Path, files: dict[str, bytes]) -> None:
    """Mapped as data only, the page that is uploaded as code must not change; mapped as code, it may."""
    trace = imported(tmp_path, files)
    for flags, fails in ((MAP_READ, True), (MAP_READ | MAP_EXECUTE, False)):
        extra = action(Op.MAP_GPU_MEM, flags=flags, pages=1, frame=0, arg=0, a=5)
        changed = trace.with_(actions=np.concatenate([array_of([extra]), trace.actions]))
        if fails:
            with pytest.raises(RuleError, match="the rules change the image at 0x8"):
                retarget(changed, "mali_g71")
        else:
            assert retarget(changed, "mali_g71")[0].image[:PAGE] == g52.code_page(g71=True)


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
    files = g52.recording()
    start = files[CONTENTS].index(g52.jobs_page()) + at
    files[CONTENTS] = files[CONTENTS][:start] + data + files[CONTENTS][start + len(data) :]
    with pytest.raises(RuleError, match=re.escape(message)):
        retarget(imported(tmp_path, files), "mali_g71")


def test_a_job_without_a_state(tmp_path: Path, files: dict[str, bytes]) -> None:
    start = files[CONTENTS].index(g52.jobs_page()) + 0x180 + 120
    files[CONTENTS] = files[CONTENTS][:start] + bytes(8) + files[CONTENTS][start + 8 :]
    _, applied = retarget(imported(tmp_path, files), "mali_g71")
    assert {a.rule: a.places for a in applied}["preload"] == 1


def test_flags_in_a_pointer_are_no_address(tmp_path: Path, files: dict[str, bytes]) -> None:
    start = files[CONTENTS].index(g52.jobs_page()) + 120
    pointer = (g52.STATE_1 | 1 << 60 | 3).to_bytes(8, "little")
    files[CONTENTS] = files[CONTENTS][:start] + pointer + files[CONTENTS][start + 8 :]
    _, applied = retarget(imported(tmp_path, files), "mali_g71")
    assert {a.rule: a.places for a in applied}["shader-register-allocation"] == 1


def test_a_field_that_is_zero_and_not_in_the_image(tmp_path: Path, files: dict[str, bytes]) -> None:
    """A cleared page has no bytes to change."""
    zero = m.region(0xFFFFAC050000, m.FLAGS_DATA, [b""])
    start = files[CONTENTS].index(g52.jobs_page()) + 120
    pointer = (0xFFFFAC050000).to_bytes(8, "little")
    files[CONTENTS] = files[CONTENTS][:start] + pointer + files[CONTENTS][start + 8 :] + zero
    with pytest.raises(
        RuleError, match=r"rule preload: the bytes at carve-out offset .* are cleared, not recorded"
    ):
        retarget(imported(tmp_path, files), "mali_g71")


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
    files = g52.recording()
    files[HISTORY] += m.access(5, *access)
    with pytest.raises(RuleError, match=re.escape(message)):
        retarget(imported(tmp_path, files), "mali_g71")


def test_a_register_that_the_target_lacks(tmp_path: Path, files: dict[str, bytes]) -> None:
    trace = imported(tmp_path, files)
    with pytest.raises(
        RuleError, match=r"action \d+: Arm Mali G71 has no register gpu\.PWR_KEY, and no rule is about"
    ):
        apply(trace, rules(DESCRIPTOR))


def test_a_live_value_has_no_rule(tmp_path: Path, files: dict[str, bytes]) -> None:
    flush = REGISTER.replace("JM_CONFIG", "LATEST_FLUSH").replace("to = 4\n", "")
    with pytest.raises(
        RuleError, match=r"rule register: gpu\.LATEST_FLUSH carries a value from a read to a write"
    ):
        apply(imported(tmp_path, files), rules(*parts_for_all(), flush))


def test_rules_of_two_kinds_in_one_place(tmp_path: Path, files: dict[str, bytes]) -> None:
    """No file can say: the jobs' page is executable here, and a code rule means the field of a descriptor."""
    files[CONTENTS] = files[CONTENTS].replace((0x604E).to_bytes(4, "little"), (0x6046).to_bytes(4, "little"))
    field = DESCRIPTOR.replace("from = 1", "from = 8")
    word = CODE_RULE.replace("0x1122334455667788", "0x20000000")
    with pytest.raises(RuleError, match="rules field and word both apply at carve-out offset"):
        apply(imported(tmp_path, files), rules(*parts_for_all(), field, word))


def test_only_raw_recordings_of_the_source(tmp_path: Path, files: dict[str, bytes]) -> None:
    trace = imported(tmp_path, files)
    with pytest.raises(RuleError, match="only a raw recording can be turned"):
        retarget(trace.with_(raw=False), "mali_g71")
    with pytest.raises(
        RuleError, match=r"no rules turn a recording of mali_g52 into .* v3d42; there are for mali_g71"
    ):
        retarget(trace, "v3d42")
    with pytest.raises(RuleError, match="the rules are for another GPU: expected mali_g52, found v3d42"):
        apply(trace.with_(gpu="v3d42"), load("mali_g52", "mali_g71"))


@given(st.data())
def test_a_word_of_code_where_a_rule_means_it(data: st.DataObject) -> None:
    """Against a plain search over all addresses, for any width, alignment and offset."""
    size = data.draw(st.sampled_from([4, 8]))
    align = data.draw(st.sampled_from([a for a in (4, 8, 16, 64) if a >= size]))
    offset = data.draw(st.sampled_from(range(0, align, size)))
    before, after = 0x0101010101010101 >> 64 - 8 * size, 0x7777777777777777 >> 64 - 8 * size
    code = bytearray(data.draw(st.binary(min_size=512, max_size=512).map(lambda b: bytes(x & 1 for x in b))))
    for at in data.draw(st.lists(st.integers(0, 500), max_size=6)):
        code[at : at + size] = before.to_bytes(size, "little")
    expected = bytearray(code)
    for at in range(offset, len(code) - size + 1, align):
        if int.from_bytes(code[at : at + size], "little") == before:
            expected[at : at + size] = after.to_bytes(size, "little")
    rule = CODE_RULE.replace("0x1122334455667788", hex(before)).replace("to = 2", f"to = {after}")
    rule = rule.replace("align = 16", f"align = {align}").replace("offset = 8", f"offset = {offset}")
    new, _ = apply(one_job(bytes(code)), rules(rule.replace("bits = 64", f"bits = {8 * size}")))
    assert bytes(new.image[: len(code)]) == expected


def one_job(code: bytes) -> Trace:
    """A page of code and a job of no interest: all that a rule needs."""
    image = code.ljust(PAGE, b"\0") + m.job_header(kind=1)[:32].ljust(PAGE, b"\0")
    page = CODE // PAGE
    registers = [(0x18C0, (CODE + PAGE) & ALL_BITS), (0x18C4, (CODE + PAGE) >> 32), (0x18E0, 1)]
    return Trace(
        gpu="mali_g52",
        actions=array_of(
            [
                action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_EXECUTE, va_page=page, pages=1, frame=2),
                action(Op.MAP_GPU_MEM, flags=MAP_READ, va_page=page + 1, pages=1, frame=3),
                action(Op.UPLOAD, bytes=2 * PAGE, target=2 * PAGE, source=0),
                *[
                    action(Op.REG_WRITE, register=offset // 4, value=value, mask=ALL_BITS)
                    for offset, value in registers
                ],
            ]
        ),
        image=image,
        carveout_bytes=4 * PAGE,
        va_bytes=1 << 48,
        raw=True,
    )


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
    assert f"{raw}: no rules turn a recording of mali_g52 into a trace for v3d42; there are for mali_g71" in (
        result.stderr
    )
    assert build(raw, "-o", out, "--gpu", "nothing").exit_code == 2
    assert not out.exists()
