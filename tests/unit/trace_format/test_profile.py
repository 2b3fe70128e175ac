# SPDX-License-Identifier: BSD-2-Clause
"""GPU profiles: the ones that ship are consistent, and a contradiction in one is found and named."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import CHECKOUT
from trace_format import profile
from trace_format.errors import ProfileError
from trace_format.schema import Gpu

SMALL = """\
name = "small"
title = "A small GPU"
gpu = "V3D42"
window_bytes = 0x100
interrupts = ["job", "mmu"]

[identity]
register = "hub.IDENT"
id_mask = 0xff
id = 0x24
cores = { register = "hub.IDENT", shift = 8, bits = 4 }
revision = { register = "core.REVISION", shift = 16, bits = 8 }

[mmu]
va_bits = 32

[jobs]
compute = { start = "core.START", done_line = "mmu", done = "core.DONE", done_bits = 1 }

[blocks]
hub = { base = 0x00, bytes = 0x20 }
core = { base = 0x40, bytes = 0x20 }

[registers.hub]
IDENT = { offset = 0x0, access = "r" }
TABLE = { offset = 0x4, access = "rw", bits = 0xffffffff, replay = "driver" }

[registers.core]
START = { offset = 0x0, access = "w", bits = 0xf, busy = 0x10, replay = { bits = 0x7, set = 0x1 } }
DONE = { offset = 0x4, access = "r", volatile = 0xf0 }
REVISION = { offset = 0x1c, access = "r" }
"""

# What concerns only the virtual GPU and the documents: see `with_more`.
MORE = """
SECRET = { offset = 0x8, access = "rw", bits = 0x3, replay = "none", model = { lacks = 0x2 } }
ABSENT = { offset = 0xc, access = "r", model = "none", replay = "none" }

[registers.power]
GATE = { offset = 0x4, access = "rw", bits = 0xff000001, reset = 0x1, source = "the board's manual" }

[sources]
registers = "a header"

[bits.core]
START = { GO = 0, MODE = [2, 1], AT_WORK = 4 }
"""


def with_more(text: str) -> str:
    """The profile with what a trace does not depend on."""
    text = text.replace(
        "[registers.hub]", 'power = { base = 0x100, bytes = 0x20, board = "B" }\n\n[registers.hub]'
    )
    return (
        text.replace(
            'IDENT = { offset = 0x0, access = "r" }', 'IDENT = { offset = 0x0, access = "r", reset = 0x24 }'
        )
        + MORE
    )


def parse(text: str) -> profile.Profile:
    """Parse the text of a profile."""
    return profile._parse("small.toml", text.encode())


def test_everything_is_read() -> None:
    gpu = parse(SMALL)
    assert (gpu.name, gpu.title, gpu.gpu, gpu.window_bytes) == ("small", "A small GPU", Gpu.V3D42, 0x100)
    assert gpu.interrupts == ("job", "mmu")
    assert (gpu.identity.name, gpu.identity_value, gpu.identity_mask) == ("hub.IDENT", 0x24, 0xFF)
    assert (gpu.cores.register.name, gpu.cores.shift, gpu.cores.bits) == ("hub.IDENT", 8, 4)
    assert not gpu.cores_are_mask
    assert parse(SMALL.replace("bits = 4 }", "bits = 4, is_mask = true }")).cores_are_mask
    assert (gpu.revision.register.offset, gpu.revision.shift, gpu.revision.bits) == (0x5C, 16, 8)
    start = gpu.register("core.START")
    assert (start.offset, start.index, start.readable, start.writable) == (0x40, 0x10, False, True)
    assert (start.bits, start.busy, start.replay_bits, start.replay_set) == (0xF, 0x10, 0x7, 0x1)
    assert not start.driver
    assert gpu.register("core.DONE").volatile == 0xF0
    table = gpu.register("hub.TABLE")
    assert (table.readable, table.writable, table.replay_bits, table.driver) == (True, True, None, True)
    assert gpu.register("hub.IDENT").replay_bits is None
    (job,) = gpu.jobs
    assert (job.kind, job.start.name, job.line, job.done.name, job.done_bits) == (
        "compute",
        "core.START",
        1,
        "core.DONE",
        1,
    )
    assert gpu.by_offset[0x44] is gpu.register("core.DONE")
    assert gpu.describe(0x44) == "core.DONE"
    assert gpu.describe(0x48) == "0x0048"


def test_a_block_can_be_repeated() -> None:
    gpu = parse(
        SMALL.replace("bytes = 0x20 }\n\n[registers.hub]", "bytes = 0x20, count = 3 }\n\n[registers.hub]").replace(
            "core.", "core2."
        )
    )
    assert [gpu.register(f"core{i}.DONE").offset for i in range(3)] == [0x44, 0x64, 0x84]
    assert gpu.jobs[0].start is gpu.register("core2.START")
    assert gpu.describe(0x64) == "core1.DONE"
    with pytest.raises(ProfileError, match=r"core6\.START lies outside the register window"):
        parse(
            SMALL.replace("base = 0x40, bytes = 0x20", "base = 0x40, bytes = 0x20, count = 9").replace(
                "core.", "core0."
            )
        )


@pytest.mark.parametrize("name", profile.names())
def test_what_is_read_before_a_trace_is_accepted_cannot_be_written(name: str) -> None:
    """One flipped bit of such a load makes it a store to the same register."""
    gpu = profile.load(name)
    for register in (gpu.identity, gpu.cores.register, gpu.revision.register):
        assert (register.readable, register.writable, register.replay_bits) == (True, False, None)


def test_a_profile_can_be_like_another() -> None:
    """It says what differs: here the name, the identity's value and one register."""
    base = profile.load("v3d42")
    gpu = parse(
        'like = "v3d42"\nname = "x"\n[identity]\nid = 7\n[registers.hub]\nEXTRA = {offset = 0xffc, access = "r"}'
    )
    assert (gpu.name, gpu.identity_value, gpu.title, gpu.mmu) == ("x", 7, base.title, base.mmu)
    assert gpu.identity_mask == base.identity_mask
    assert gpu.registers.keys() - base.registers.keys() == {"hub.EXTRA"}
    assert all(gpu.registers[name] == register for name, register in base.registers.items())
    assert gpu.profile_id != base.profile_id
    with pytest.raises(ProfileError, match=r"small\.toml: it is like 'v3d', which has none; there are: "):
        parse('like = "v3d"')
    with pytest.raises(ProfileError, match=r"small\.toml: it is like mali_g72, which is like another one itself"):
        parse('like = "mali_g72"')


