# SPDX-License-Identifier: BSD-2-Clause
"""Firmware with a replay log, in Unicorn: the device writes what the host's own code verifies."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unicorn import UC_HOOK_MEM_WRITE
from unicorn.arm64_const import UC_ARM64_REG_SP

import baremetal
from host_tools import runners
from host_tools.commands.verify_report import measured
from host_tools.runners import firmware, libraries
from host_tools.runners.replay import Evidence as Said
from host_tools.runners.replay import ReplayResult
from signing.attestation import Expected, check_attestation, read_attestation, tensor_hashes
from signing.delivery import Delivery
from signing.log_checks import Fault, check_log
from signing.replay_log import ENTRY_BYTES, Entry, head_hash, read_log, read_tail
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import GenerateError, Options
from tee_replayer.generator.platforms import platform_of
from tests.support import replayer_samples as s
from tests.support.figures import documented, is_near
from tests.support.firmware_samples import kept
from tests.support.log_samples import KEYS, PRIVATE, SECRET
from tests.support.logging_boot import DRAM_BYTES, INPUT, boot
from tests.support.replayer_samples import signed, trace
from trace_format.actions import Op, action
from trace_format.schema import SlotKind
from trace_format.schema.log import LogKind
from trace_format.schema.report import Status
from trace_format.trace import Trace

pytestmark = pytest.mark.usefixtures("checked_caches")

# Pieces of keys that are looked for, as they are, and as HMAC's blocks have them (RFC 2104).
PIECE, MASKS = 8, (0, 0x36, 0x5C)
NONCE = bytes(range(20))
SAMPLE = trace(meta={"security_version": 7, "name": "small"})
ALL = Evidence(log=True, hashes=True, attestation=True)
# Of firmware for v3d42 on qemu-virt: in all, without the crypto library and its seam, in all with all evidence.
SECOND_KEY, KNOWN_ANSWER = 72, 160
MAX_BYTES, MAX_OWN_CODE_BYTES = 20480, 9216 + SECOND_KEY + KNOWN_ANSWER
MAX_BYTES_WITH_ALL = 38 * 1024


@pytest.fixture(scope="module")
def folder() -> Path:
    """A compiled firmware with all that there is."""
    return kept("v3d42", evidence=ALL)


@pytest.fixture(scope="module")
def only_log() -> Path:
    return kept("v3d42", evidence=Evidence(log=True))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """What the board keeps."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "device.secret").write_bytes(SECRET)
    return tmp_path / "store"


Run = Callable[..., ReplayResult]


@pytest.fixture
def run(folder: Path, store: Path) -> Run:
    """One boot of the device."""

    def boot(data: bytes | None = None, **options: Any) -> ReplayResult:
        delivery = Delivery(signed(SAMPLE) if data is None else data)
        given: dict[str, Any] = {"inputs": {"in": INPUT}, "firmware": folder, "store": store, **options}
        return runners.run("unicorn", delivery, s.KEY, **given)

    return boot


