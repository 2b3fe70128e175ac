# SPDX-License-Identifier: BSD-2-Clause
"""Job chains that cannot be followed: the place and what is wrong there are named."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.gpus.mali.job_chains import ChainError, reach
from host_tools.model.memory import Memory
from host_tools.passes.listing import PASSES
from tests.support.chain_samples import DATA, DRAW, FLUSH, JOBS, MORE, NULL, PUSH, STATE, TABLE, areas, jobs
from tests.support.mali_chains import (
    PAGE,
    compute,
    header,
    page,
    renderer_state,
    submit,
    trace,
    uniform_table,
)

BROKEN = {
    "the header is in no mapped memory": (jobs(), DATA, "job header at GPU address 0xffff80200000 is not mapped"),
    "the header ends past it": (
        page({0xFC0: header(NULL, DATA - 0x20)}),
        JOBS + 0xFC0,
        "the job header at 0xffff801fffe0 is not aligned",
    ),
    "the payload ends past it": (
        page({0xFC0: compute(JOBS + STATE)[:64]}),
        JOBS + 0xFC0,
        "job payload at GPU address 0xffff80101000 is not mapped",
    ),
    "the header is not aligned": (
        page({0: header(NULL, JOBS + 0x60)}),
        JOBS,
        "the job header at 0xffff80100060 is not aligned",
    ),
    "the next header is not mapped": (
        page({0: header(NULL, MORE)}),
        JOBS,
        "job header at GPU address 0xffff80300000 is not mapped",
    ),
    "an address of more than 48 bits": (
        page({0: header(NULL, 1 << 63)}),
        JOBS,
        "job header at GPU address 0x8000000000000000 is not mapped",
    ),
    "a job that follows itself": (page({0: header(NULL, JOBS)}), JOBS, "job chain 0 has no end"),
    "two jobs in a circle": (
        page({0: header(NULL, JOBS + 0x40), 0x40: header(FLUSH, JOBS)}),
        JOBS,
        "job chain 0 has no end",
    ),
    "a draw": (page({0: header(DRAW)}), JOBS, "the job at 0xffff80100000 is of unknown type 7"),
    "a descriptor of 32 bits": (
        page({16: struct.pack("<I", 4 << 1)}),
        JOBS,
        "the job at 0xffff80100000 has a descriptor of 32 bits",
    ),
    "no job": (page({}), JOBS, "the job at 0xffff80100000 is of unknown type 0"),
    "no renderer state": (jobs(job=compute(0)), JOBS, "renderer state at GPU address 0x0 is not mapped"),
    "the shader is data": (
        jobs(state=renderer_state(JOBS)),
        JOBS,
        "the shader at 0xffff80100000 is not in executable memory",
    ),
    "the shader is nowhere": (
        jobs(state=renderer_state(MORE)),
        JOBS,
        "the shader at 0xffff80300000 is not in executable memory",
    ),
    "no table of uniform buffers": (
        jobs(job=compute(JOBS + STATE, uniforms=MORE, push=JOBS + PUSH)),
        JOBS,
        "table of uniform buffers at GPU address 0xffff80300000 is not mapped",
    ),
    "no uniform buffer": (
        jobs(table=uniform_table((MORE, 16))),
        JOBS,
        "uniform buffer at GPU address 0xffff80300000 is not mapped",
    ),
    "a uniform buffer ends past mapped memory": (
        jobs(table=uniform_table((JOBS + PAGE - 16, 32))),
        JOBS,
        "uniform buffer at GPU address 0xffff80101000 is not mapped",
    ),
    "no push uniforms": (
        jobs(job=compute(JOBS + STATE, uniforms=JOBS + TABLE, push=MORE)),
        JOBS,
        "push uniforms at GPU address 0xffff80300000 is not mapped",
    ),
    "no thread storage": (
        jobs(job=compute(JOBS + STATE, uniforms=JOBS + TABLE, push=JOBS + PUSH, storage=MORE)),
        JOBS,
        "thread storage at GPU address 0xffff80300000 is not mapped",
    ),
}


# Of chains without an end, each of which is followed for seconds, one.
CASES = [
    pytest.param(*row, id=name, marks=[pytest.mark.exhaustive] if name == "two jobs in a circle" else [])
    for name, row in BROKEN.items()
]


@pytest.mark.parametrize(("content", "head", "text"), CASES)
def test_a_chain_that_cannot_be_followed(content: bytes, head: int, text: str, tmp_path: Path) -> None:
    source = trace(areas(content), submit(head))
    with pytest.raises(ChainError) as error:
        reach(Memory.of(source))
    assert text in str(error.value)
    raw, out = tmp_path / "raw.gtr", tmp_path / "out.gtr"
    raw.write_bytes(source.build())
    result = CliRunner().invoke(main, ["build", str(raw), "-o", str(out)])
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {raw}: job chain 0")
    assert text in line
    assert not out.exists()


def test_the_second_of_two_chains_is_named() -> None:
    with pytest.raises(ChainError, match="job chain 1: job header at GPU address 0xffff80200000 is not mapped"):
        PASSES["dead-memory"](trace(areas(jobs()), submit(JOBS), submit(DATA)))
