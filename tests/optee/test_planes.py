# SPDX-License-Identifier: BSD-2-Clause
"""Byte planes in the pseudo-TA: the same bytes as from the core on this machine; without the codec it refuses."""

from __future__ import annotations

from pathlib import Path

from host_tools import runners
from host_tools.demo import RAW
from host_tools.passes.pipeline import build
from host_tools.runners.needs import what_helps
from host_tools.runners.replay import ReplayRequest
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support import networks
from tests.support.programs import MIN_SECURITY_VERSION
from tests.support.signing_samples import ES256
from trace_format.trace import Trace


def test_a_pseudo_ta_decodes_them(pta: Path) -> None:
    """`pta` is requested so that without OP-TEE the test is skipped with its reason."""
    assert pta.is_dir()
    signed = sign_trace(build(Trace.read(RAW)).build(planes=True), ES256)
    request = ReplayRequest(Delivery(signed), ES256.public, {"data": networks.picture(networks.LENET)}, repeat=2)
    here, there = runners.run("vgpu", request), runners.run("optee", request)
    assert there.ok, there.error
    assert there.outputs["prob"].tobytes() == here.outputs["prob"].tobytes()


def test_a_pseudo_ta_without_the_codec_refuses(pta: Path) -> None:
    trace = build(Trace.read(RAW))
    trace = trace.with_(meta={**trace.meta, "security_version": MIN_SECURITY_VERSION})
    delivery = Delivery(sign_trace(trace.build(planes=True), ES256))
    inputs = {"data": networks.picture(networks.LENET)}
    result = runners.run("optee", ReplayRequest(delivery, ES256.public, inputs, firmware=pta))
    assert not result.ok
    assert result.report.name == "SECTIONS"
    assert "--codec planes" in what_helps(delivery, result.report)