def kinds(entries: list[Entry]) -> list[LogKind | None]:
    return [entry.kind for entry in entries]


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def test_a_log_over_several_boots(run: Run, store: Path, folder: Path) -> None:
    head = head_hash(SAMPLE.build(compress=False))
    log = run(repeat=2).evidence.entries
    refused = run(signed(trace(s.write("bridge.SW_INIT_1", 1))))
    assert refused.report.name == "REGISTER"
    log += refused.evidence.entries
    stranger = signed(SAMPLE)
    log += run(stranger[:-1] + bytes([stranger[-1] ^ 1])).evidence.entries
    log += run(stranger[:70] + bytes([stranger[70] ^ 1]) + stranger[71:]).evidence.entries
    log += run().evidence.entries
    entries = read_log(log)
    tail = read_tail((store / "device.tail").read_bytes())
    checked = check_log(entries, key=KEYS.log, tail=tail, traces=[head, entries[5].subject])
    assert checked.findings == ()
    boot, load, replay, refusal = LogKind.BOOT, LogKind.LOAD, LogKind.REPLAY, LogKind.REFUSAL
    assert kinds(entries) == [boot, load, replay, replay, *[boot, refusal] * 3, boot, load, replay]
    assert {entry.subject for entry in entries if entry.kind is boot} == {
        sha256((folder / "firmware.bin").read_bytes())
    }
    assert [entry.boot for entry in entries] == [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5]
    for index in (1, 2, 3, 11, 12):
        values = entries[index].values
        assert (entries[index].subject, values["trace_id"]) == (head, SAMPLE.trace_id)
        assert (values["security_version"], values["status"]) == (7, Status.OK)
    # refused by a rule after the signature; by a chunk; by the signature, so that nothing is known of the trace
    assert [entries[i].values["status"] for i in (5, 7, 9)] == [Status.REGISTER, Status.CHUNK, Status.SIGNATURE]
    assert entries[5].subject not in (head, bytes(32))
    assert entries[7].subject == head
    assert (entries[9].subject, entries[9].values["trace_id"]) == (bytes(32), bytes(16))
    inputs, outputs = tensor_hashes(SAMPLE, {"in": INPUT, "out": INPUT})
    assert {(e.values["inputs"], e.values["outputs"]) for e in entries if e.kind is replay} == {(inputs, outputs)}


def test_what_was_done_to_the_log_is_found(run: Run, store: Path) -> None:
    log = b"".join(run().evidence.entries for _ in range(3))
    entries = [log[at : at + ENTRY_BYTES] for at in range(0, len(log), ENTRY_BYTES)]
    tail = read_tail((store / "device.tail").read_bytes())
    swapped = [*entries[:2], entries[3], entries[2], *entries[4:]]
    altered = [entries[0], entries[1][:60] + b"\1" + entries[1][61:], *entries[2:]]
    for changed, fault in (
        ([*entries[:4], *entries[5:]], Fault.GAP),
        (altered, Fault.ALTERED),
        (swapped, Fault.REORDERED),
        ([*entries, entries[3]], Fault.DUPLICATE),
        (entries[:-1], Fault.CUT_TAIL),
    ):
        found = check_log(read_log(b"".join(changed)), key=KEYS.log, tail=tail)
        assert [finding.fault for finding in found.findings] == [fault]


def test_a_tail_that_is_put_back_shows(run: Run, store: Path) -> None:
    """The board's counter of boots is not put back with it."""
    log = run().evidence.entries
    kept = (store / "device.tail").read_bytes()
    lost = run().evidence.entries
    (store / "device.tail").write_bytes(kept)
    log += run().evidence.entries
    found = check_log(read_log(log), key=KEYS.log, tail=read_tail((store / "device.tail").read_bytes()))
    assert [finding.fault for finding in found.findings] == [Fault.ROLL_BACK]
    found = check_log(read_log(log + lost), key=KEYS.log)
    assert Fault.FORK in {finding.fault for finding in found.findings}


def test_an_attestation(run: Run, store: Path, folder: Path) -> None:
    said = run(nonce=NONCE).evidence
    report = read_attestation(said.attestation)
    inputs, outputs = tensor_hashes(SAMPLE, {"in": INPUT, "out": INPUT})
    head = head_hash(SAMPLE.build(compress=False))
    firmware_hashes = measured(folder / "firmware.bin")
    expected = Expected(NONCE, traces=[head], inputs=inputs, outputs=outputs, **firmware_hashes)
    assert list(check_attestation(report, KEYS.public, expected)) == []
    other = tensor_hashes(SAMPLE, {"in": INPUT + 1, "out": INPUT})[0]
    wrong: dict[str, Any] = {
        "nonce": bytes(20),
        "traces": [bytes(32)],
        "firmware": bytes(32),
        "policy": head,
        "inputs": other,
    }
    for name, value in wrong.items():
        found = check_attestation(report, KEYS.public, dataclasses.replace(expected, **{name: value}))
        assert [fault for fault, _ in found] == [f"other-{name.removesuffix('s') if name == 'traces' else name}"]
    # Without the log's key: the attestation leads to every entry.
    assert check_log(read_log(said.entries), tail=report.tail).findings == ()
    cut = check_log(read_log(said.entries[:-ENTRY_BYTES]), key=KEYS.log, tail=report.tail)
    assert [finding.fault for finding in cut.findings] == [Fault.CUT_TAIL]


