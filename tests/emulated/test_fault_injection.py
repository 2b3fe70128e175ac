# SPDX-License-Identifier: BSD-2-Clause
"""Fault injection: a sample of the campaign (`make campaign`, docs/TESTING.md), and that it could find something.

The firmware is the real one, its crypto is executed, and each run has one fault.
"""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from host_tools.runners import firmware
from tee_replayer.generator import profiles
from tests.campaign import (
    cases,
    computing,
    encryption,
    evidence,
    networks,
    report,
    runner,
    sampling,
    streaming,
    trust,
)
from tests.campaign.campaign import COMPUTING, Campaign, Result, outcome_name
from tests.campaign.device import (
    BARE_METAL,
    BOARDS,
    LINKED,
    LINKED_MMU,
    LOG_MMU,
    MMU,
    RPI4,
    Device,
)
from tests.campaign.faults import ENCODING_BITS, KINDS, Do, Run
from tests.support.places import CHECKOUT
from tests.support.sampling import SomeOf

GPUS = tuple(cases.DRIVER)
# Tests take turns with the GPU that is tried without --exhaustive.
ON_V3D, ON_MALI = (
    [pytest.param(gpu, marks=[] if gpu == tried else [pytest.mark.exhaustive]) for gpu in GPUS] for tried in GPUS
)
# Without --exhaustive: what a signature refuses, and what is signed and refused. Tests of their own are about
# chunks, versions and the GPU.
TRIED = {("v3d42", "stranger"), ("mali_g71", "image")}
EACH = [
    pytest.param(
        gpu,
        case,
        id=f"{gpu}-{case.name}",
        marks=[] if (gpu, case.name) in TRIED else [pytest.mark.exhaustive],
    )
    for gpu in GPUS
    for case in cases.cases_of(gpu)
]
POINTERS = [
    pytest.param(
        kind,
        gpu,
        marks=[]
        if (kind, gpu) in ((BARE_METAL, "mali_g71"), ("weakened", "mali_g71"))
        else [pytest.mark.exhaustive],
    )
    for kind in (BARE_METAL, MMU, "weakened")
    for gpu in GPUS
]
EACH_PROFILE = tuple(profiles.load())
SKIP, DOUBLE_SKIP, INVERTED = KINDS[:3]
REGISTER_BIT, ENCODING_BIT = KINDS[5:7]
POLICY = ("gr_device_policy", "serve")
STAYING = [kind for kind in KINDS if kind.do == Do.STAY]
JUDGES = ("gr_signature_verify", "difference", "is_zero", "is_less", "check_signature")
FEWER = 7  # one of so many faults that stay is tried without --exhaustive
LINKED_OF = {"v3d42": LINKED, "mali_g71": LINKED_MMU}
T = TypeVar("T")
Built = Callable[..., Device]
PER_PART = sampling.Share(before=1, ours=6, bulk=1, tail=2, library=1)
# Half of sampling.SAMPLE.
_HALF, _HALF_OF_SIGNATURE = sampling.Share(1, 12, 1, 2, 1), sampling.Share(1, 12, 1, 12, 1)
HALF = sampling.Shares(_HALF, _HALF, _HALF_OF_SIGNATURE, _HALF_OF_SIGNATURE, sampling.Share(1, 2, 0, 0, 0), _HALF)
PER_KIND = sampling.Shares(PER_PART, PER_PART, PER_PART, PER_PART, PER_PART, PER_PART)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Campaign:
    if shutil.which(f"{firmware.CROSS}gcc") is None:
        pytest.skip("no cross compiler: apt-get install gcc-aarch64-linux-gnu")
    shares = dict.fromkeys((BARE_METAL, MMU, *BOARDS), sampling.SAMPLE)
    shares |= dict.fromkeys(LINKED_OF.values(), PER_KIND)
    return Campaign(tmp_path_factory.mktemp("campaign"), shares, jobs=1)


@pytest.fixture(scope="module")
def of_profiles(campaign: Campaign, request: pytest.FixtureRequest) -> Campaign:
    """Fewer faults in each case, of which profiles have many."""
    shares = campaign.shares | {BARE_METAL: sampling.SAMPLE if request.config.getoption("--exhaustive") else HALF}
    return replace(campaign, shares=shares)


@pytest.fixture(scope="module")
def devices(campaign: Campaign) -> dict[str, Device]:
    return {gpu: campaign.device(gpu) for gpu in GPUS}


