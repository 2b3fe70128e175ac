# SPDX-License-Identifier: BSD-2-Clause
"""The table of hostile traces (tests/support/hostile.py) on OP-TEE's pseudo-TA, many in one boot (hostile.c)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from host_tools.runners import libraries, secure_machine
from host_tools.runners.optee import bare_metal as optee
from host_tools.runners.optee import images
from host_tools.runners.optee.normal_world import staged_bytes, tee_result
from signing.delivery import Delivery
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import Report
from tests.support import hostile
from tests.support import hostile_devices as devices
from tests.support import replayer_samples as s
from tests.support.hostile_devices import Answer
from tests.support.hostile_rows import MALI, MIN_SECURITY_VERSIONS, V3D, Hostile
from tests.support.programs import RESULT_AT
from tests.support.sampling import SomeOf
from trace_format import packing

VERDICTS_AT, TABLE_AT, TRACES_AT = 0x800000, 0x1000000, 0x2000000  # from the mailbox
ROW = np.dtype([(name, "<u8") for name in ("trace_at", "trace_bytes", "input_at", "input_bytes", "run")])
VERDICT_BYTES = 8 + packing.size_of("report")
ANSWER = np.dtype([(name, "<u4") for name in ("result", "origin", "count")])
Images = Callable[[str], images.Image]


@pytest.fixture(scope="module")
def image(pta: Path, tmp_path_factory: pytest.TempPathFactory) -> Images:
    """The image for a GPU; `pta` is requested so that without OP-TEE the tests are skipped with its reason."""

    @cache
    def made(gpu: str) -> images.Image:
        folder = tmp_path_factory.mktemp(gpu) / "pta"
        generate_sources(
            Options(
                gpu,
                platform_of("optee"),
                s.KEY,
                libraries.source(),
                min_security_version=MIN_SECURITY_VERSIONS[gpu],
                any_client=True,
            ),
            folder,
        )
        return images.image_of(folder, Path(__file__).with_name("hostile.c"))

    return made


def judged(image: images.Image, rows: Sequence[Hostile], run: bool) -> tuple[list[Report], dict[str, int]]:
    """Boot once, and give the pseudo-TA all these traces of one GPU.

    Returns:
        Its report on each, and the virtual GPU's counters.
    """
    table, traces = np.zeros(len(rows), ROW), bytearray()
    for entry, row in zip(table, rows, strict=True):
        inputs = b"".join(tensor.tobytes() for tensor in row.inputs.values())
        for name, data in (("trace", row.make()), ("input", inputs)):
            entry[f"{name}_at"], entry[f"{name}_bytes"] = TRACES_AT + len(traces), len(data)
            traces += data + bytes(-len(data) % 64)
        entry["run"] = run
    inside = slice(optee.MAILBOX_BASE - secure_machine.DRAM_BASE, None)
    with tempfile.TemporaryDirectory() as name, secure_machine.dram(optee.DRAM_BYTES) as (path, memory):
        stats = Path(name) / "stats.json"
        arguments = {"stats": str(stats)} | ({"hang": "1"} if rows[0].hang else {})
        with memory[inside] as shared:
            words = len(rows).to_bytes(8, "little") + table.tobytes()
            shared[TABLE_AT : TABLE_AT + len(words)] = words
            shared[TRACES_AT : TRACES_AT + len(traces)] = traces
            output = optee.run(image, path, rows[0].gpu, arguments, timeout_s=1200)
            answer = np.frombuffer(bytes(shared[RESULT_AT : RESULT_AT + ANSWER.itemsize]), ANSWER)[0]
            verdicts = bytes(shared[VERDICTS_AT : VERDICTS_AT + VERDICT_BYTES * len(rows)])
        assert (hex(answer["result"]), answer["count"]) == (hex(0), len(rows)), output
        counts = json.loads(stats.read_text())
    return [report_at(verdicts, index) for index in range(len(rows))], counts


def staged(row: Hostile) -> int:
    """Bytes that the pseudo-TA must keep for a row."""
    return staged_bytes(Delivery(row.make()))


def report_at(verdicts: bytes, index: int) -> Report:
    """A row's report; the client was told the same."""
    data = verdicts[index * VERDICT_BYTES :][:VERDICT_BYTES]
    report = Report(**packing.unpack("report", data[8:]))
    assert int.from_bytes(data[:4], "little") == (0 if report.ok else tee_result(report.status))
    return report


def compare(rows: Sequence[Hostile], reports: list[Report], counts: dict[str, int], run: bool) -> None:
    """Each report is that of the core on this machine; nothing else happened."""
    expected = [devices.core(row) for row in rows]
    for row, report, here in zip(rows, reports, expected, strict=True):
        assert report.name == row.status, row
        if run or row.status != "OK":
            assert Answer(report, 0, 0, False).reason == here.reason, row
    assert counts["jobs"] == (sum(here.jobs for here in expected) if run else 0)
    assert counts["carveout_bytes_left"] == 0
    assert counts["normal_accesses"] == 0


@pytest.mark.parametrize("gpu", [V3D, MALI])
def test_hostile_traces_are_refused_as_on_the_host(gpu: str, image: Images, some_of: SomeOf) -> None:
    rows = some_of([row for row in hostile.LOADS if row.gpu == gpu and not row.operators], 6)
    reports, counts = judged(image(gpu), rows, run=False)
    compare(rows, reports, counts, run=False)
    assert counts["writes"] == 0, "a register was written"


@pytest.mark.parametrize("gpu", [V3D, MALI])
def test_hostile_traces_are_stopped_as_on_the_host(gpu: str, image: Images, some_of: SomeOf) -> None:
    """Those that load; what is good runs among them."""
    both = hostile.RUNS + hostile.GOOD
    staging = image(gpu).board.carveout_bytes // 4  # where the pseudo-TA keeps tensors: one of 4 GiB does not fit
    fitting = [
        row for row in both if row.gpu == gpu and not row.hang and not row.operators and staged(row) <= staging
    ]
    rows = some_of(fitting, 5)
    reports, counts = judged(image(gpu), rows, run=True)
    compare(rows, reports, counts, run=True)
    assert counts["writes"] > 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("row", [row for row in hostile.RUNS if row.hang and not row.operators], ids=str)
def test_a_job_that_hangs(row: Hostile, image: Images) -> None:
    """A boot for each: only the GPU's first job hangs."""
    reports, counts = judged(image(row.gpu), [row], run=True)
    compare([row], reports, counts, run=True)
