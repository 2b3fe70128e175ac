# SPDX-License-Identifier: BSD-2-Clause
"""Device files: what they must not say, and what they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from signing import key_files
from tee_replayer.generator import device_file
from tee_replayer.generator.decryption import Decryption
from tests.support import device_files
from tests.support.bad_input import FLEET
from tests.support.replayer_samples import ES256, KEY
from trace_format.errors import GramophoneError
from trace_format.operators import Operator
from trace_format.schema.trust import KeyKind

TRUST = {"key": None, "trust_policy": "fleet.gtp", "profile": "encrypted"}
ID = "11" * 16


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pub.pem").write_bytes(KEY.pem())
    (tmp_path / "fleet.gtp").write_bytes(FLEET)
    (tmp_path / "fleet.pem").write_bytes(key_files.private_pem(ES256.key))
    (tmp_path / "mine.toml").write_text('like = "optee"\ntitle = "Mine"\n')
    monkeypatch.chdir(tmp_path)


def read(**more: Any) -> device_file.DeviceFile:
    return device_file.read(device_files.written(Path(), **more))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpu": None}, "gpu is missing"),
        ({"gpu": "v3d43"}, "gpu (did you mean 'v3d42'?): expected one of mali_g31, "),
        ({"gpu": 42}, "gpu: expected a value of type str, found 42"),
        ({"gpu": ""}, "gpu is empty"),
        ({"platform": None}, "platform or board is missing"),
        ({"board": "mine.toml"}, "platform and board are mutually exclusive"),
        ({"platform": "qemu"}, "platform (did you mean 'qemu-virt'?): expected one of hikey960, linux, optee, "),
        ({"platform": None, "board": 3}, "board: expected a value of type str, found 3"),
        ({"key": None}, "key or trust_policy is missing"),
        ({"trust_policy": "fleet.gtp"}, "key and trust_policy are mutually exclusive"),
        ({"key": "fleet.gtp"}, "key: fleet.gtp: expected a public key (PEM), found a trust policy (.gtp)"),
        (
            {**TRUST, "trust_policy": "pub.pem"},
            "trust_policy: pub.pem: expected a trust policy (.gtp), found a pub",
        ),
        ({"profile": "fleet"}, "key: expected trust_policy = FILE, found profile fleet: trust, evidence, store"),
        ({**TRUST, "profile": "plain"}, "trust_policy: expected key = FILE, found profile plain: no feature"),
        ({"key": "a\0b"}, "key: expected a path, found 'a\\x00b'"),
        ({"key_id": ID}, "the record of a generated folder has no keys: expected key = FILE, found key_id"),
        ({"profile": None}, "profile is missing: expected one of plain, operators, logged, "),
        ({"profile": "jointt"}, "profile (did you mean 'joint'?): expected one of plain, "),
        ({"profile": True}, "profile: expected a value of type str, found True"),
        ({"features": {"steps": True}}, "features: steps: the profile plain has no feature"),
        ({"features": True}, "features: expected a value of type dict, found True"),
        ({"profile": None, "features": {"schedule": 4}}, "features: schedule requires networks"),
        ({"min_security_version": 1 << 32}, "min_security_version: expected 0 to 0xffffffff, found 0x100000000"),
        ({"min_security_version": -1}, "min_security_version: expected 0 to 0xffffffff, found -0x1"),
        ({"min_security_version": "2"}, "min_security_version: expected a value of type int, found '2'"),
        ({"carveout_mib": 0}, "carveout_mib: expected 1 to 1048576, found 0"),
        ({"carveout_mib": 1.5}, "carveout_mib: expected a value of type int, found 1.5"),
        ({"carveout_mib": 1 << 20}, "qemu-virt.toml: memory.carveout"),
        ({"mmu": 1}, "mmu: expected a value of type bool, found 1"),
        ({"device_id": ID}, "device_id: expected the feature trust, found profile plain: no feature"),
        (
            {**TRUST, "device_id": "00" * 16},
            "device_id: expected 32 digits in hexadecimal, not all of them 0, found",
        ),
        (
            {**TRUST, "device_id": "11"},
            "device_id: expected 32 digits in hexadecimal, not all of them 0, found '11'",
        ),
        ({"algorithms": ["es384"]}, "algorithms: expected the feature trust, found profile plain: no feature"),
        (
            {**TRUST, "algorithms": ["rsa"]},
            "algorithms: expected a list of some of hybrid, es384, eddsa, found 'rsa'",
        ),
        ({**TRUST, "algorithms": "es384"}, "algorithms: expected a value of type list, found 'es384'"),
        (
            {"fleet_key": "fleet.pem"},
            "fleet_key: expected the feature encryption, found profile plain: no feature",
        ),
        ({"any_client": True}, "qemu-virt has no clients"),
        ({"share_gpu": True}, "on qemu-virt the GPU cannot be shared"),
        ({"client_policy": "policy.h"}, "qemu-virt takes no client policy"),
        ({"clock_mhz": 1}, "unknown keys clock_mhz"),
        ({"min_securty_version": 1}, "unknown keys min_securty_version (did you mean 'min_security_version'?)"),
        ({"platform": "linux", "mmu": True}, "platform linux: Linux has the MMU"),
    ],
)
def test_what_a_device_file_must_not_say(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GramophoneError) as error:
        read(**changes).options()
    assert str(error.value).startswith(f"device.toml: {message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"key": "no.pem"}, "no.pem"), ({"platform": None, "board": "no.toml"}, "no.toml")],
)
def test_a_file_that_is_missing_is_named(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(FileNotFoundError) as error:
        read(**changes)
    assert error.value.filename == name


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = device_files.written(Path(), platform=None, board="mine.toml")
    expected = device_file.read(file).options().key
    monkeypatch.chdir("/")
    found = device_file.read(tmp_path / file)
    assert found.key == expected
    assert found.paths == (tmp_path / "pub.pem", tmp_path / "mine.toml")


def test_a_file_becomes_options() -> None:
    found = read(
        **{**TRUST, "profile": None},
        features={"trust": True, "encryption": True, "networks": 3, "operators": ["copy"], "store": True},
        algorithms=["eddsa"],
        device_id=ID,
        carveout_mib=32,
        min_security_version=5,
        mmu=True,
    ).options(bytes([1] * 32))
    assert (found.networks, found.rollback_store, found.operators) == (3, True, (Operator.COPY,))
    assert (found.algorithms, found.device_id.hex(), found.mmu) == ((KeyKind.ED25519,), ID, True)
    assert (found.min_security_version, found.carveout_bytes) == (5, 32 << 20)
    assert found.decryption == Decryption(True, bytes([1] * 32))