@pytest.mark.parametrize("size", [8, 23, 24, 64])
def test_nonces_of_all_sizes(run: Run, size: int) -> None:
    report = read_attestation(run(nonce=bytes(range(size))).evidence.attestation)
    assert list(check_attestation(report, KEYS.public, Expected(bytes(range(size))))) == []


def test_a_replay_that_fails_is_not_attested_as_good(run: Run) -> None:
    sample = trace(s.read("hub.IDENT1", 0x77, 0xFF), meta={"security_version": 2, "retry_limit": 1})
    result = run(signed(sample), nonce=NONCE)
    assert result.report.name == "DIVERGED"
    last = read_log(result.evidence.entries)[-1]
    assert (last.kind, last.values["status"], last.values["retries"]) == (LogKind.REPLAY, Status.DIVERGED, 1)
    assert (last.values["inputs"], last.values["outputs"]) == (bytes(32), bytes(32))
    report = read_attestation(result.evidence.attestation)
    assert [name for name, _ in check_attestation(report, KEYS.public, Expected(NONCE))] == ["no-replay"]


def test_a_refused_trace_is_not_attested(run: Run) -> None:
    data = signed(SAMPLE)
    result = run(data[:70] + bytes([data[70] ^ 1]) + data[71:], nonce=NONCE)
    report = read_attestation(result.evidence.attestation)
    assert [name for name, _ in check_attestation(report, KEYS.public, Expected(NONCE))] == ["no-replay"]


def prologue_parameter() -> Trace:
    """The input is copied before ReplayStart, once for all replays."""
    rows = [*s.PROLOGUE[:-1], action(Op.COPY_TO_GPU, slot=0), s.PROLOGUE[-1], *s.REPLAY[1:]]
    return trace(*rows, slots=[dataclasses.replace(s.slots()[0], kind=SlotKind.PARAMETER), s.slots()[1]])


def test_parameters_are_hashed_for_every_replay(run: Run) -> None:
    sample = prologue_parameter()
    entries = read_log(run(signed(sample), repeat=3).evidence.entries)
    wanted = tensor_hashes(sample, {"in": INPUT, "out": INPUT})
    assert {(e.values["inputs"], e.values["outputs"]) for e in entries if e.kind is LogKind.REPLAY} == {wanted}


def test_strided_slots_are_hashed_dense(run: Run) -> None:
    sample = trace(slots=s.slots(strides=(4096 - 8, 4)), meta={"name": "over two pages"})
    entries = read_log(run(signed(sample)).evidence.entries)
    assert entries[-1].values["inputs"] == tensor_hashes(sample, {"in": INPUT, "out": INPUT})[0]


def test_inputs_that_are_not_given_are_not_hashed(run: Run) -> None:
    result = run(inputs={})
    inputs, _ = tensor_hashes(SAMPLE, {"out": result.outputs["out"]})
    assert read_log(result.evidence.entries)[-1].values["inputs"] == inputs


def test_without_a_place_for_the_log_nothing_is_replayed(run: Run, store: Path, folder: Path) -> None:
    (store / "device.secret").unlink()
    result = run()
    assert (result.report.name, result.outputs, result.evidence) == ("LOG", {}, Said())
    (store / "device.secret").write_bytes(bytes(32))
    assert run().report.name == "LOG"
    (store / "device.secret").write_bytes(SECRET[:-1])
    assert run().report.name == "LOG"
    assert runners.run("unicorn", Delivery(signed(SAMPLE)), s.KEY, firmware=folder).report.name == "LOG"


def test_no_attestation_where_it_was_not_chosen(only_log: Path, run: Run) -> None:
    assert run(firmware=only_log, nonce=NONCE).report.name == "REQUEST"
    result = run(firmware=only_log)
    assert result.ok
    last = read_log(result.evidence.entries)[-1]
    assert last.is_of(KEYS.log)
    assert (last.values["inputs"], last.values["outputs"]) == (bytes(32), bytes(32))