def test_the_profile_id_is_that_of_what_the_profile_says() -> None:
    assert parse(SMALL).profile_id == parse("# a comment\n" + SMALL + "\n").profile_id
    assert (
        parse(SMALL).profile_id != parse(SMALL.replace("window_bytes = 0x100", "window_bytes = 0x200")).profile_id
    )
    assert parse(SMALL).profile_id < 1 << 64


@pytest.mark.parametrize(
    ("name", "profile_id"),
    [
        ("mali_g31", 0x8BD854C1757AFEBD),
        ("mali_g52r1", 0x84F48047AD9FE62B),
        ("mali_g610", 0xA3A6FD27ED850873),
        ("mali_g71", 0xD4081FE2F11C6526),
        ("mali_g72", 0xCAD946A7151B5D55),
        ("v3d42", 0x79583F6933148782),
        ("v3d71", 0x8457EE74A4A4501A),
    ],
)
def test_the_profile_ids_that_traces_have(name: str, profile_id: int) -> None:
    """A change here makes every trace for that GPU invalid: it must be meant."""
    assert f"{profile.load(name).profile_id:#x}" == f"{profile_id:#x}"


MALIS = ("mali_g31", "mali_g52r1", "mali_g71", "mali_g72")  # those with a model


@pytest.mark.parametrize("name", MALIS)
def test_a_mali_is_like_its_family(name: str) -> None:
    """Registers, bits, what traces may write, how jobs start are the same; identity and sizes are its own."""
    gpu, family = profile.load(name), profile.load("mali_g71")
    own = {n: r for n, r in gpu.registers.items() if r != family.registers[n]}
    assert gpu.registers.keys() == family.registers.keys()
    assert all(replace(r, reset=family.registers[n].reset) == family.registers[n] for n, r in own.items())
    assert all(re.fullmatch(r"gpu\.(GPU_ID|\w+_FEATURES|SHADER_PRESENT_LO)", n) for n in own)
    assert (gpu.jobs, gpu.interrupts, gpu.driver) == (family.jobs, family.interrupts, "mali_g71")
    assert {**gpu.mmu, "va_bits": 48} == family.mmu
    features = gpu.registers["gpu.MMU_FEATURES"].reset
    assert (features & 0xFF, features >> 8) == (gpu.mmu["va_bits"], gpu.mmu["pa_bits"])
    assert gpu.cores is not None
    assert 0 < gpu.registers["gpu.SHADER_PRESENT_LO"].reset < 1 << gpu.cores.bits


