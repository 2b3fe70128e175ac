# SPDX-License-Identifier: BSD-2-Clause
"""The record of a device file in a generated folder: without secrets, strict, and clear about what is untested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from signing import encryption
from tee_replayer.generator import device_file, device_record, profiles
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.device_file import DeviceFileError
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import crypto_trees, device_files
from tests.support.replayer_samples import ES256, KEY


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pub.pem").write_bytes(KEY.pem())
    (tmp_path / "mine.toml").write_text('like = "optee"\ntitle = "Mine"\n')
    monkeypatch.chdir(tmp_path)


def read(**more: Any) -> device_file.DeviceFile:
    return device_file.read(device_files.written(Path(), **more))


def options(**more: Any) -> Options:
    return Options("v3d42", platform_of("qemu-virt"), KEY, crypto_trees.empty(Path()), **more)


def test_a_folder_says_what_was_asked_for_without_secrets_and_paths(tmp_path: Path) -> None:
    assert isinstance(ES256.key, ec.EllipticCurvePrivateKey)
    secret = encryption.key_bytes(ES256.key)
    out = generate(options(decryption=Decryption(True, secret), networks=2, min_security_version=7), Path("out"))
    text = (out / device_record.FILE).read_text()
    found = device_record.read(out / device_record.FILE)
    assert (found.gpu, found.platform, found.key_id) == ("v3d42", "qemu-virt", KEY.kid)
    assert (found.min_security_version, found.carveout_bytes, found.mmu) == (7, 256 << 20, False)
    assert found.fleet_key_id == KEY.kid  # the samples' key is both
    assert found.features.names == ("encryption", "networks")
    assert secret.hex() not in text
    assert str(tmp_path) not in text
    assert "PEM" not in text
    assert found.text == text


def test_an_untested_combination_is_called_so_in_what_is_generated() -> None:
    """In the first lines of the sources, in the README and in the record, which also names a profile."""
    rows: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "plain"),
        ({"evidence": Evidence(log=True)}, "logged"),
        ({"steps": True}, ""),
    )
    for each, name in rows:
        out = generate(options(**each), Path("out"))
        texts = [
            (out / file).read_text() for file in ("replayer.h", "replayer.c", "README.md", device_record.FILE)
        ]
        assert [profiles.UNTESTED in text.lower() for text in texts] == [not name] * 4
        assert (f'profile = "{name}"' in texts[3]) == bool(name)
    assert "    steps\n" in texts[2]


def test_a_board_and_a_policy_of_ones_own_are_named_by_their_hashes() -> None:
    Path("policy.h").write_text("policy_clients policy_traces POLICY_STORAGE")
    found = read(platform=None, board="mine.toml", client_policy="policy.h").options()
    record = device_record.of_options(found)
    assert len({record.board_sha256, record.client_policy_sha256, b""}) == 3
    Path("mine.toml").write_text('like = "optee"\ntitle = "Another"\n')
    again = device_record.of_options(read(platform=None, board="mine.toml", client_policy="policy.h").options())
    assert again.board_sha256 != record.board_sha256
    assert again.client_policy_sha256 == record.client_policy_sha256


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('key_id = "', 'key = "', "key_id or trust_policy_id is missing"),
        ('key_id = "', 'trust_policy_id = "', "trust_policy_id: expected key_id, found profile plain: no feature"),
        ('key_id = "', 'key_id = "00', "key_id: expected 32 digits in hexadecimal, not all of them 0, found '00"),
        (
            'profile = "plain"',
            'profile = "fleet"',
            "key_id: expected trust_policy_id, found profile fleet: trust, evidence, store",
        ),
        ("mmu = false", "mmu = 0", "mmu: expected a value of type bool, found 0"),
        ("mmu = false", "cache = false", "unknown keys cache"),
        ("carveout_bytes = ", "carveout_bytes = -", "carveout_bytes: expected 0 to 0x"),
    ],
)
def test_a_record_is_read_strictly(old: str, new: str, message: str) -> None:
    file = generate(options(), Path("out")) / device_record.FILE
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(DeviceFileError) as error:
        device_record.read(file)
    assert str(error.value).startswith(f"out/device.toml: {message}")
