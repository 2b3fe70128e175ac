# SPDX-License-Identifier: BSD-2-Clause
"""What documents say in figures is what the tests beside them say. Figures that must be measured are compared by
the tests that measure them (`tests/support/figures.py`); those of long runs stand beside the command of the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tee_replayer.crypto import hashes
from tests.campaign import sampling
from tests.emulated import test_evidence as evidence
from tests.extras.bringup import test_bringup as bringup
from tests.extras.bringup import test_prove as prove
from tests.extras.project import test_make_bounds as make_bounds
from tests.optee import test_cycles as cycles
from tests.optee import test_replay as optee_replay
from tests.proof import units
from tests.qemu import test_detector as detector
from tests.qemu import test_mixed as mixed
from tests.qemu import test_mmu as mmu
from tests.qemu import test_second_source as second_source
from tests.qemu import test_training as training
from tests.support import back_doors, hostile, hostile_operators, hostile_trust, planted
from tests.support.described_networks import HELD_OUT
from tests.support.figures import documented, is_near
from tests.support.places import CHECKOUT
from tests.unit.machine import test_hostile_archives as archives
from tests.unit.project import test_supply as supply
from tests.unit.signing import test_attestation as attestation
from tests.unit.signing import test_curves as curves
from tests.unit.signing import test_replay_log as replay_log
from tests.vgpu import test_bifrost_operations as bifrost
from tests.vgpu import test_faulty_gpu as faulty_gpu
from tests.vgpu import test_many_replays as many_replays
from tests.vgpu import test_operators as operators
from tests.vgpu import test_policy_agreement as agreement
from tests.vgpu import test_qpu_decode as qpu_decode
from tests.vgpu import test_replayer as replayer
from trace_format.schema import MAX_TIME_BUDGET_US
from trace_format.schema.report import Status

EVIDENCE = "docs/EVIDENCE.md"
TESTING = "docs/TESTING.md"
KB = 1024
TRUST = hostile_trust.CASES.values()
OWN, SIGNATURE, OTHER = sampling.WHOLE.skip, sampling.WHOLE.signature, sampling.WHOLE.other


def in_core(name: str) -> int:
    """A number that the replayer's core defines."""
    found = re.search(rf"#define {name} (\d+)u", (CHECKOUT / "tee_replayer/core/internal.h").read_text())
    assert found, name
    return int(found[1])


