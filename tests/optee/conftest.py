# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the tests that need OP-TEE, built from Debian's sources."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from host_tools.demo import RAW
from host_tools.device.library import Session
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot, ready_root
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.runners import libraries
from host_tools.runners.optee import build as optee
from host_tools.runners.optee import client, guest
from host_tools.runners.replay import RunnerError
from host_tools.support.cache import cache_dir, made_once
from host_tools.vgpu.build import QEMU
from signing.sign import FileSigner, sign_trace
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.optee.libteec import Fake, made
from tests.support.programs import MIN_SECURITY_VERSION
from tests.support.signing_samples import ES256
from trace_format.trace import Trace


@pytest.fixture(scope="session")
def signer() -> FileSigner:
    """Always the same key: it is compiled into the pseudo-TA, and builds of OP-TEE are kept by their contents."""
    return ES256


@pytest.fixture(scope="session")
def network() -> Trace:
    """The demo network as a built trace, as new as the device requires."""
    data = RAW.read_bytes()
    trace = build(Trace.parse(data), source=data, skip=KEEP_INPUTS)  # tests of other things give no input
    return trace.with_(meta={**trace.meta, "security_version": MIN_SECURITY_VERSION})


@pytest.fixture(scope="session")
def signed(network: Trace, signer: FileSigner) -> bytes:
    return sign_trace(network.build(), signer)


@pytest.fixture(scope="session")
def pta(signer: FileSigner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pseudo-TA that OP-TEE has been built with; the tests are skipped when it cannot be."""
    if shutil.which(QEMU) is None:
        pytest.skip(f"{QEMU} is not installed: apt-get install qemu-system-arm")
    folder = tmp_path_factory.mktemp("optee") / "pta"
    generate_sources(
        Options(
            "v3d42",
            platform_of("optee"),
            signer.public,
            libraries.source(),
            min_security_version=MIN_SECURITY_VERSION,
            any_client=True,
        ),
        folder,
    )
    try:
        for package in (optee.CORE, optee.TFA):
            optee.source(*package)
    except (RecordError, RunnerError) as error:
        pytest.skip(f"OP-TEE's sources or tools cannot be obtained: {error}")
    optee.core_of(pta=folder)  # what does not compile fails the tests
    return folder


@pytest.fixture(scope="session")
def logging_pta(pta: Path, signer: FileSigner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pseudo-TA with a replay log and attestations."""
    folder = tmp_path_factory.mktemp("optee-log") / "pta"
    generate_sources(
        Options(
            "v3d42",
            platform_of("optee"),
            signer.public,
            libraries.source(),
            min_security_version=MIN_SECURITY_VERSION,
            evidence=Evidence(log=True, hashes=True, attestation=True),
        ),
        folder,
    )
    return folder


@pytest.fixture(scope="session")
def ta_key() -> Path:
    """Whose TAs a core accepts that is built for it: a private key that is kept, and so are core and TA."""

    def make(folder: Path) -> None:
        private = rsa.generate_private_key(65537, 2048)
        folder.mkdir()
        (folder / "key.pem").write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    return made_once(cache_dir("tests", "ta") / "key", make) / "key.pem"


@pytest.fixture(scope="session")
def root(pta: Path) -> RecordRoot:
    """What the guest with Linux is made of; the tests are skipped when it cannot be obtained."""
    try:
        found = ready_root()
        guest.layer(found)
        client.libteec()
    except RecordError as error:
        pytest.skip(str(error))
    return found


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Fake:
    """The libteec without a TEE, and the client library over it."""
    try:
        return made(tmp_path_factory.mktemp("libteec"))
    except RecordError as error:
        pytest.skip(f"libteec's header cannot be obtained: {error}")


@pytest.fixture
def fake(built: Fake) -> Fake:
    built.clear()
    return built


@pytest.fixture
def opened(fake: Fake) -> Callable[..., Session]:
    return functools.partial(Session, library=fake.built)
