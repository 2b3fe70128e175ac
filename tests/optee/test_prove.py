# SPDX-License-Identifier: BSD-2-Clause
"""A probe (`prove`) through OP-TEE's pseudo-TA: pages of jobs come out as outputs, as everywhere else."""

from __future__ import annotations

from pathlib import Path

from host_tools import runners
from host_tools.extras.bringup import compare, probes
from signing.delivery import Delivery
from signing.sign import FileSigner, sign_trace
from trace_format.trace import Trace


def test_each_job_writes_what_the_virtual_gpu_writes(network: Trace, signer: FileSigner, pta: Path) -> None:
    probe = probes.probe(network, probes.written_pages(network, {}))
    delivery = Delivery(sign_trace(probe.build(), signer))
    found = runners.run("optee", delivery, signer.public, firmware=pta)
    assert found.ok, found.error
    pages = compare.compared(probes.expected(probe, {}), found.outputs, [])
    assert len({page.job for page in pages}) == found.jobs == network.jobs
    assert compare.first_job(pages) is None
