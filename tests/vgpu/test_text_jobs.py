# SPDX-License-Identifier: BSD-2-Clause
"""What a trace's text says of jobs: descriptors, code beside its bytes; and an edited trace that replays."""

from __future__ import annotations

import re

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.gpus.v3d import disassembly
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.text.annotate import job_fields, started_jobs
from host_tools.text.places import Places
from host_tools.text.reader import assemble
from host_tools.vgpu.build import BuildError
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support.mali_chains import (
    PAGE,
    RO,
    RX,
    Area,
    CpuWrite,
    compute,
    header,
    page,
    renderer_state,
    submit,
    thread_storage,
    uniform_table,
    write_value,
)
from tests.support.mali_chains import trace as mali_trace
from tests.support.qpu_asm import assemble as assemble_shader
from tests.support.signing_samples import ES256
from tests.support.trace_text import annotated
from trace_format.actions import Op
from trace_format.trace import Trace


@pytest.fixture(scope="module")
def raw() -> Trace:
    return Trace.read(RAW)


@pytest.fixture(scope="module")
def built(raw: Trace) -> Trace:
    return build(raw, skip=KEEP_INPUTS)


def test_comments_change_nothing(raw: Trace, built: Trace) -> None:
    for trace in (raw, built):
        assert assemble(annotated(trace.build()), "net.txt")[0] == trace.build()


def test_every_job_of_the_demo_has_its_code(raw: Trace, built: Trace) -> None:
    """The same code in the recording and in the trace, valid to its end, where two instructions follow a thrsw."""
    listings = [
        [job.listing for job in started_jobs(trace, Places(trace.image)) if job.listing.kind == "compute"]
        for trace in (raw, built)
    ]
    assert len(listings[0]) == len(listings[1]) == raw.jobs
    for before, after in zip(*listings, strict=True):
        assert before == after
        words = [i.text for i in after.code]
        assert not any(word.startswith("no instruction") for word in words)
        assert "thrsw" in words[-3]
        assert [i.va for i in after.code] == [after.code[0].va + 8 * n for n in range(len(words))]
        assert after.remarks == []


def test_code_stands_beside_its_bytes(built: Trace) -> None:
    """Each instruction that a comment has is that of the word on its line."""
    found = re.findall(
        r"^  0x[0-9a-f]+: ([0-9a-f]{16})  # (.*?)(?:  \(uniform \d+\))?$", annotated(built.build()), re.M
    )
    assert len(found) > 1000
    for word, said in found:
        assert disassembly.instruction("v3d42", int(word, 16)).text == said


def test_what_is_said_of_a_dispatch(built: Trace) -> None:
    job = job_fields(built)[1]
    assert (job.kind, job.number, job.remarks) == ("compute", 1, [])
    assert built.actions[job.action]["op"] == Op.REG_WRITE
    (dispatch,) = job.descriptors
    assert dispatch.address is None
    assert dispatch.fields | {"code": "", "uniforms": ""} == {
        "workgroups": "9 x 1 x 1",
        "first workgroup": "0, 0, 0",
        "workgroup size": 32,
        "workgroups per supergroup": 1,
        "batches per supergroup": 2,
        "highest supergroup id": 0,
        "overlaps the one before": 0,
        "batches": 18,
        "code": "",
        "flags": "propagate NaNs",
        "uniforms": "",
    }
    assert job.code[0].address == int(str(dispatch.fields["code"]), 16)
    assert job.data[0].address == int(str(dispatch.fields["uniforms"]), 16)
    uniforms = sum("(uniform " in instruction.text for instruction in job.code)
    assert job.data[0].bytes == 4 * uniforms


def listed(shader: str, single_segment: bool) -> int:
    """How many instructions of a shader are listed when rubbish follows it."""
    code = np.frombuffer(assemble_shader(shader), "<u8").tolist() + [0] * 8
    words = dict(enumerate(code))
    return len(disassembly.program("v3d42", words.get, single_segment))


END = "nop; nop; thrsw\nnop; nop\nnop; nop\n"


def test_what_reads_the_uniform_stream() -> None:
    """In a program with each of them; an `ldunifa` reads at an address of its own."""
    found = {
        "nop; nop; ldunif": True,
        "nop; nop; ldunifrf.rf9": True,
        "add tmuau, r2, r1; nop": True,
        "bu.allap  32, r:unif": True,
        "b  32": False,
        "nop; nop; ldunifa": False,
        "nop; nop; ldunifarf.rf9": False,
        "nop; mov tmua, rf10": False,
    }
    for text, reads in found.items():
        assert disassembly.Word(0, True, text).reads_uniform == reads, text


