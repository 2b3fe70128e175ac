# SPDX-License-Identifier: BSD-2-Clause
"""Encrypted traces in OP-TEE's core: by the key that follows from its hardware unique key."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from host_tools import runners
from host_tools.demo import RAW
from host_tools.demo.digits import load as load_digits
from host_tools.passes.pipeline import build
from host_tools.runners import libraries
from signing import device_keys, encryption
from signing.delivery import Delivery
from tee_replayer.generator import boards
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import encryption_samples as e
from tests.support import replayer_samples as s
from trace_format.trace import Trace

# OP-TEE's own for platforms without one: tee_otp_get_hw_unique_key of core/kernel/otp_stubs.c.
HUK = bytes(device_keys.HUK_BYTES)
DEVICE = device_keys.derive(device_keys.secret_of_huk(HUK)).decryption
CASES = list(e.cases(DEVICE))


@pytest.fixture(scope="module")
def decrypting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pseudo-TA, which reads encrypted traces."""
    options = Options(
        "v3d42",
        platform_of(boards.load("optee")),
        s.KEY,
        libraries.source(),
        any_client=True,
        decryption=Decryption(True),
    )
    return generate(options, tmp_path_factory.mktemp("encryption") / "pta")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("trace", "status"), [row[1:] for row in CASES], ids=[name for name, _, _ in CASES])
def test_what_is_refused(trace: bytes, status: str, decrypting: Path) -> None:
    found = runners.run("optee", Delivery(e.signed(trace)), s.KEY, gpu="v3d42", firmware=decrypting)
    assert found.report.name == status


@pytest.mark.parametrize("keys", [(DEVICE,), (e.OWNER, e.STRANGER, DEVICE)], ids=["alone", "beside others"])
def test_lenet_gives_the_same_bytes(keys: tuple[ec.EllipticCurvePrivateKey, ...], decrypting: Path) -> None:
    plain = build(Trace.read(RAW)).build()
    inputs = {"data": load_digits()[:1].inputs()[0]}
    trace = encryption.encrypt(plain, [e.public(key) for key in keys])
    with encryption.reading_with([DEVICE]):
        found = runners.run("optee", Delivery(e.signed(trace)), s.KEY, inputs, firmware=decrypting)
    expected = runners.run("vgpu", Delivery(e.signed(plain)), s.KEY, inputs)
    assert found.ok, found.error
    assert found.outputs["prob"].tobytes() == expected.outputs["prob"].tobytes()