@pytest.fixture(scope="module")
def built(campaign: Campaign) -> Built:
    """The program of a GPU on a path, and of a profile, made once."""
    return functools.cache(campaign.device)


@pytest.fixture(scope="module")
def linked(built: Built) -> Callable[[str], Device]:
    """With log, attestations and operators; one of them with an MMU."""
    return lambda gpu: built(gpu, LINKED_OF[gpu])


def names_for(gpu: str, found: Sequence[cases.Case], some_of: SomeOf) -> list[str]:
    """Name of one case, another than the other GPU's; with --exhaustive, of all. Runs without a fault, two a case,
    take most of the time."""

    def of_gpu(all_of: Sequence[T], most: int) -> Sequence[T]:
        return all_of[GPUS.index(gpu) :][:1]

    most = len(of_gpu(found, 0))
    return [case.name for case in some_of(found, most, of_gpu)]


def executed(run: Run, functions: Collection[str]) -> npt.NDArray[np.int64]:
    """Numbers of the instructions of some functions."""
    return np.flatnonzero(np.array([place.function in functions for place in run.places])[run.index])


def each_bit(run: Run, functions: Collection[str]) -> npt.NDArray[Any]:
    """Faults of every bit of what functions compute, and of their instructions."""
    numbers = sampling.firsts(run.index, executed(run, functions))
    return np.concatenate([run.plan(kind, numbers) for kind in KINDS if kind.of_all_bits])


@pytest.mark.parametrize(("gpu", "case"), EACH)
def test_no_single_fault_lets_a_refused_trace_through(
    campaign: Campaign, devices: dict[str, Device], gpu: str, case: cases.Case
) -> None:
    result = Result()
    campaign.attack(devices[gpu], case, KINDS, result)
    assert not result.spoilt  # refused without a fault, and accepted with nothing wrong
    assert [kind for _, _, kind in result.table.rows] == [kind.name for kind in KINDS]
    tried = [counts.tried for counts in result.table.rows.values()]
    assert min(tried) >= 10
    assert result.ok, "\n".join(map(str, result.findings))


def check_nothing_got_through(result: Result, names: Sequence[str], more_than: int) -> None:
    """In each of the cases, of more than so many faults."""
    assert not result.spoilt
    assert {case for _, case, _ in result.table.rows} == set(names)
    assert sum(counts.tried for counts in result.table.rows.values()) > more_than
    assert result.ok, "\n".join(map(str, result.findings))


