# SPDX-License-Identifier: BSD-2-Clause
"""What a rule file may say, and which rules exclude each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from host_tools.gpus.mali.descriptors import TABLE
from host_tools.gpus.mali.rules import RuleError, available, file
from host_tools.gpus.mali.rules.file import JOB_TYPES, load, parse
from tests.support import mali_samples as m
from tests.support.mali_rules import (
    CORES,
    DESCRIPTOR,
    FILE,
    HEAD,
    OPERATION,
    PAIR,
    REGISTER,
    STATE,
    rules,
)

MALFORMED: list[tuple[str, str, str, str]] = [
    # name, what is replaced in a good file (a regular expression), by what, message
    ("not TOML", r"\[\[rule\]\]", "[[rule", "not TOML: "),
    ("no source", 'source = "mali_g72"\n', "", "the file: source is missing"),
    ("source is a number", '"mali_g72"', "52", "the file: source: expected a value of type list, found 52"),
    (
        "unknown GPU",
        "mali_g71",
        "mali_g99",
        "the file: target: no profile for GPU 'mali_g99'; there are: mali_g31, mali_g52r1",
    ),
    ("one GPU", "mali_g71", "mali_g72", "source and target: expected two GPUs, found mali_g72, mali_g72"),
    (
        "a list of one GPU",
        '"mali_g71"',
        '["mali_g72"]',
        "source and target: expected two GPUs, found mali_g72, mali",
    ),
    ("no target in a list", '"mali_g71"', "[]", "source and target: expected two GPUs, found mali_g72"),
    (
        "a number in a list",
        '"mali_g71"',
        "[71]",
        "the file: target: no profile for GPU 71; there are: mali_g31",
    ),
    ("unknown key of the file", r'target = "mali_g71"', r"\g<0>\nversion = 1", "the file: unknown keys version"),
    ("no rule", r"(?s)\[\[rule.*", "rule = []", "there is no rule"),
    ("rule is no list", r"(?s)\[\[rule.*", "rule = 3", "the file: rule: expected a value of type list"),
    ("rule is no table", r"(?s)\[\[rule.*", "rule = [3]", "rule 1: expected a table, found 3"),
    ("no name", 'name = "field"\n', "", "rule 1: name is missing"),
    ("empty name", '"field"', '" "', "rule 1: name is empty"),
    ("no kind", 'kind = "descriptor"\n', "", "rule 1 (field): kind is missing"),
    (
        "unknown kind",
        '"descriptor"',
        '"memory"',
        "rule 1 (field): kind: expected descriptor, register",
    ),
    ("no reason", 'reason = "why"\n', "", "rule 1 (field): reason is missing"),
    ("empty fact", '"whence"', '""', "rule 1 (field): fact is empty"),
    ("unknown key", "job =", "jobs = 1\njob =", "rule 1 (field): unknown keys jobs"),
    ("a key of another kind", "job =", "keep = 4\njob =", "rule 1 (field): unknown keys keep"),
    ("a place in numbers", "job =", "offset = 40\njob =", "rule 1 (field): unknown keys offset"),
    ("unknown job", '"compute"', '"computer"', "rule 1 (field): job: expected one of write-value"),
    ("no field", 'field = "parameters.job task split"\n', "", "rule 1 (field): field is missing"),
    (
        "field is a number",
        '"parameters.job task split"',
        "40",
        "rule 1 (field): field: expected a value of type str",
    ),
    (
        "unknown part",
        "parameters[.]",
        "parameter.",
        "rule 1 (field): field: 'parameter.job task split' names no field of a part; parts: header, invocation, ",
    ),
    ("a part alone", "parameters[.]job task split", "parameters", "field: 'parameters' names no field of a part"),
    (
        "unknown field",
        "task split",
        "split",
        "field: parameters has no field 'job split'; there are: job task split",
    ),
    (
        "through no pointer",
        "job task split",
        "job task split.x",
        "rule 1 (field): field: parameters: job task split leads to no descriptor",
    ),
    (
        "unknown field behind a pointer",
        "parameters.job task split",
        "draw.state.job task split",
        "rule 1 (field): field: renderer state has no field 'job task split'",
    ),
    (
        "a field that holds one less",
        "parameters.job task split",
        "draw.uniform buffers.entries",
        "rule 1 (field): field: expected one that holds its value as it is, found 'entries'",
    ),
    ("from outside the field", "from = 1", "from = 16", "rule 1 (field): from has bits outside the field"),
    ("to outside the field", "to = 2", "to = 0x102", "rule 1 (field): to has bits outside the field"),
    ("to too wide", "to = 2", "to = 0x10000000000000000", "rule 1 (field): to: expected 0 to 0xffffffffffffffff"),
    ("from is a text", "from = 1", 'from = "1"', "rule 1 (field): from: expected a value of type int"),
    ("no change", "to = 2", "to = 1", "rule 1 (field): from and to are the same: expected a change, found 0x1"),
    ("no registers", r'\["gpu.JM_CONFIG"\]', "[]", "rule 2 (register): registers: expected one name or more"),
    ("registers is a text", r'\["gpu.JM_CONFIG"\]', '"gpu.JM_CONFIG"', "rule 2 (register): registers: expected a"),
    ("register is a number", r'"gpu.JM_CONFIG"', "3", "rule 2 (register): registers: expected one name or more"),
    ("unknown register", "JM_CONFIG", "JM", "registers: expected registers of Arm Mali G72, found 'gpu.JM'"),
    ("pattern of nothing", "JM_CONFIG", "X*", "registers: expected registers of Arm Mali G72, found 'gpu.X*'"),
    ("read-only register", "JM_CONFIG", "GPU_ID", "a trace for Arm Mali G71 may not write 0x4 to gpu.GPU_ID"),
    ("bits not allowed", "to = 4", "to = 0x80000000", "Arm Mali G71 may not write 0x80000000 to gpu.JM_CONFIG"),
    (
        "cores and a value",
        'keep = "cores"',
        r"\g<0>\nto = 1",
        'rule 3 (cores): keep: expected "cores"',
    ),
    ("something else is kept", '"cores"\nreason', '"all"\nreason', 'rule 3 (cores): keep: expected "cores"'),
    (
        "required is a number",
        "to = 4",
        r"\g<0>\nrequired = 1",
        "rule 2 (register): required: expected a value",
    ),
    ("a rule of another GPU", "to = 4", r'\g<0>\nsource = "v3d99"', "source: no profile for GPU 'v3d99'"),
    (
        "unknown operation",
        "FRCP_APPROX",
        "FRCP_EXACT",
        "rule 4 (operation): names: expected operations of docs/BI",
    ),
    ("a name that is a number", '"FRCP_APPROX.f32"', "3", "rule 4 (operation): names: expected a list of texts"),
    (
        "unknown operand",
        "lane_id",
        "thread_id",
        "operands: expected of #0, core_id, lane_id, warp_id, found thread",
    ),
    (
        "bits outside the mask",
        "0x7e0000",
        "0x5e0000",
        "(operation): fma: expected bits and a mask of 23 bits",
    ),
    (
        "a mask that is too wide",
        "0xf0000",
        "0x1f0000",
        "(operation): add: expected bits and a mask of 20 bits",
    ),
    (
        "an encoding without a mask",
        r"\[0x20000, 0xf0000\]",
        "[1]",
        "(operation): add: expected bits and a",
    ),
    (
        "an encoding that is a text",
        r"\[0x20000, 0xf0000\]",
        '"1"',
        "(operation): add: expected bits and a mask of",
    ),
    (
        "about nothing",
        r'(?s)names = \["FRCP.*?"lane_id"\]',
        "",
        "(operation): names: expected what it is about",
    ),
    ("two of one name", '"register"\nkind', '"field"\nkind', "rules 1 and 2 have one name, field"),
]
GOOD = HEAD + DESCRIPTOR + REGISTER + CORES + OPERATION


@pytest.mark.parametrize(("name", "what", "by", "message"), MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed_rule_files(name: str, what: str, by: str, message: str) -> None:
    text, count = re.subn(what, by, GOOD, count=1)
    assert count == 1
    with pytest.raises(RuleError) as caught:
        parse(FILE, text.encode(), *PAIR)
    assert str(caught.value).startswith(f"{FILE}: ")
    assert message in str(caught.value)


def test_a_file_that_is_not_text() -> None:
    with pytest.raises(RuleError, match=rf"{FILE}: not TOML: 'utf-8' codec"):
        parse(FILE, b"\xff\xfe", *PAIR)


def second(rule: str, *changes: tuple[str, str]) -> str:
    for old, new in (('name = "', 'name = "second '), *changes):
        assert old in rule
        rule = rule.replace(old, new, 1)
    return rule


OVERLAPS: list[tuple[str, str, str, bool]] = [
    # name, a rule, another one, whether both can apply in one place
    ("same field", DESCRIPTOR, second(DESCRIPTOR), True),
    ("another value of the field", DESCRIPTOR, second(DESCRIPTOR, ("from = 1", "from = 3")), False),
    (
        "another job",
        DESCRIPTOR,
        second(DESCRIPTOR, ("compute", "write-value"), ("parameters.job task split", "payload.type")),
        False,
    ),
    (
        "another field",
        DESCRIPTOR,
        second(DESCRIPTOR, ("job task split", "draw.cull back face"), ("parameters.", ""), ("= 2", "= 0")),
        False,
    ),
    ("a field in the same word", STATE, second(STATE, ("preload 23", "preload 22")), False),
    ("same field behind a pointer", STATE, second(STATE), True),
    ("same register", REGISTER, second(REGISTER), True),
    ("a pattern with the register", REGISTER, second(REGISTER, ("JM_CONFIG", "JM_*")), True),
    ("another register", REGISTER, second(REGISTER, ("JM_CONFIG", "SHADER_CONFIG"), ("= 4", "= 0")), False),
    ("different kinds", DESCRIPTOR, REGISTER, False),
]


@pytest.mark.parametrize(("name", "one", "other", "both"), OVERLAPS, ids=[row[0] for row in OVERLAPS])
def test_rules_that_can_apply_in_one_place(name: str, one: str, other: str, both: bool) -> None:
    for first, last in ((one, other), (other, one)):
        if both:
            with pytest.raises(RuleError, match=r"rules 1 \(.*\) and 2 \(.*\) can apply in one place"):
                rules(first, last)
        else:
            assert len(rules(first, last).rules) == 2


def test_job_types_are_those_of_the_samples() -> None:
    assert JOB_TYPES == {"write-value": "write_value", "cache-flush": "cache_flush", "compute": "compute"}
    number = TABLE.jobs[JOB_TYPES["compute"]].number
    assert int.from_bytes(m.job_header(kind=number)[16:20], "little") >> 1 & 0x7F == 4


def test_rule_files_that_ship_are_read() -> None:
    files = available()
    assert list(files.values()) == ["malis.toml"] * 12
    for source, target in files:
        assert load(source, target).rules


def test_a_rule_may_hold_for_some_pairs_only() -> None:
    text = HEAD.replace('"mali_g71"', '["mali_g71", "mali_g31"]') + DESCRIPTOR + REGISTER
    text = text.replace('name = "field"', 'name = "field"\ntarget = ["mali_g31"]')
    for target, names in (("mali_g71", ["register"]), ("mali_g31", ["field", "register"])):
        assert [rule.name for rule in parse(FILE, text.encode(), "mali_g72", target).rules] == names


def test_a_mistake_about_another_pair_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is right or wrong as a whole, and no two have one pair."""
    wrong = HEAD.replace('"mali_g71"', '["mali_g71", "mali_g31"]') + REGISTER + 'target = ["mali_g31"]\nelse = 1\n'
    with pytest.raises(RuleError, match="unknown keys else"):
        parse(FILE, wrong.encode(), *PAIR)
    for name in ("one.toml", "two.toml"):
        (tmp_path / name).write_text(HEAD + REGISTER)
    monkeypatch.setattr(file, "FOLDER", tmp_path)
    with pytest.raises(RuleError, match=r"one\.toml and two\.toml both have rules from mali_g72 to mali_g71"):
        available()