# Page, where on it, and what the test has; a function where counting takes long.
FIGURES: list[tuple[str, str, int | Callable[[], int]]] = [
    (EVIDENCE, r"([\d,]+) bits of a signed trace on the core", 8 * len(replayer.SMALL)),
    (
        EVIDENCE,
        r"([\d,]+) accesses of \w+ GPUs on host",
        lambda: sum(len(agreement.everything(g)) for g in agreement.GPUS),
    ),
    (EVIDENCE, r"([\d,]+) traces on host and core, a sample", len(hostile.LOADS)),
    (EVIDENCE, r"(\d+) differences planted in jobs", len(prove.PLANTS)),
    (EVIDENCE, r"(\d+) in stages", len(bringup.PLANTS)),
    (EVIDENCE, r"([\d,]+) bits flipped in working memory", faulty_gpu.FLIPS),
    (EVIDENCE, r"(\d+) of each of three kinds with `make test`", faulty_gpu.SAMPLE),
    (EVIDENCE, r"(\d+) paths that lead out", len(make_bounds.HOSTILE)),
    (EVIDENCE, r"each of (\d+) keys and options", len(make_bounds.ROWS)),
    (EVIDENCE, r"hashes of all (\d+) packages", len(supply.said_pins("constraints.txt"))),
    (EVIDENCE, r"(\d+) hostile archives", len(archives.ATTACKS)),
    (EVIDENCE, r"([\d,]+) replays of LeNet", many_replays.REPLAYS),
    (EVIDENCE, r"test_many_replays.py`\); (\d+) with `make test`", many_replays.SAMPLE),
    (EVIDENCE, r"([\d,]+) sessions \|", cycles.CYCLES),
    (EVIDENCE, r"([\d,]+) held-out digits", HELD_OUT),
    (EVIDENCE, r"(\d+) operations of GLSL", sum(map(len, second_source.OPERATIONS.values()))),
    (EVIDENCE, r"([\d,]+) triples each", second_source.ITEMS),
    (EVIDENCE, r"([\d,]+) registered words", len(qpu_decode.GOLDEN)),
    (EVIDENCE, r"(\d+) planted defects are found, nothing", len(planted.DEFECTS)),
    (
        EVIDENCE,
        r"(\d+) back doors are found in the image",
        len(back_doors.FOUND | back_doors.LEAKS | back_doors.IN_LOG),
    ),
    (EVIDENCE, r"(\d+) copies of the carve-out among them", len(back_doors.LEAKS | back_doors.IN_LOG)),
    (EVIDENCE, r"(\d+) are of the kinds that the first line names", sum(map(len, back_doors.NOT_FOUND.values()))),
    (EVIDENCE, r"(\d+) files by their hashes", len(hashes.known("bearssl")) + len(hashes.known("aws-lc"))),
    (EVIDENCE, r"(\d+) attacks, each named", len(replay_log.ATTACKS)),
    (EVIDENCE, r"([\d,]+) bits of an attestation", 8 * len(attestation.MESSAGE)),
    (EVIDENCE, r"after (\d+) replayed training steps", training.STEPS),
    (EVIDENCE, r"\| (\d+) hostile traces;", len(hostile_operators.ROWS) + len(hostile_operators.RUNS)),
    (EVIDENCE, r"(\d+) faults, each ends in the exception", len(mmu.CASES)),
    (EVIDENCE, r"(\d+) named cases, \d+ of them refused", len(TRUST)),
    (EVIDENCE, r"named cases, (\d+) of them refused", sum(case.status != Status.OK for case in TRUST)),
    (EVIDENCE, r"\d+ units, and (\d+) planted defects", len(units.DEFECTS)),
    (TESTING, r"([\d,]+) encodings, each for", len(bifrost.rows())),
    (TESTING, r"each for (\d+) rows of operands", len(bifrost.inputs())),
    (TESTING, r"every one for the stranger's signature, (\d+) for others \| 300, and 100 \|", OWN.before),
    (TESTING, r"300 for others \| 300, and (\d+) \|", OTHER.before),
    (TESTING, r"loops that copy or wipe \| (\d+) \|", OWN.bulk),
    (TESTING, r"the library's last (\d+) instructions", sampling.TAIL),
    (TESTING, r"for the stranger's signature, (\d+) for others \| the same", OWN.tail),
    (TESTING, r"the same, (\d+) for others", OTHER.tail),
    (TESTING, r"the rest of the library \| (\d+) for the stranger's", SIGNATURE.library),
    (TESTING, r"the rest of the library \| \d+ for the stranger's signature, (\d+) for others", OWN.library),
    ("docs/THREATS.md", r"`tests/optee/test_cycles.py`: ([\d,]+) sessions", cycles.CYCLES),
    ("docs/THREATS.md", r"refused, in all (\d+) encodings", len(curves.encodings())),
    ("docs/DESIGN.md", r"differ from each other in at least (\d+) bits", replayer.LEAST_DISTANCE),
    ("docs/DESIGN.md", r"`retry_limit` times \(never more than (\d+)\)", in_core("GR_RETRY_LIMIT")),
    ("docs/DESIGN.md", r"gets (\d+) ms to be over", in_core("GR_IDLE_TIMEOUT_US") // 1000),
    ("docs/DESIGN.md", r"The core grows by at most (\d+) KB", optee_replay.MAX_ADDED_BYTES // KB),
    ("README.md", r"a replayer of about (\d+) KB", evidence.MAX_BYTES // KB),
    (EVIDENCE, r"The replayer is about (\d+) KB", evidence.MAX_BYTES // KB),
]
# The same, as it is written there.
WORDS = [
    (EVIDENCE, "ten minutes at most for loading, and for a replay", MAX_TIME_BUDGET_US == 600_000_000),
    (EVIDENCE, "within 2e-5 of ncnn's layers", operators.NEAR == 2e-5),
    (EVIDENCE, "within 1e-5 of ncnn's CPU back end for inputs", mixed.NEAR == 1e-5),
    (EVIDENCE, "a YOLO of two heads: within 1e-5, as many boxes", detector.NEAR == 1e-5),
]
# Bounded by a test here, compared by the test that measures it.
BOUNDED = [
    (EVIDENCE, r"([\d,]+) bytes without, [\d,]+ with all", evidence.MAX_BYTES),
    (EVIDENCE, r"[\d,]+ bytes without, ([\d,]+) with all", evidence.MAX_BYTES_WITH_ALL),
    (EVIDENCE, r"([\d,]+) bytes for v3d42 on `qemu-virt`", evidence.MAX_BYTES),
    (EVIDENCE, r"`qemu-virt`, ([\d,]+) of them our own code", evidence.MAX_OWN_CODE_BYTES),
    ("docs/AUDIT-FIRMWARE.md", r"segment 0x0, ([\d,]+) bytes, rx", evidence.MAX_BYTES),
]
# Compared by the tests of these names, with what they measure.
MEASURED = {
    r"at each of (\d+) accesses": "tests/vgpu/test_faulty_gpu.py",
    r"([\d,]+) faults, at every access of a replay of LeNet": "tests/vgpu/test_faulty_gpu.py",
    r"([\d,]+) bytes of stack at most, by the code": "tests/emulated/test_audit_firmware.py",
    r"([\d,]+) instructions in the \d+ shaders": "tests/qemu/test_disassembly.py",
    r"instructions in the (\d+) shaders": "tests/qemu/test_disassembly.py",
}
COMMAND = re.compile(r"`(?:make|python|pytest)[^`]*`")


@pytest.mark.parametrize(("page", "pattern", "constant"), FIGURES)
def test_a_figure_is_that_of_its_test(page: str, pattern: str, constant: int | Callable[[], int]) -> None:
    assert documented(page, pattern) == (constant() if callable(constant) else constant)


@pytest.mark.parametrize(("page", "words", "holds"), WORDS)
def test_words_are_those_of_their_test(page: str, words: str, holds: bool) -> None:
    assert words in (CHECKOUT / page).read_text(encoding="utf-8")
    assert holds


@pytest.mark.parametrize(("page", "pattern", "limit"), BOUNDED)
def test_a_figure_is_within_the_limit_of_its_test(page: str, pattern: str, limit: int) -> None:
    assert documented(page, pattern) <= limit


@pytest.mark.parametrize(("pattern", "test"), MEASURED.items())
def test_a_measured_figure_is_compared_by_a_test(pattern: str, test: str) -> None:
    assert documented(EVIDENCE, pattern) > 0
    assert pattern in (CHECKOUT / test).read_text(encoding="utf-8")


def test_every_figure_of_the_evidence_is_held_or_printed_by_a_command() -> None:
    patterns = [*(row[1] for row in (*FIGURES, *BOUNDED)), *MEASURED]
    words = [row[1] for row in WORDS]
    table = [line for line in (CHECKOUT / EVIDENCE).read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    for line in table[1:]:
        left = line
        for word in words:
            left = left.replace(word, "")
        for pattern in patterns:
            left = re.sub(pattern, "", left)
        figures = re.sub(r"`[^`]*`|\[[^]]*\]\([^)]*\)|V3D( 4\.2)?|ES256|P-256|EL3", "", left.split(" | ")[-1])
        if re.search(r"\d", figures):
            assert COMMAND.search(line), f"no test and no command for the figures of: {figures}"


def test_reading() -> None:
    with pytest.raises(ValueError, match="found none"):
        documented(EVIDENCE, r"([\d,]+) teapots")
    assert is_near(19_808, 20_000)
    assert not is_near(17_184, 19_808)
