# SPDX-License-Identifier: BSD-2-Clause
"""What a behaviour report says: of the demo's network, of traces with one thing wrong, of a Mali."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from host_tools.audit.allowed import read as read_allowed
from host_tools.audit.lint import lint
from host_tools.audit.report import facts, words
from host_tools.audit.report.collect import Asked, collect, parse
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.gpus.v3d.shaders import read_shader
from host_tools.runners.needs import secure_bytes
from host_tools.support.results import fields
from signing.delivery import Delivery
from tests.support import mali_chains as mali
from tests.support import replayer_samples as s
from tests.support.chain_samples import UNIFORMS, job_page
from tests.support.qpu_asm import assemble
from tests.support.signing_samples import EDDSA
from tests.support.small_jobs import CONSTANTS, INPUT, OUTPUT, small
from trace_format import policy
from trace_format.actions import Action, Op, action
from trace_format.profile import load
from trace_format.schema import SlotKind
from trace_format.trace import Trace

NOTHING_ELSE = {"trace", "cleared", "nobody"}  # origins of data besides jobs and slots


def report(data: bytes, **options: Any) -> facts.Report:
    return collect(Asked("net.gtr", data, command="again", **options), parse(data, "net.gtr"))


@pytest.fixture(scope="module")
def raw() -> facts.Report:
    """Of the demo's recording: a network whose steps are known."""
    return report(RAW.read_bytes())


def test_findings_say_where_data_goes() -> None:
    """What `lint --dynamic` finds, unless nothing is to be run."""
    data = small(("gather", INPUT, CONSTANTS, OUTPUT)).build()
    assert [finding.rule for finding in report(data).findings if finding.rule >= "GR700"] == ["GR705"]
    assert not any(finding.rule >= "GR700" for finding in report(data, run=False).findings)


def computing(found: facts.Report) -> list[facts.Job]:
    return [job for job in found.jobs if job.kind == "compute"]


def test_jobs_are_those_of_the_trace(raw: facts.Report) -> None:
    trace = Trace.read(RAW)
    assert [job.number for job in raw.jobs] == list(range(len(raw.jobs)))
    assert [job.marker for job in computing(raw)] == list(range(trace.jobs))
    start = trace.profile.register("core0.CSD_QUEUED_CFG0").index
    for job in computing(raw):
        row = Action.of(trace.actions[job.action])
        assert (row.op, row.register) == (Op.REG_WRITE, start)
        assert job.registers["core0.CSD_QUEUED_CFG0"] == row.value
    assert computing(raw)[0].work == "13 x 1 x 1 groups of 16"
    assert raw.run.state == facts.RAN
    assert raw.run.inputs["data"] == "recorded"


def test_data_flows_from_the_input_to_the_output(raw: facts.Report) -> None:
    """The recording's own steps: each reads what the one before it wrote, the first the input."""
    first, *others = (job.number for job in computing(raw))
    sources: dict[Any, Counter[Any]] = {}
    for edge in raw.flow.edges:
        target = edge.target.job if edge.target.kind == facts.JOB else edge.target.slot
        source = edge.source.job if edge.source.kind == facts.JOB else edge.source.slot or edge.source.kind
        sources.setdefault(target, Counter())[source] += edge.bytes
    assert sources[first]["data"] == 4 * 28 * 28
    for job in others:
        assert {source for source in sources[job] if isinstance(source, int)} & set(range(first, job)), job
    assert sources["prob"] == {others[-1]: 40}, "the last job copies it for the CPU of the recording"
    assert raw.flow.basis == "run"


def test_what_is_touched_may_be_touched(raw: facts.Report) -> None:
    totals: Counter[int] = Counter()
    for region in raw.regions:
        assert region.did is not None
        for did in region.did:
            assert did.job in region.may
            assert did.read == 0 or "r" in region.access
            assert did.written == 0 or "w" in region.access
            assert 0 < did.read + did.written <= 2 * region.bytes
            totals[did.job] += did.read + did.written
    for job in computing(raw):
        assert job.bytes_read is not None
        assert job.bytes_written is not None
        assert totals[job.number] == job.bytes_read + job.bytes_written
        assert any(region.did and job.number in region.code_of for region in raw.regions)
    (place,) = (region for region in raw.regions if "data" in region.slots)
    assert place.address <= raw.slots[0].address < place.address + place.bytes


