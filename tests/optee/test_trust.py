# SPDX-License-Identifier: BSD-2-Clause
"""Trust policies in OP-TEE's core: the named cases that one pseudo-TA judges; and a replay."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.demo.digits import load as load_digits
from host_tools.machine.boot import GuestJob
from host_tools.machine.root import RecordRoot
from host_tools.passes.pipeline import build
from host_tools.runners import libraries
from host_tools.runners.optee import guest, images, ta
from host_tools.runners.optee import linux_machine as linux
from host_tools.support.tensors import npy
from signing.delivery import Delivery
from tee_replayer.generator import boards
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.optee.compiled_ta import OLD_POLICY
from tests.support import trust_samples as t
from tests.support.hostile_trust import ON_DEVICES
from tests.support.trust_samples import DEVICE_ID, policy
from trace_format.schema.report import Status
from trace_format.schema.trust import KeyKind
from trace_format.trace import Trace

ROOTS = {"ES256": policy(), "hybrid": t.hybrid_policy()}
CASES = {
    name: case
    for name, case in ON_DEVICES.items()
    if case.root in ROOTS.values() and case.where.device_id == DEVICE_ID
}


@pytest.fixture(scope="module")
def with_root(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pseudo-TA with each policy, built for all kinds of keys."""
    return {
        name: generate(
            Options(
                "v3d42",
                platform_of(boards.load("optee")),
                root,
                libraries.source(),
                any_client=True,
                algorithms=tuple(KeyKind),
                device_id=DEVICE_ID,
            ),
            tmp_path_factory.mktemp("trust") / "pta",
        )
        for name, root in ROOTS.items()
    }


@pytest.fixture(scope="module")
def trusting(with_root: dict[str, Path]) -> Path:
    return with_root["ES256"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CASES)
def test_a_named_case(name: str, with_root: dict[str, Path]) -> None:
    case = CASES[name]
    folder = with_root[next(name for name, root in ROOTS.items() if root == case.root)]
    found = runners.run("optee", Delivery(case.make()), case.root, gpu="v3d42", firmware=folder)
    assert found.report.name == case.status.name


def test_lenet_is_replayed_under_a_policy(trusting: Path) -> None:
    trace = build(Trace.read(RAW)).build()
    inputs = {"data": load_digits()[:1].inputs()[0]}
    outputs = []
    for signers, status in ((t.TRACERS[:2], Status.OK), (t.TRACERS[:1], Status.THRESHOLD)):
        signed = t.join(trace, t.signatures(trace, signers))
        found = runners.run("optee", Delivery(signed), policy(), inputs, firmware=trusting)
        assert found.report.name == status.name
        outputs.append(found.outputs)
    assert outputs[0]["prob"].any()
    assert not outputs[1]


SCRIPT = """
query() { name=$1; shift; gramophone-tee "$@" --json >/out/$name 2>/tmp/said; echo status $name $?; }
query first replay /job/1 --input data=/job/data.npy
query loaded verify /job/3
query still replay /job/1 --input data=/job/data.npy
query newer replay /job/2 --input data=/job/data.npy
query older replay /job/1 --input data=/job/data.npy
query same verify /job/2
query few verify /job/few
"""


@pytest.mark.exhaustive  # a boot with Linux; tests/optee/test_ta_trust.py shows it of the TA
def test_a_device_remembers_the_newest_policy(
    root: RecordRoot, trusting: Path, ta_key: Path, tmp_path: Path
) -> None:
    """The TA keeps its version once a trace has been replayed well under it; an older one is refused then."""
    folder = tmp_path / "pta"
    shutil.copytree(trusting, folder)
    settings = (folder / "sub.mk").read_text()
    (folder / "sub.mk").write_text(settings.replace("GRAMOPHONE_TA_ONLY ?= n", "GRAMOPHONE_TA_ONLY ?= y"))
    image = images.image_of(folder, linux.NORMAL_WORLD, ta.public_part(ta_key))
    good = ta.build_ta(folder / "ta", ta_key)
    trace = build(Trace.read(RAW)).build()
    links = [t.signed_policy(replace(policy(), version=version)) for version in (2, 3)]
    files = {
        "job/data.npy": npy(next(iter(load_digits()[:1].inputs()))),
        "job/1": t.join(trace, t.signatures(trace)),
        "job/2": t.join(trace, t.signatures(trace), links[:1]),
        "job/3": t.join(trace, t.signatures(trace), links),
        "job/few": t.join(trace, t.signatures(trace, t.TRACERS[:1])),
        f"{guest.TAS}/{good.name}": good.read_bytes(),
    }
    done = linux.boot(image, GuestJob(SCRIPT, files, uses_gpu=False))
    answers = {name: json.loads(done.files[name]) for name in ("older", "few")}
    found = dict(re.findall(r"^status (\w+) (\d+)$", done.output, re.MULTILINE))
    good_ones = {name for name, status in found.items() if status == "0"}
    assert good_ones == {"first", "loaded", "still", "newer", "same"}, done.output
    assert int(answers["older"]["result"], 0) == OLD_POLICY
    assert "newer version of the trust policy" in answers["older"]["error"]
    assert "not enough keys that the trust policy names" in answers["few"]["error"]
