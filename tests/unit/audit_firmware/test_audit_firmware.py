# SPDX-License-Identifier: BSD-2-Clause
"""The parts of `gramophone audit-firmware`: code, loops, stack, constants. On whole firmware: tests/emulated."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from host_tools.audit.allowed import AllowanceError
from host_tools.audit.rules import Severity
from host_tools.audit_firmware import allowed, constants, expected
from host_tools.audit_firmware.document import TARGET as FIRMWARE_TARGET
from host_tools.audit_firmware.flow import clobbered, flow_of
from host_tools.audit_firmware.graph import cycles, reachable
from host_tools.audit_firmware.image import Image, Segment, of_bytes
from host_tools.audit_firmware.instructions import FLAGS, LINK, SP, Decoder
from host_tools.audit_firmware.loops import CLOCK, COUNTER, EVENTS, NONE, Movers, loops
from host_tools.audit_firmware.program import Program
from host_tools.audit_firmware.rules import RULES, FirmwareFinding, document
from host_tools.audit_firmware.stack import frames, recursions, worst
from host_tools.audit_firmware.target import of_image
from host_tools.audit_firmware.unknown import unknown
from host_tools.cli import main
from signing.keys import Algorithm, generate
from signing.sign import FileSigner
from tee_replayer.generator import boards
from tee_replayer.generator.device import Device
from tests.support import replayer_samples as s
from trace_format import profile

V3D, G71 = profile.load("v3d42"), profile.load("mali_g71")
RET = "d65f03c0 ret"


def assembled(*lines: str) -> Image:
    """A firmware without symbols, of words as a disassembler prints them."""
    return of_bytes("code", b"".join(int(line.split()[0], 16).to_bytes(4, "little") for line in lines), 0x1000)


def program(*lines: str) -> Program:
    return Program(assembled(*lines))


# word and text -> registers that it reads, and writes
INSTRUCTIONS = {
    "91000463 add x3, x3, #1": ({3}, {3}),
    "f1000400 subs x0, x0, #1": ({0}, {0, FLAGS}),
    "f101903f cmp x1, #0x64": ({1}, {FLAGS}),
    "f2a16000 movk x0, #0xb00, lsl #16": ({0}, {0}),
    "d2800140 mov x0, #0xa": (set(), {0}),
    "a9be7bfd stp x29, x30, [sp, #-0x20]!": ({29, LINK, SP}, {SP}),
    "a8c27bfd ldp x29, x30, [sp], #0x20": ({SP}, {29, LINK, SP}),
    "f8008464 str x4, [x3], #8": ({3, 4}, {3}),
    "38626824 ldrb w4, [x1, x2]": ({1, 2}, {4}),
    "f9000fff str xzr, [sp, #0x18]": ({SP}, set()),
    "35ffffe2 cbnz w2, #0xffc": ({2}, set()),
    "54ffffe1 b.ne #0xffc": ({FLAGS}, set()),
    "1a869084 csel w4, w4, w6, ls": ({4, 6, FLAGS}, {4}),
    "fa401042 ccmp x2, x0, #2, ne": ({0, 2, FLAGS}, {FLAGS}),
    "d53be021 mrs x1, cntpct_el0": (set(), {1}),
    "d51ed040 msr tpidr_el3, x0": ({0}, set()),
    "d37e6c04 ubfiz x4, x0, #2, #0x1c": ({0}, {4}),
    "94000003 bl #0x100c": (set(), {LINK}),
    "d63f0080 blr x4": ({4}, {LINK}),
}


@pytest.mark.parametrize("line", INSTRUCTIONS)
def test_what_an_instruction_reads_and_writes(line: str) -> None:
    word, _, text = line.partition(" ")
    row = Decoder().decode(0x1000, int(word, 16).to_bytes(4, "little"))
    assert row is not None
    assert row.words == text
    reads, writes = INSTRUCTIONS[line]
    assert (set(row.reads), set(row.writes)) == (reads, writes)


LOOPS = {
    "a counter": (
        COUNTER,
        ("d2800140 mov x0, #10", "f1000400 subs x0, x0, #1", "54ffffe1 b.ne -4", RET),
    ),
    "a counter in memory": (
        COUNTER,
        (
            "b9400801 ldr w1, [x0, #8]",
            "51000421 sub w1, w1, #1",
            "b9000801 str w1, [x0, #8]",
            "35ffffa1 cbnz w1",
            RET,
        ),
    ),
    "a counter on the stack": (
        COUNTER,
        (
            *("d10043ff sub sp, sp, #16", "b9000be0 str w0, [sp, #8]", "b9400be1 ldr w1, [sp, #8]"),
            *("11000421 add w1, w1, #1", "b9000be1 str w1, [sp, #8]", "6b02003f cmp w1, w2", "54ffff83 b.lo"),
            *("910043ff add sp, sp, #16", RET),
        ),
    ),
    "a flag that the first turn sets": (
        COUNTER,
        (
            *("52800001 mov w1, #0", "b9400002 ldr w2, [x0]", "35000061 cbnz w1, out", "52800021 mov w1, #1"),
            *("17fffffd b back", RET),
        ),
    ),
    "a clock": (
        CLOCK,
        (
            *("d53be022 mrs x2, cntpct_el0", "d53be021 mrs x1, cntpct_el0", "cb020021 sub x1, x1, x2"),
            *("f101903f cmp x1, #100", "54ffffa3 b.lo", RET),
        ),
    ),
    "sleep": (EVENTS, ("d503207f wfi", "17ffffff b -4")),
    "a counter that is tested where it can be the last": (  # as GCC 14 makes it of BearSSL's p256_to_affine
        COUNTER,
        (
            *("52800020 mov w0, #1", "71003c1f cmp w0, #15", "54000060 b.eq +12", "11000400 add w0, w0, #1"),
            *("17fffffd b -12", "11000400 add w0, w0, #1", "7100401f cmp w0, #16", "54ffff41 b.ne -24", RET),
        ),
    ),
    "a counter that is put back": (
        NONE,
        (
            *("52800220 mov w0, #17", "71003c1f cmp w0, #15", "54000060 b.eq +12", "11000c00 add w0, w0, #3"),
            *("12000c00 and w0, w0, #15", "17fffffc b -16", RET),
        ),
    ),
    "a counter of which the start is not known": (
        NONE,
        (
            *("71003c1f cmp w0, #15", "54000060 b.eq +12", "11000400 add w0, w0, #1"),
            *("17fffffd b -12", "11000400 add w0, w0, #1", "7100401f cmp w0, #16", "54ffff41 b.ne -24", RET),
        ),
    ),
    "two loops with one head": (  # as AWS-LC's aes_hw_ctr32_encrypt_blocks: rounds, in blocks
        COUNTER,
        (
            *("710008c6 subs w6, w6, #2", "54ffffec b.gt -4", "2a0503e6 mov w6, w5"),
            *("f1000c42 subs x2, x2, #3", "54ffff82 b.hs -16", RET),
        ),
    ),
    "two loops with one head, of which the inner one does not count": (
        NONE,
        (
            *("b9400022 ldr w2, [x1]", "35ffffe2 cbnz w2, -4", "2a0503e6 mov w6, w5"),
            *("f1000c63 subs x3, x3, #3", "54ffff82 b.hs -16", RET),
        ),
    ),
    "pointers that meet": (  # as its aes_hw_set_decrypt_key
        COUNTER,
        ("4c9f7841 st1 {v1.4s}, [x2], #16", "eb02001f cmp x0, x2", "54ffffc8 b.hi -8", RET),
    ),
    "nothing that moves": (NONE, ("b9400001 ldr w1, [x0]", "34ffffe1 cbz w1", RET)),
    "no way out": (NONE, ("14000000 b 0",)),
    "a way around the counter": (
        NONE,
        ("b9400022 ldr w2, [x1]", "35ffffe2 cbnz w2", "f1000400 subs x0, x0, #1", "54ffffa1 b.ne", RET),
    ),
    "a counter that nothing looks at": (
        NONE,
        ("91000463 add x3, x3, #1", "b9400001 ldr w1, [x0]", "34ffffc1 cbz w1", RET),
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_bounds_a_loop(name: str) -> None:
    kind, lines = LOOPS[name]
    found = program(*lines)
    (function,) = found.running
    flow = flow_of(function, frames(function), clobbered(found))
    assert [loop.kind for loop in loops(found, function, flow, Movers.of(found))] == [kind]


def test_a_place_on_the_stack_whose_address_is_given_away() -> None:
    """GCC 14 filled a structure by stores before a call that fills it again, and the audit saw the first only."""
    words = ("d10083ff sub sp, sp, #32", "b9000bff str wzr, [sp, #8]", "b90013ff str wzr, [sp, #16]")
    call = (
        "910033e0 add x0, sp, #12",
        "94000005 bl +20",
        "b9400be1 ldr w1, [sp, #8]",
        "b94013e2 ldr w2, [sp, #16]",
    )
    found = program(*words, *call, "910083ff add sp, sp, #32", RET, "b9000402 str w2, [x0, #4]", RET)
    function = next(row for row in found.running if row.start == 0x1000)
    flow = flow_of(function, frames(function), clobbered(found))
    below, above = flow.slots[0x1014], flow.slots[0x1018]
    assert [flow.sources(0x1014, slot) for slot in below] == [frozenset((0x1004,))]
    assert [flow.sources(0x1018, slot) for slot in above] == [frozenset((0x1008, 0x1010))]


CALLED = (
    *("d28a0010 mov x16, #0x5000", "cb3063ff sub sp, sp, x16", "d10103ff sub sp, sp, #0x40"),
    *("910103ff add sp, sp, #0x40", "8b3063ff add sp, sp, x16", RET),
)


def test_the_worst_case_of_the_stack() -> None:
    found = program("a9be7bfd stp", "94000003 bl +12", "a8c27bfd ldp", RET, *CALLED)
    deepest = worst(found, {row.start: frames(row) for row in found.running})
    assert (deepest[0x1000].bytes, deepest[0x1000].is_bound) == (0x20 + 0x5000 + 0x40, True)
    assert deepest[0x1000].path == ("at_1000", "at_1010")


def test_recursion_has_no_bound() -> None:
    found = program("f81f0ffe str x30, [sp, #-16]!", "97ffffff bl -4", "f84107fe ldr x30, [sp], #16", RET)
    assert [[row.start for row in group] for group in recursions(found)] == [[0x1000]]
    assert not worst(found, {row.start: frames(row) for row in found.running})[0x1000].is_bound


def test_steps_of_the_stack_pointer_that_are_not_constant() -> None:
    (function,) = program("cb2063ff sub sp, sp, x0", "910003bf mov sp, x29", RET).running
    found = frames(function)
    assert (found.unknown, found.resets) == ((0x1000, 0x1004), ())
    (function,) = program("9100001f mov sp, x0", "d10043ff sub sp, sp, #16", RET).running
    assert (frames(function).resets, frames(function).depth) == ((0x1000,), 16)


def test_a_stack_that_grows_in_a_loop() -> None:
    (function,) = program("d10043ff sub sp, sp, #16", "f1000400 subs x0, x0, #1", "54ffffc1 b.ne -8", RET).running
    assert frames(function).unknown


def test_code_behind_a_call_that_never_returns_is_not_followed() -> None:
    """A compiler puts constants there."""
    found = program("94000002 bl +8", "ffffffff a constant", "14000000 b 0")
    assert [row.problems for row in found.running] == [[], []]
    assert [row.returns for row in found.running] == [False, False]


def test_unknown_bytes() -> None:
    good = ("10000060 adr x0, #12", "94000003 bl", RET, "12345678 named", "d503201f nop", RET)
    assert [row[0] for row in unknown(program(*good))] == []
    bad = ("94000004 bl", RET, "12345678", RET, RET)
    assert [row[:2] for row in unknown(program(*bad))] == [(0x100C, 4), (0x1008, 8)]


GRAPHS = st.integers(1, 9).flatmap(
    lambda size: st.lists(st.lists(st.integers(0, size - 1), max_size=3), min_size=size, max_size=size)
)


@given(GRAPHS)
def test_cycles_are_the_nodes_that_reach_each_other(edges: list[list[int]]) -> None:
    nodes = range(len(edges))
    below = {node: reachable(edges[node], lambda at: edges[at]) for node in nodes}
    right = {frozenset(n for n in nodes if n in below[node] and node in below[n]) for node in nodes} - {
        frozenset()
    }
    assert {frozenset(group) for group in cycles(nodes, lambda at: edges[at])} == right


@given(GRAPHS, st.sets(st.integers(0, 8)))
def test_what_is_reached_without_some_nodes(edges: list[list[int]], without: set[int]) -> None:
    found = reachable([0], lambda at: edges[at], without)
    assert not found & without
    assert all(to in found or to in without for node in found for to in edges[node])


def image(*parts: bytes) -> Image:
    return Image("image", "raw", (Segment(0, b"".join(parts), 1 << 16, "rx"),), ())


@pytest.mark.parametrize("gpu", [V3D, G71], ids=lambda gpu: gpu.name)
def test_the_allow_list_is_found(gpu: profile.Profile) -> None:
    registers, limits = constants.allow_list(gpu)
    found = constants.tables(image(b"?" * 12, limits, registers, b"?"), gpu)
    assert [(row.address, row.differs) for row in found] == [(12 + len(limits), ""), (12, "")]


@pytest.mark.parametrize("row", [0, 7, -1])
def test_a_changed_row_is_named(row: int) -> None:
    registers, limits = map(bytearray, constants.allow_list(V3D))
    number = row % (len(registers) // 4)
    registers[number * 4 + 2] ^= 0x20  # one more kind of access
    found = constants.tables(image(bytes(registers), bytes(limits)), V3D)
    assert found[0].differs.startswith(f"row {number} (")
    assert found[1].differs == ""


def test_no_allow_list() -> None:
    assert [row.address for row in constants.tables(image(bytes(4096)), V3D)] == [None, None]


def test_keys() -> None:
    other = FileSigner(generate(Algorithm.ES256)).public
    wrong = other.raw[:-1] + bytes([other.raw[-1] ^ 1])
    found = constants.points(image(b"\4" * 7, s.KEY.raw, wrong, other.raw))
    assert [(row.address, row.data) for row in found] == [(7, s.KEY.raw), (7 + 65 + 65, other.raw)]
    assert (
        constants.key_files(image(s.KEY.pem()))[0].what == "a key in a file's form: '-----BEGIN PUBLIC KEY-----'"
    )


def test_what_an_image_says_of_itself() -> None:
    device = Device("rpi4", V3D.profile_id, 3, s.KEY)
    found = of_image(image(bytes(8), device.encoded))
    assert (found.platform, found.profile, found.problems) == ("rpi4", V3D, ())
    assert found.regions["gpu"].bytes >= V3D.window_bytes
    assert of_image(image(bytes(8))).problems[0].endswith("found none")
    assert of_image(image(device.encoded, device.encoded)).problems[0].endswith("found 2")
    damaged = bytearray(device.encoded)
    damaged[60] ^= 1
    assert len(of_image(image(bytes(damaged))).problems) == 1


def test_registers_of_the_driver() -> None:
    names = {V3D.by_offset[offset].name for offset in expected.driver_registers(V3D) if offset in V3D.by_offset}
    assert names == {
        *("hub.MMU_CTL", "hub.MMU_PT_PA_BASE", "hub.MMU_ADDR_CAP", "hub.MMU_ILLEGAL_ADDR", "bridge.SW_INIT_1")
    }
    mali = expected.driver_registers(G71)
    assert {G71.register(f"as{i}.TRANSTAB_LO").offset for i in range(8)} <= mali
    assert G71.register("gpu.GPU_ID").offset not in mali


def test_steps_are_counted_in_the_sources() -> None:
    found = expected.steps(V3D, boards.load("qemu-virt"))
    assert (found["check_signature"], found["gr_find_register"], found["gr_fetch_action"]) == (2, 2, 2)
    assert "gr_stack_excess" not in expected.steps(V3D, boards.load("optee"))


def test_the_page_is_the_table() -> None:
    assert FIRMWARE_TARGET.read_text(encoding="utf-8") == document()
    assert all(rule.id == name and rule.severity in Severity for name, rule in RULES.items())


def entries(*rows: str) -> str:
    return "\n".join(["[[allow]]", *rows])


def test_what_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "allow.toml"
    file.write_text(entries('rule = "GF201"', 'where = "gr_board_start"', 'reason = "the counter"'))
    found = [
        FirmwareFinding(RULES["GF201"], "", "gr_board_start+0x8", 8),
        FirmwareFinding(RULES["GF201"], "", "gr_main", 16),
        FirmwareFinding(RULES["GF301"], "", "gr_board_start", 8),
    ]
    assert allowed.accepted(found, allowed.read(file)) == {0: "the counter"}


@pytest.mark.parametrize(
    "rows",
    [
        ('rule = "GF201"',),
        ('rule = "GR101"', 'reason = "x"'),
        ('rule = "GF201"', 'reason = "x"', "action = 1"),
        ('rule = "GF201"', 'reason = "x"', "where = 1"),
    ],
)
def test_a_bad_list_of_what_is_accepted(tmp_path: Path, rows: Iterable[str]) -> None:
    file = tmp_path / "allow.toml"
    file.write_text(entries(*rows))
    with pytest.raises(AllowanceError, match=r"allow\.toml"):
        allowed.read(file)


ELF = b"\x7fELF\2\1\1" + bytes(9)
FILES = {
    "nothing": (b"", "expected an ELF file, an image of 'gramophone flash' or a firmware.bin, found none of them"),
    "noise": (bytes(range(256)) * 40, "found none of them"),
    "an ELF that ends": (ELF, "not an ELF file of a firmware"),
    "an ELF of another machine": (
        ELF + bytes.fromhex("02003e0001000000") + bytes(8) + (64).to_bytes(8, "little") + bytes(24),
        "expected AArch64 code",
    ),
    "a device constant that is damaged": (Device("rpi4", 1, 0, s.KEY).encoded[:-30], "the device's constant"),
    "an unknown board": (Device("mine", V3D.profile_id, 0, s.KEY).encoded, "--board names its description"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_firmware(tmp_path: Path, name: str) -> None:
    data, reason = FILES[name]
    file = tmp_path / "firmware.bin"
    file.write_bytes(data)
    done = CliRunner().invoke(main, ["audit-firmware", str(file)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert reason in done.stderr
    assert str(file) in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_constant_alone_is_judged(tmp_path: Path) -> None:
    """An image whose code is nothing: everything that must be there is missed, and nothing crashes."""
    file, log = tmp_path / "firmware.bin", tmp_path / "log.sarif"
    file.write_bytes(bytes(0x400) + Device("qemu-virt", V3D.profile_id, 0, s.KEY).encoded)
    done = CliRunner().invoke(main, ["audit-firmware", str(file), "--json", "--sarif", str(log)])
    assert done.exit_code == 1
    data = json.loads(done.stdout)
    assert {row["rule"] for row in data["firmware"][0]["findings"]} >= {"GF102", "GF302", "GF604", "GF605"}
    run = json.loads(log.read_text())["runs"][0]
    assert run["tool"]["driver"]["name"] == "gramophone audit-firmware"
    assert len(run["results"]) == len(data["firmware"][0]["findings"])