def test_shaders_are_whole(raw: facts.Report) -> None:
    used = [number for job in computing(raw) for number in job.shaders]
    assert set(used) == set(range(len(raw.shaders)))
    assert len(raw.shaders) < len(used), "some jobs have the same shader"
    for number, shader in enumerate(raw.shaders):
        assert shader.flaw == ""
        assert len(shader.lines) * 8 == shader.bytes
        assert [line.endswith("; thrsw") for line in shader.lines[-3:]] == [True, False, False]
        assert shader.jobs == [job.number for job in raw.jobs if number in job.shaders]


def test_the_rest_is_the_trace_s(raw: facts.Report) -> None:
    trace = Trace.read(RAW)
    assert raw.file.sha256 == hashlib.sha256(RAW.read_bytes()).hexdigest()
    assert raw.signature.verdict == facts.UNSIGNED
    assert Counter((f.rule, f.action, f.text) for f in raw.findings) == Counter(
        (f.rule.id, f.action, f.text) for f in lint(trace)
    )
    order = [("error", "warning", "note").index(finding.severity) for finding in raw.findings]
    assert order == sorted(order)
    assert {row.name for row in raw.registers if row.writes} == set(policy.written(trace))
    assert not raw.ok, "a recording has what devices refuse"
    assert "register" in str(raw.signature.refused_by_devices)


def test_without_a_run_what_it_does_is_missing() -> None:
    found = report(RAW.read_bytes(), run=False)
    assert found.run.state == facts.NOT_ASKED
    assert {region.did for region in found.regions} == {None}
    assert {job.instructions for job in found.jobs} == {None}
    assert found.flow == facts.Flow("", [])
    assert found.shaders, "disassembly needs no run"


def test_a_run_that_fails_is_told() -> None:
    found = report(s.trace(s.read("hub.IDENT1", 1)).build())
    assert found.run.state == facts.FAILED
    assert found.run.text.startswith("action 0 (RegReadOnce): hub.IDENT1: expected 0x00000001")
    assert found.jobs == []
    assert found.flow.basis == ""


KEYS = {
    "signed, no key": (True, None, facts.NO_KEY),
    "signed, its key": (True, [s.KEY], facts.VERIFIED),
    "signed, another's key": (True, [EDDSA.public], facts.REFUSED),
    "not signed": (False, None, facts.UNSIGNED),
}


@pytest.mark.parametrize("case", KEYS)
def test_who_signed_it(case: str) -> None:
    signed, keys, verdict = KEYS[case]
    sample = s.trace()
    found = report(s.signed(sample) if signed else sample.build(), keys=keys, run=False)
    assert found.signature.verdict == verdict
    assert found.counts["warning"] == 1
    assert not found.ok
    assert replace(found, passes=True).ok == (verdict != facts.REFUSED)
    assert (found.signature.key_id == s.KEY.kid.hex()) == signed
    data = s.signed(sample)
    if signed:
        assert found.needs.secure_bytes == secure_bytes(Delivery(data))


def test_weights_that_are_not_signed_are_on_top() -> None:
    """The page is not green where callers choose what is computed."""
    given = s.trace()
    weights = replace(given.slots[0], name="w", kind=SlotKind.PARAMETER)
    found = report(s.signed(given.with_(slots=[*given.slots, weights])), keys=[s.KEY], run=False)
    assert found.signature.verdict == facts.VERIFIED
    mark = words.verdict(found)[0]
    assert (mark.kind, mark.word) == ("open", "verified, but for its weights")
    assert mark.reason.endswith(
        "the signature does not cover the values of a parameter, which callers may replace: w"
    )
    assert words.verdict(report(s.signed(given), keys=[s.KEY], run=False))[0].kind == "good"