@pytest.mark.parametrize("gpu", ON_V3D)
def test_no_single_fault_passes_over_a_trust_policy(
    of_profiles: Campaign, built: Built, gpu: str, some_of: SomeOf
) -> None:
    """Too few signatures, a stranger's, half of one, a revoked key's, a usurper's policy, too much time."""
    found = trust.CASES
    names = names_for(gpu, found, some_of)
    result = of_profiles.run([built(gpu, BARE_METAL, "encrypted")], names, KINDS)
    check_nothing_got_through(result, names, 1000 * len(names) // len(found))


@pytest.mark.parametrize("gpu", ON_MALI)
def test_no_single_fault_opens_what_is_not_for_the_device(
    of_profiles: Campaign, built: Built, gpu: str, some_of: SomeOf
) -> None:
    """Encrypted for another device, under another head, with bits of the ciphertext turned."""
    found = encryption.CASES
    names = names_for(gpu, found, some_of)
    result = of_profiles.run([built(gpu, BARE_METAL, "encrypted")], names, KINDS)
    check_nothing_got_through(result, names, 600 * len(names) // len(found))


@pytest.mark.parametrize("gpu", ON_V3D)
def test_no_single_fault_lets_a_network_have_what_is_anothers(
    of_profiles: Campaign, built: Built, gpu: str, some_of: SomeOf
) -> None:
    """Hostile joint traces, and jobs of two good networks with the other's page tables."""
    found = networks.of(gpu)
    names = names_for(gpu, found, some_of)
    result = of_profiles.run([built(gpu, BARE_METAL, "scheduled")], names, KINDS)
    check_nothing_got_through(result, names, 1000 * len(names) // len(found))


@pytest.mark.parametrize("gpu", ON_V3D)
def test_no_single_fault_leaves_a_job_with_memory_that_was_not_checked(
    of_profiles: Campaign, built: Built, gpu: str, some_of: SomeOf
) -> None:
    """Rows of pieces that overlap, a resident piece that can be written. One inverted branch once let each of
    these through: they were judged once.
    """
    found = [case for case in streaming.CASES if case.promised]
    names = names_for(gpu, found, some_of)
    result = of_profiles.run([built(gpu, BARE_METAL, "streaming")], names, KINDS)
    check_nothing_got_through(result, names, 1000 * len(names) // len(found))


def test_no_skipped_instruction_leaves_a_job_without_its_pieces(campaign: Campaign, built: Built) -> None:
    """Of what reads pieces and executes actions, each one, and each branch turned. Of 5,911 such faults 33 were
    accepted once: a lost Job action, an end that came early, a chunk that nobody hashed.
    """
    whole = replace(campaign, shares={BARE_METAL: sampling.WHOLE}, functions=streaming.READING)
    result = whole.run([built("v3d42", BARE_METAL, "streaming")], ["piece"], [SKIP, INVERTED])
    assert not result.spoilt
    for counts in result.table.rows.values():
        assert counts.tried > 500
        assert not counts.accepted
        assert not counts.written


@pytest.mark.parametrize(
    "functions", [("gr_lacks_pieces*",), pytest.param(streaming.READING, marks=pytest.mark.exhaustive)]
)
def test_no_bit_makes_a_replay_of_a_changed_piece(
    campaign: Campaign, built: Built, functions: tuple[str, ...]
) -> None:
    """A bit of an instruction or of a register, turned once or for good. Rows that a load turned into a store had
    written, a place in the file that one field said, and a stack pointer past the answer got 13 through once.
    """
    whole = replace(campaign, shares={BARE_METAL: sampling.WHOLE}, functions=functions)
    kinds = [kind for kind in KINDS if kind.of_all_bits or kind.stays]
    result = whole.run([built("v3d42", BARE_METAL, "streaming")], ["piece"], kinds)
    assert not result.spoilt
    assert sum(counts.tried for counts in result.table.rows.values()) > 4000
    assert not [name for name, counts in result.table.rows.items() if counts.accepted]


@pytest.mark.parametrize("name", EACH_PROFILE)
def test_no_single_fault_gets_through_any_profile(of_profiles: Campaign, built: Built, name: str) -> None:
    """A stranger's trace, and one with a tampered chunk, on the firmware of each profile."""
    device = built("v3d42", BARE_METAL, name)
    has_log = device.features.evidence.log  # each run makes two signatures
    kinds, names = ([SKIP], ["stranger"]) if has_log else ([SKIP, REGISTER_BIT, STAYING[0]], ["stranger", "chunk"])
    result = of_profiles.run([device], names, kinds)
    assert not result.spoilt
    assert {case for _, case, _ in result.table.rows} == {*names}
    assert min(counts.tried for counts in result.table.rows.values()) > 3
    assert result.ok, "\n".join(map(str, result.findings))


@pytest.mark.parametrize("gpu", ON_MALI)
def test_no_single_fault_leaves_a_job_with_a_kernels_tables(
    campaign: Campaign, devices: dict[str, Device], gpu: str
) -> None:
    """A prologue that a fault passed over once left those of the kernel before."""
    result = campaign.run([devices[gpu]], [case.name for case in networks.ALONE], KINDS)
    assert not result.spoilt
    assert sum(counts.tried for counts in result.table.rows.values()) > 300
    assert result.ok, "\n".join(map(str, result.findings))


@pytest.mark.parametrize("gpu", ON_V3D)
def test_a_job_with_another_networks_tables_is_noticed(campaign: Campaign, built: Built, gpu: str) -> None:
    """Networks whose tables are said to be the other's: each job counts, and without that, none."""
    case = next(case for case in networks.of(gpu) if case.status == "OK")
    attempt = case.refused(gpu)
    assert attempt.turns
    (one, its), (other, others) = attempt.turns.roots
    exchanged = replace(attempt, turns=replace(attempt.turns, roots=((one, others), (other, its))))
    of = built(gpu, BARE_METAL, "scheduled")
    found = [campaign.bench(of, case, each, "planted").outcome() for each in (attempt, exchanged)]
    assert [int(outcome["from_trace"][0]) for outcome in found] == [0, networks.JOBS * len(attempt.turns.order)]


@pytest.mark.parametrize("gpu", GPUS)
def test_a_trace_that_gets_through_is_noticed(campaign: Campaign, devices: dict[str, Device], gpu: str) -> None:
    """The device's key is exchanged for the stranger's: his trace is accepted, and counted as such."""
    counts = report.Counts()
    counts.add(campaign.planted(devices[gpu]))
    assert (counts.accepted, counts.written, counts.ok) == (1, 1, False)


@pytest.mark.parametrize("gpu", ON_MALI)
def test_a_comparison_of_nothing_is_no_match(campaign: Campaign, devices: dict[str, Device], gpu: str) -> None:
    """Two skipped instructions once lost the verdict of a chunk's first comparison and the size of the second.

    Every two instructions of the function that compares a chunk's hash, in every round.
    """
    of = devices[gpu]
    case = cases.case_of(gpu, "chunk")
    bench = campaign.bench(of, case, case.refused(gpu), "comparison")
    run, unspoilt = bench.run()
    plan = run.plan(DOUBLE_SKIP, executed(run, ["next_chunk"]))
    outcomes = bench.inject(run, unspoilt, plan, 2)
    assert len(plan) > 20
    assert not runner.accepted(outcomes).any()
    assert not runner.written(outcomes).any()


@pytest.mark.exhaustive  # test_no_bit_lowers_the_version has more faults, in three of the functions
@pytest.mark.parametrize("gpu", GPUS)
def test_no_skipped_instruction_lowers_the_version(
    campaign: Campaign, devices: dict[str, Device], gpu: str
) -> None:
    """One skipped load once left a pointer to the policy where the replayer's should be: the report's next field
    was stored over the lowest security version. One skipped store left what was on the stack in its place.

    Every instruction of the functions that make the policy, check the head and store what they find.
    """
    of = devices[gpu]
    case = cases.case_of(gpu, "old")
    bench = campaign.bench(of, case, case.refused(gpu), "stray")
    run, unspoilt = bench.run()
    functions = ("gr_device_policy", "serve", "gr_load", "check_sections", "check_manifest", "load")
    plan = run.plan(SKIP, executed(run, functions))
    outcomes = bench.inject(run, unspoilt, plan, 2)
    assert len(plan) > 200
    assert not runner.accepted(outcomes).any()
    assert not runner.written(outcomes).any()


@pytest.mark.parametrize(("kind", "gpu"), POINTERS)
def test_no_flipped_bit_of_a_pointer_leads_to_a_strangers_key(
    campaign: Campaign, built: Built, devices: dict[str, Device], kind: str, gpu: str
) -> None:
    """Both verifications once took the key through one pointer: a flipped bit led to memory that the normal world
    fills. Every bit of what the functions that hand on the policy compute, and of their instructions; on a device
    whose second key is the stranger's, some are enough.
    """
    weak = kind == "weakened"
    of = campaign.weakened(devices[gpu]) if weak else built(gpu, MMU) if kind == MMU else devices[gpu]
    case = cases.case_of(gpu, "stranger")
    bench = campaign.bench(of, case, case.refused(gpu), f"pointer-{kind}")
    run, unspoilt = bench.run()
    plan = each_bit(run, POLICY)
    outcomes = bench.inject(run, unspoilt, plan, 2)
    assert len(plan) > 1000
    assert not (kind == MMU and (outcomes["end"] == runner.End.FOREIGN).any())
    assert runner.accepted(outcomes).any() == weak
    assert runner.written(outcomes).any() == weak


@pytest.mark.parametrize("believing", [False, True], ids=["known", "believing"])
@pytest.mark.parametrize("gpu", ON_V3D)
def test_no_fault_that_stays_accepts_a_strangers_signature(
    campaign: Campaign, devices: dict[str, Device], gpu: str, believing: bool, request: pytest.FixtureRequest
) -> None:
    """Both verifications are the same code: a bit of it that stayed flipped, or an instruction that was skipped
    each time, once accepted a stranger's trace, and the owner's went on working. Every bit of what judges; on a
    device without the known answer, some are enough, where one skip is not.
    """
    of = campaign.believing(gpu) if believing else devices[gpu]
    case = cases.case_of(gpu, "stranger")
    bench = campaign.bench(of, case, case.refused(gpu), f"stays-{believing}")
    run, unspoilt = bench.run()
    numbers = sampling.firsts(run.index, executed(run, JUDGES))
    plan = np.concatenate([run.plan(kind, numbers) for kind in STAYING])
    plan = plan[:: 1 if request.config.getoption("--exhaustive") else FEWER]
    outcomes = bench.inject(run, unspoilt, plan, 2)
    assert len(plan) > 33 * len(numbers) // FEWER - 1
    assert runner.accepted(outcomes).any() == believing
    assert runner.written(outcomes).any() == believing
    once = bench.inject(run, unspoilt, run.plan(SKIP, numbers), 2)
    assert not runner.accepted(once).any()


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[] if path == RPI4 else [pytest.mark.exhaustive]) for path in BOARDS]
)
def test_no_fault_that_stays_gets_through_on_silicon(campaign: Campaign, built: Built, path: str) -> None:
    """The ports of boards, each with the GPU that it has, wait for what they switch on."""
    kinds = [kind for kind in KINDS if kind.stays]
    result = campaign.run([built(BOARDS[path], path)], ["stranger"], kinds)
    assert not result.spoilt
    assert min(counts.tried for counts in result.table.rows.values()) > 10
    assert result.ok, "\n".join(map(str, result.findings))


@pytest.mark.parametrize("gpu", ON_MALI)
def test_no_bit_lowers_the_version(campaign: Campaign, devices: dict[str, Device], gpu: str) -> None:
    """The lowest version's inverse was once read through the same pointer as the version; and a load that became a
    store changed the manifest. Every bit of the functions that read either.
    """
    case = cases.case_of(gpu, "old")
    bench = campaign.bench(devices[gpu], case, case.refused(gpu), "version")
    run, unspoilt = bench.run()
    plan = each_bit(run, (*POLICY, "check_manifest"))
    outcomes = bench.inject(run, unspoilt, plan, 2)
    assert len(plan) > 1000
    assert not runner.accepted(outcomes).any()
    assert not runner.written(outcomes).any()


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(
    ("name", "field", "value", "status"),
    [
        ("stranger", "key", cases.STRANGER.public.raw, "SIGNATURE"),
        ("old", "min_security_version", bytes(4), "MANIFEST"),
    ],
    ids=["stranger", "old"],
)
def test_the_devices_constant_does_not_decide_alone(
    campaign: Campaign, devices: dict[str, Device], gpu: str, name: str, field: str, value: bytes, status: str
) -> None:
    """It has one of two keys, and one of two lowest versions: with an attacker's there the other one refuses."""
    case = cases.case_of(gpu, name)
    of = campaign.misled(devices[gpu], field, value)
    found = campaign.bench(of, case, case.refused(gpu), "misled").outcome()
    assert outcome_name(found) == status
    assert not runner.written(found).any()


@pytest.mark.parametrize("gpu", ON_MALI)
def test_a_read_that_becomes_a_store_changes_nothing(
    campaign: Campaign, devices: dict[str, Device], gpu: str
) -> None:
    """The registers that identify a GPU are read before a trace is accepted, and one bit of that load's encoding
    makes it a store to the same one, which ignores it. Every bit at each of the reads; nothing else is written.
    """
    case = cases.case_of(gpu, "gpu")
    bench = campaign.bench(devices[gpu], case, case.refused(gpu), "identity")
    run, unspoilt = bench.run()
    numbers = executed(run, ["gr_gpu_read"])
    plan = np.concatenate([run.plan(kind, numbers) for kind in KINDS if kind.of_all_bits])
    outcomes = bench.inject(run, unspoilt, plan, 2)
    assert len(plan) >= 3 * 3 * ENCODING_BITS
    assert not outcomes["writes"].any()
    assert not runner.accepted(outcomes).any()


@pytest.mark.parametrize("gpu", ON_V3D)
def test_faults_happen(campaign: Campaign, devices: dict[str, Device], gpu: str, tmp_path: Path) -> None:
    """In the run of a good trace: without its last step a load is refused; without its branch back a loop ends."""
    of = devices[gpu]
    case = cases.cases_of(gpu)[0]
    bench = campaign.bench(of, case, case.control(gpu), "good")
    run, unspoilt = bench.run()
    loader = np.array(
        [place.function in ("load", "gr_load", "check_network", "check_actions") for place in run.places]
    )
    plan = run.plan(INVERTED, np.flatnonzero(loader[run.index] & run.able(INVERTED)))
    outcomes = bench.inject(run, unspoilt, plan, 2)
    assert runner.accepted(unspoilt).all()
    assert len(plan) > 10
    assert (plan["kind"] == Do.EXCHANGE).all()
    assert not runner.accepted(outcomes).all()
    assert {int(end) for end in outcomes["end"]} <= {runner.End.EXIT, runner.End.CRASH, runner.End.HANG}
    statuses = set(outcomes["status"].tolist())
    assert len(statuses) > 2, "inverted branches of the loader end in different refusals"


@pytest.mark.parametrize("names", [networks.TURNING, COMPUTING], ids=["turning", "computing"])
def test_functions_that_are_attacked_are_there(names: tuple[str, ...]) -> None:
    """A name that no source defines would be attacked never, without a word."""
    folders = (CHECKOUT / "tee_replayer", CHECKOUT / "baremetal")
    text = "".join(path.read_text() for folder in folders for path in folder.rglob("*.c"))
    assert [name for name in names if not re.search(rf"\b{name}\([^;]*?\)\n\{{", text)] == []


@pytest.mark.parametrize("gpu", ON_MALI)
def test_no_single_fault_gets_through_what_computes(
    campaign: Campaign, linked: Callable[[str], Device], gpu: str, some_of: SomeOf
) -> None:
    """Operators, and what log and attestation say of them. A log that truly told of a load, and of
    a replay that was refused, was once counted as a lie.
    """
    result = Result()
    for case in some_of(computing.CASES, 1):
        campaign.attack(linked(gpu), case, (SKIP, REGISTER_BIT, ENCODING_BIT), result)
    assert not result.spoilt
    assert min(counts.tried for counts in result.table.rows.values()) >= 6
    assert result.ok, "\n".join(map(str, result.findings))


@pytest.mark.parametrize("gpu", ON_MALI)
@pytest.mark.parametrize("name", ["tampered", "operator"])
def test_a_claim_is_noticed(campaign: Campaign, linked: Callable[[str], Device], gpu: str, name: str) -> None:
    """What a device answers to the control, in the place of what it answers to the trace that it refuses."""
    case = next(case for case in computing.CASES if case.name == name)
    said = []
    for attempt in (case.refused(gpu), case.control(gpu)):
        bench = campaign.bench(linked(gpu), case, attempt, "claim")
        number = int(bench.outcome()["evidence"][0])
        said.append(bench.said()[number])
    refused, good = said
    assert not evidence.judge(refused, refused).claimed
    assert evidence.judge(good, refused).claimed


@pytest.mark.exhaustive  # of log and attestation test_no_single_fault_gets_through_what_computes tries some
def test_no_bit_in_the_log_reveals_a_key_or_counts_a_replay(campaign: Campaign) -> None:
    """Where the log's key is made, and where the log is opened: every bit. A key was once written to the entry
    that was to have its MAC; a moved stack pointer published one; a branch from the log's opening ended where
    replays are counted.
    """
    of = campaign.device("v3d42", LOG_MMU)
    case = cases.case_of("v3d42", "stranger")
    bench = campaign.bench(of, case, case.refused("v3d42"), "keys")
    run, unspoilt = bench.run()
    plan = each_bit(run, ("gr_log_derive", "seal", "gr_log_open"))
    outcomes = bench.inject(run, unspoilt, plan, 2)
    assert len(plan) > 4000
    for name in ("writes", "leaked", "claimed"):
        assert not outcomes[name].any(), name
    assert not runner.accepted(outcomes).any()


@pytest.mark.parametrize("gpu", ON_MALI)
def test_a_fault_in_signing_reveals_no_key(campaign: Campaign, linked: Callable[[str], Device], gpu: str) -> None:
    """Of two signatures of one message, one with a fault in it, the attestations' key was once computed.

    A few instructions in the middle of each signature, skipped, and with a bit of their result flipped.
    """
    of = linked(gpu)
    case = cases.case_of(of.gpu, "stranger")
    bench = campaign.bench(of, case, case.refused(of.gpu), "signing")
    run, unspoilt = bench.run()
    middles = [np.linspace(at + size // 4, at + size * 3 // 4, 3) for at, size in run.parts_of("gr_sign")]
    numbers = np.concatenate(middles).astype(np.int64)
    plan = np.concatenate([run.plan(kind, numbers) for kind in (SKIP, REGISTER_BIT)])
    outcomes = bench.inject(run, unspoilt, plan, 2)
    assert len(plan) >= 6
    assert not outcomes["leaked"].any()