def test_where_a_program_ends() -> None:
    assert listed(END, single_segment=True) == 3
    two_sections = "nop; nop; thrsw\nnop; nop; thrsw\nnop; nop\nnop; nop\n"
    assert listed(two_sections + END, single_segment=False) == 7
    assert listed(two_sections + END, single_segment=True) == 3
    beyond = "b  24\nnop; nop\nnop; nop\nnop; nop\n"
    assert listed(beyond + END + "nop; nop\n", single_segment=True) == 8  # the target of the branch
    assert listed("nop; nop\n", single_segment=True) == 2  # with the word that is none


def test_without_a_compiler_the_rest_is_said(built: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise BuildError("no C compiler")

    monkeypatch.setattr(disassembly, "_library", missing)
    disassembly.instruction.cache_clear()
    try:
        found = annotated(built.build())
        remarks = [job.remarks for job in job_fields(built) if job.kind == "compute"]
    finally:
        disassembly.instruction.cache_clear()
    assert "is not disassembled: no C compiler" in found
    assert all(len(remark) == 1 for remark in remarks)
    assert assemble(found, "net.txt")[0] == built.build()


CODE, JOBS, DATA = 0xFFFFAC000000, 0xFFFFAC010000, 0xFFFFAC020000


def chain() -> Trace:
    """A compute job whose header is written anew between jobs, then one that writes a value."""
    job = compute(DATA, uniforms=DATA + 0x100, push=DATA + 0x180, storage=DATA + 0x80, next_va=JOBS + 0x100)
    data = {
        0: renderer_state(CODE + 0x40, buffers=1, push=3),
        0x80: thread_storage(stack=DATA + 0x800),
        0x100: uniform_table((DATA + 0x400, 64)),
    }
    areas = [
        Area(CODE, 1, RX, page({0x40: bytes(range(64))})),
        Area(JOBS, 1, RO, page({0: job, 0x100: write_value(DATA + 0x900, 5, index=2)})),
        Area(DATA, 1, RO, page(data)),
        Area(DATA + PAGE, 1, RO),
    ]
    again = CpuWrite(JOBS, header(4, JOBS + 0x100, index=9))
    return mali_trace(areas, submit(JOBS), again, submit(JOBS), submit(DATA + 2 * PAGE))


def test_a_chain_field_by_field() -> None:
    trace = chain()
    assert assemble(annotated(trace.build()), "net.txt")[0] == trace.build()
    first, second, third = job_fields(trace)
    names = [d.name for d in first.descriptors]
    assert names == [
        "job header",
        "invocation",
        "dispatch",
        "parameters",
        "draw",
        "renderer state",
        "uniform buffer 0",
        "local storage",
        "job header",
        "write value",
    ]
    found = {d.name: d.fields for d in reversed(first.descriptors)}
    assert found["job header"]["type"] == "compute"
    assert found["job header"]["next"] == f"{JOBS + 0x100:#x}"
    assert found["draw"]["state"] == f"{DATA:#x}"
    assert found["renderer state"] | {"shader": ""} == {
        **dict.fromkeys(found["renderer state"], 0),
        "shader": "",
        "secondary shader": "0x0",
        "uniform buffer count": 1,
        "uniform count": 3,
    }
    assert found["renderer state"]["shader"] == f"{CODE + 0x40:#x}"
    assert found["uniform buffer 0"] == {"entries": 4, "pointer": f"{DATA + 0x400:#x}"}
    assert found["write value"] == {
        "address": f"{DATA + 0x900:#x}",
        "type": "immediate 64",
        "immediate value": 5,
    }
    assert first.code == []
    assert first.remarks == [
        f"code at {CODE + 0x40:#x}: clause 0, 0 bytes after the first: a quadword with the unknown tag 0x00"
    ]
    assert [(d.name, d.address, d.bytes) for d in first.data] == [
        ("push uniforms", DATA + 0x180, 24),
    ]
    indices = [job.descriptors[0].fields["index"] for job in (first, second)]
    assert indices == [1, 9]
    assert third.remarks == [f"job header at {DATA + 2 * PAGE:#x} is not mapped"]


def test_an_edited_trace_replays(built: Trace) -> None:
    """A slot has another name, waits another length."""
    source = annotated(built.build())
    wait = re.search(r"WaitIrq v3d within (\d+) us", source)
    assert wait
    edited = source.replace('"prob"', '"what it is"').replace(wait[0], "WaitIrq v3d within 4000000 us")
    data, trace = assemble(edited, "net.txt")
    assert data != built.build()
    results = [
        runners.run("vgpu", Delivery(sign_trace(file, ES256)), ES256.public) for file in (built.build(), data)
    ]
    assert all(result.ok for result in results), [result.error for result in results]
    assert np.array_equal(results[0].outputs["prob"], results[1].outputs["what it is"])
    assert {row["value"] for row in trace.actions if row["op"] == Op.WAIT_IRQ} == {4_000_000}