def test_what_devices_refuse_is_on_top() -> None:
    found = report(s.signed(s.trace(s.write("hub.MMU_CTL", 0))), keys=[s.KEY], run=False)
    assert found.signature.verdict == facts.VERIFIED
    assert "MMU_CTL" in str(found.signature.refused_by_devices)
    assert not found.ok


CODE, JOBS, DATA, OTHER = (0xFFFF80000000 + i * 0x100000 for i in range(4))


def test_a_mali_s_descriptors_say_what_may_be_touched() -> None:
    """What jobs may touch is what chains of descriptors reach; here nothing is run."""
    buffer = DATA.to_bytes(8, "little")
    content = job_page(JOBS, CODE + 0x80, buffers=[(JOBS + UNIFORMS, 16)], others={UNIFORMS: buffer})
    areas = [mali.Area(CODE, 1, mali.RX, bytes(0x80) + b"code"), mali.Area(JOBS, data=content)]
    areas += [mali.Area(DATA), mali.Area(OTHER)]
    found = report(mali.trace(areas, mali.submit(JOBS)).build(), run=False)
    assert found.run.compute == "full"
    may = {region.address: region.may for region in found.regions}
    assert may == {CODE: [0], JOBS: [0], DATA: [0], OTHER: []}
    (shader,) = found.shaders
    assert (shader.address, shader.bytes, shader.lines) == (CODE + 0x80, 4, [])
    assert shader.sha256 == hashlib.sha256(b"code").hexdigest()
    assert "no disassembler" in shader.flaw


END = ["nop; nop; thrsw", "nop; nop", "nop; nop"]
SHADERS = {
    "one segment": (["or r0, rf0, rf0; nop", *END], 2, 4, ""),
    "two segments": (["nop; nop; thrsw", "nop; nop; thrsw", "nop; nop", *END], 0, 6, ""),
    "a branch over the end": ([*END[:0], "b  8", "nop; nop", "nop; nop", "nop; nop", *END, "nop; nop"], 2, 7, ""),
    "no end": (["nop; nop"], 2, 1, "it runs on"),
}


@pytest.mark.parametrize("case", SHADERS)
def test_where_a_shader_ends(case: str) -> None:
    lines, segment, count, flaw = SHADERS[case]
    code = assemble(lines)

    def read(va: int, size: int) -> bytes | None:
        return code[va - 64 : va - 64 + size] if va - 64 + size <= len(code) else None

    found = read_shader(load("v3d42"), read, 64, lambda _: segment)
    assert len(found.lines) == count
    assert found.code == code[: 8 * count]
    assert found.flaw.startswith(flaw) if flaw else found.flaw == ""


def test_the_command_prints_the_same(tmp_path: Path) -> None:
    path = tmp_path / "net.sgtr"
    path.write_bytes(s.signed(s.trace()))
    key = tmp_path / "pub.pem"
    key.write_bytes(s.KEY.pem())
    allow = tmp_path / "accepted.toml"
    allow.write_text('[[allow]]\nrule = "GR404"\nreason = "what goes in comes out"\n')
    command = ["report", str(path), "--key", str(key)]
    assert CliRunner().invoke(main, [*command, "--no-run"]).exit_code == 1
    done = CliRunner().invoke(main, [*command, "--allow", str(allow), "--no-run", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    expected = fields(report(path.read_bytes(), keys=[s.KEY], run=False, allowances=read_allowed(allow)))
    for part in expected.keys() - {"file", "reproduce", "signature"}:
        assert found[part] == json.loads(json.dumps(expected[part])), part
    assert found["signature"]["verdict"] == "verified"
    assert found["reproduce"][-1] == f"gramophone {shlex.join(command)} --allow {allow} --no-run -o report.html"


def test_a_job_without_a_marker_counts(raw: facts.Report) -> None:
    rows = (action(Op.JOB), s.write("core0.CSD_QUEUED_CFG0", 1 << 16), s.write("core0.CSD_QUEUED_CFG0", 1 << 16))
    found = report(s.trace(*rows).build(), run=False)
    assert [job.marker for job in found.jobs] == [0, None]
