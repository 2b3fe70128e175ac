# SPDX-License-Identifier: BSD-2-Clause
"""Our disassembly of every shader of the demo network, against what the driver in the guest prints of them.

The guest compiles them all, with `--exhaustive`. With `make test`, tests/vgpu/test_qpu_decode.py compares words
that Mesa has printed.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from host_tools.demo import PARAM, WEIGHTS
from host_tools.demo.record import SHAPES
from host_tools.gpus.v3d.disassembly import instruction, program
from host_tools.machine.boot import RAM_END, boot
from host_tools.machine.root import RecordRoot
from host_tools.record.convert import convert
from host_tools.record.inputs import random_inputs
from host_tools.record.ncnn.job import ncnn_job
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.text.annotate import started_jobs
from host_tools.text.places import Places
from host_tools.vgpu.build import qemu_plugin
from tests.support.figures import documented, is_near
from tests.support.qpu_mesa import as_mesa
from trace_format.trace import Trace

Program = list[tuple[int, str]]


def printed_programs(output: str) -> list[Program]:
    """Words and texts of the programs that Mesa printed (V3D_DEBUG=qpu), without what it says of uniforms."""
    found: list[Program] = []
    for line in output.splitlines():
        if re.fullmatch(r"MESA_SHADER_COMPUTE prog \d+/\d+ QPU:", line):
            found.append([])
        elif words := re.fullmatch(r"0x([0-9a-f]{16}) (.*?)(?: \(.*\))?", line):
            found[-1].append((int(words[1], 16), words[2]))
    return found


def normal(text: str) -> str:
    """Without the spaces that make columns."""
    return re.sub(r"\s+", " ", re.sub(r"\s*;\s*", "; ", text)).strip()


def check_programs(gpu: str, programs: list[Program]) -> None:
    """Each instruction is the same text, and each program ends where Mesa says it ends."""
    assert len(programs) > 20
    for printed in programs:
        words = [word for word, _ in printed]
        texts = [normal(instruction(gpu, word).text) for word in words]
        expected = [normal(text) for _, text in printed]
        assert [as_mesa(text) if gpu == "v3d71" else text for text in texts] == expected
        beyond = [*words, 0, 0, 0]
        assert len(program(gpu, lambda index, of=beyond: of[index], single_segment=False)) == len(words)  # type: ignore[misc]


def check_jobs(trace: Trace, programs: list[Program]) -> None:
    """The code of each job is one of them, whole."""
    places = Places(trace.image)
    known = {tuple(word for word, _ in printed) for printed in programs}
    jobs = 0
    for job in started_jobs(trace, places):
        if job.listing.kind == "compute":
            found = [places.read(0, i.va, i.size) or b"" for i in job.listing.code]
            assert tuple(int.from_bytes(word, "little") for word in found) in known
            jobs += 1
    assert jobs == trace.jobs


@pytest.mark.exhaustive
@pytest.mark.parametrize("gpu", [DEFAULT_GPU, "v3d71"])
def test_every_shader_is_what_mesa_prints(gpu: str, root: RecordRoot, tmp_path: Path) -> None:
    job = ncnn_job(PARAM.read_bytes(), WEIGHTS.read_bytes(), random_inputs(SHAPES, 1), gpu=gpu)
    job = dataclasses.replace(job, command=f"V3D_DEBUG=qpu {job.command}")
    capture = tmp_path / "capture"
    result = boot(job, root, qemu_plugin(), {"capture": str(capture)})
    programs = printed_programs(result.output)
    check_programs(gpu, programs)
    if gpu == DEFAULT_GPU:
        instructions = sum(map(len, programs))
        assert is_near(documented("docs/EVIDENCE.md", r"([\d,]+) instructions in the \d+ shaders"), instructions)
        assert is_near(documented("docs/EVIDENCE.md", r"instructions in the (\d+) shaders"), len(programs))
    check_jobs(convert(capture, ram_end=RAM_END, meta={"name": "lenet"}, notes={}), programs)