def test_what_both_kinds_of_malis_have_lies_at_the_same_place() -> None:
    """Their models share code that names registers by the G71's map."""
    newer, older = profile.load("mali_g610").registers, profile.load("mali_g71").registers
    shared = newer.keys() & older.keys()
    assert {name for name in shared if newer[name].offset != older[name].offset} == set()
    assert len(shared) > 150


def test_no_trace_writes_a_register_of_a_mali_with_command_streams() -> None:
    assert not any(register.may_write for register in profile.load("mali_g610").registers.values())


def test_no_mali_is_taken_for_another_one() -> None:
    gpus = [profile.load(name) for name in (*MALIS, "mali_g610")]
    for gpu in gpus:
        identity = gpu.registers["gpu.GPU_ID"].reset
        taken = [other.name for other in gpus if identity & other.identity_mask == other.identity_value]
        assert taken == [gpu.name]


def test_what_a_trace_may_write() -> None:
    gpu = parse(SMALL)
    start, table, ident = (gpu.register(name) for name in ("core.START", "hub.TABLE", "hub.IDENT"))
    assert (start.may_write, start.may_set, start.replay_set) == (True, 0x7, 0x1)
    assert [value for value in range(16) if start.accepts(value)] == [1, 3, 5, 7]
    assert start.accepts(0xF6, 0x6), "bits outside the mask are not written"
    assert not start.accepts(0x6, 0x7), "a bit that must be set"
    for other in (table, ident):
        assert (other.may_write, other.may_set, other.accepts(0)) == (False, 0, False)
    changes: list[dict[str, Any]] = [{"driver": True}, {"hidden": True}, {"replay_bits": None}]
    for changed in changes:
        register = replace(start, **changed)
        assert (register.may_write, register.may_set, register.accepts(1)) == (False, 0, False)


def test_what_a_trace_may_write_is_answered_in_one_place() -> None:
    """Nobody else puts together what a profile says of it."""
    root = CHECKOUT
    folders = ("trace_format", "signing", "tee_replayer", "host_tools")
    sources = [path for folder in folders for path in (root / folder).rglob("*.py")]
    asking = [path.relative_to(root) for path in sources if "replay_bits" in path.read_text(encoding="utf-8")]
    assert asking == [Path("trace_format/registers.py")]


def test_what_no_trace_depends_on() -> None:
    """It does not change the id, nor the registers that a trace may touch."""
    plain, gpu = parse(SMALL), parse(with_more(SMALL))
    assert gpu.profile_id == plain.profile_id
    assert gpu.registers.keys() == plain.registers.keys()
    assert gpu.by_offset.keys() == plain.by_offset.keys()
    assert gpu.register("hub.IDENT").reset == 0x24
    secret, absent, gate = gpu.others
    assert [r.name for r in gpu.others] == ["core.SECRET", "core.ABSENT", "power.GATE"]
    assert all(r.hidden and not r.may_write and not r.accepts(0) for r in gpu.others)
    assert (secret.model_bits, secret.modelled, absent.modelled) == (0x1, True, False)
    assert (gate.offset, gate.reset, gate.source) == (0x104, 0x1, "the board's manual")
    assert (gpu.blocks["power"].board, gpu.blocks["hub"].board) == ("B", "")
    assert gpu.sources == {"registers": "a header"}
    assert gpu.bit_names == {"core.START": {"GO": 0x1, "MODE": 0x6, "AT_WORK": 0x10}}
    start = gpu.register("core.START")
    assert start.model_bits == start.bits | start.busy
    assert gpu.register("hub.IDENT").model_bits == 0


@pytest.mark.parametrize(
    ("what", "by", "message"),
    [
        ("lacks = 0x2", "lacks = 0x4", "core.SECRET: the model lacks bits that the register lacks too"),
        ('model = "none"', 'model = "some"', "model is 'some'"),
        ('replay = "none"', 'replay = "some"', "replay is 'some'"),
        ("GO = 0", "GO = 1", "core.START: a bit has two names"),
        ("GO = 0", "GO = 3, NO = 5", "core.START: a bit that has a name is not among its bits"),
        ("START = { GO", "STOP = { GO", "KeyError('STOP')"),
        ("SECRET = { offset = 0x8", "SECRET = { offset = 0x4", "core.SECRET and core.DONE share an offset"),
        ("GATE = { offset = 0x4", "GATE = { offset = 0x24", "power.GATE is misplaced"),
    ],
)
def test_contradictions_in_it(what: str, by: str, message: str) -> None:
    text = with_more(SMALL)
    assert what in text
    with pytest.raises(ProfileError, match=re.escape(message)):
        parse(text.replace(what, by, 1))