def test_who_does_not_want_it_pays_nothing(folder: Path) -> None:
    """The firmware has the sizes that EVIDENCE.md promises; what the log costs is bounded."""
    plain = kept("v3d42")
    for out, has_log in ((plain, False), (folder, True)):
        text = "".join((out / name).read_text() for name in ("replayer.c", "replayer.h", "crypto.c", "Makefile"))
        assert ("gr_log_append" in text) == ("hmac" in text) == (out / "evidence.c").exists() == has_log
    without, with_all = firmware.sizes(plain), firmware.sizes(folder)
    plain_bytes, all_bytes = (sizes["in all, code and constants"] for sizes in (without, with_all))
    assert without["our own code"] <= MAX_OWN_CODE_BYTES
    assert plain_bytes <= MAX_BYTES
    assert plain_bytes < all_bytes <= MAX_BYTES_WITH_ALL
    for pattern, size in (
        (r"([\d,]+) bytes for v3d42 on `qemu-virt`", plain_bytes),
        (r"`qemu-virt`, ([\d,]+) of them our own code", without["our own code"]),
        (r"([\d,]+) bytes without, [\d,]+ with all", plain_bytes),
        (r"[\d,]+ bytes without, ([\d,]+) with all", all_bytes),
    ):
        assert is_near(documented("docs/EVIDENCE.md", pattern), size), pattern


def test_a_board_without_a_place_for_a_secret(tmp_path: Path) -> None:
    for gpu, platform in (("v3d42", "rpi4"), ("mali_g71", "hikey960")):
        with pytest.raises(GenerateError, match=r"expected gr_board_secret"):
            generate(
                Options(gpu, platform_of(platform), s.KEY, libraries.source(), evidence=ALL), tmp_path / "out"
            )
    assert not (tmp_path / "out").exists()


def test_what_goes_to_the_mailbox_is_bounded() -> None:
    """A flipped bit of memcpy's length copied the stack, and keys on it, after what was to be copied."""
    source = (Path(baremetal.__file__).parent / "evidence.c").read_text(encoding="utf-8")
    assert "memcpy(shared(" not in source
    assert source.count("publish(e->") == 2


def below_the_stack(memory: bytes, start: int, pointer: int) -> bytes:
    """What lies between the stack's guard, a word that holds its own address, and the stack pointer."""
    words = np.frombuffer(memory, "<u8")
    (guard,) = np.flatnonzero(words == start + 8 * np.arange(len(words), dtype="u8"))
    return memory[8 * (guard + 1) : pointer - start]


def test_no_key_is_in_memory_while_something_goes_out(folder: Path, store: Path) -> None:
    """One flipped bit of a pointer or of a length publishes other memory than it should: there must be no key.

    GCC 12 leaves none on the stack, GCC 14 pieces of two: it is wiped, whatever a compiler does.
    """
    private = PRIVATE.to_bytes(len(SECRET), "big")
    keys = {"secret": SECRET, "log key": KEYS.log, "private key": private}
    pieces = {
        bytes(byte ^ mask for byte in key[at : at + PIECE]): name
        for name, key in keys.items()
        for at in range(0, len(key), PIECE)
        for mask in MASKS
    }
    found: set[str] = set()
    writes = wiped = 0

    def watch(engine: Any, fw: firmware.Firmware) -> None:
        def look(*_: object) -> None:
            nonlocal writes, wiped
            writes += 1
            memory = bytes(engine.mem_read(*fw.ram))
            found.update(name for piece, name in pieces.items() if piece in memory)
            wiped += not any(below_the_stack(memory, fw.ram[0], engine.reg_read(UC_ARM64_REG_SP)))

        start = fw.board.mailbox_base
        engine.hook_add(UC_HOOK_MEM_WRITE, look, None, start, start + DRAM_BYTES - 1)

    assert boot(folder, store, watch, nonce=NONCE).ok
    assert writes >= wiped > 4 * ENTRY_BYTES  # of a boot, a load, a replay, and an attestation
    assert not found