@pytest.mark.parametrize("name", profile.names())
def test_profiles_that_ship(name: str) -> None:
    gpu = profile.load(name)
    assert gpu.name == name
    assert profile.for_gpu(gpu.gpu) is gpu
    assert gpu.identity_value & ~gpu.identity_mask == 0
    assert gpu.identity.readable
    for register in gpu.registers.values():
        assert register.readable or register.writable, register.name
        assert register.writable or not (register.bits or register.driver), register.name
        assert register.replay_bits is None or register.writable, register.name
        assert gpu.describe(register.offset) == register.name
    assert gpu.sources.keys() == {"registers", "reset"}
    assert any(job.start.may_set or job.start.driver for job in gpu.jobs), "somebody must start a job"
    for job in gpu.jobs:
        assert job.done.readable
        assert job.done_bits


def test_names_and_numbers() -> None:
    assert "v3d42" in profile.names()
    with pytest.raises(ProfileError, match=r"no profile for GPU 'none'; there are: .*v3d42"):
        profile.load("none")
    with pytest.raises(ProfileError, match="no profile for GPU number 77"):
        profile.for_gpu(77)
    with pytest.raises(ProfileError, match=r"v3d42.toml: GPU profile v3d42 has no register hub.NONE"):
        profile.load("v3d42").register("hub.NONE")


def test_every_gpu_profile_is_packed_with_the_module() -> None:
    folder = resources.files("trace_format") / "gpus"
    assert {entry.name for entry in folder.iterdir()} == {f"{name}.toml" for name in profile.names()}


MALFORMED: list[tuple[str, str, str, str]] = [
    # name, what is replaced (a regular expression), by what, message
    ("not TOML", r"\[mmu\]", "[mmu", "not TOML"),
    ("no name", r'name = "small"\n', "", "KeyError('name')"),
    ("unknown GPU", "V3D42", "V3D99", "KeyError('V3D99')"),
    ("no window", r"window_bytes = 0x100\n", "", "KeyError('window_bytes')"),
    ("a text for a number", "= 0x100", '= "big"', "malformed GPU profile: TypeError"),
    ("no blocks", r"\[blocks\]", "[blocked]", "KeyError('blocks')"),
    ("registers without a block", r"hub = \{", "bus = {", "KeyError('hub')"),
    ("identity is no register", r'register = "hub.IDENT"\nid', 'register = "hub.ID"\nid', "KeyError('hub.ID')"),
    ("revision is no register", "core.REVISION", "core.REV", "KeyError('core.REV')"),
    ("job starts nowhere", "core.START", "core.GO", "KeyError('core.GO')"),
    ("job ends on no line", 'done_line = "mmu"', 'done_line = "irq"', "malformed GPU profile: ValueError"),
    ("unknown key", "busy = 0x10", "bussy = 0x10", "core.START has unknown keys ['bussy']"),
    ("not word aligned", "offset = 0x1c", "offset = 0x1e", "core.REVISION is misplaced"),
    ("outside its block", "offset = 0x1c", "offset = 0x20", "core.REVISION is misplaced"),
    ("before its block", "offset = 0x1c", "offset = -4", "core.REVISION is misplaced"),
    ("two at one place", "offset = 0x1c", "offset = 0x4", "core.REVISION and core.DONE share an offset"),
    ("overlapping blocks", "base = 0x40", "base = 0x00", "core.START and hub.IDENT share an offset"),
    ("outside the window", "= 0x100", "= 0x5c", "core.REVISION lies outside the register window"),
    ("replay of bits it lacks", "bits = 0x7,", "bits = 0x17,", "core.START: a trace may write bits"),
    ("must set what it may not", "set = 0x1", "set = 0x8", "core.START: a trace may write bits"),
]


@pytest.mark.parametrize(("name", "what", "by", "message"), MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed_profiles(name: str, what: str, by: str, message: str) -> None:
    text, count = re.subn(what, by, SMALL, count=1)
    assert count == 1
    with pytest.raises(ProfileError) as caught:
        parse(text)
    assert str(caught.value).startswith("small.toml")
    assert message in str(caught.value)


def test_a_profile_that_is_not_text() -> None:
    with pytest.raises(ProfileError, match=r"x\.toml: not TOML: 'utf-8' codec"):
        profile._parse("x.toml", b"\xff\xfe")
