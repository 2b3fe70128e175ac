# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone inspect` on every kind of file; images and ELF files: tests/emulated/test_flash.py."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec

from host_tools.cli import main
from host_tools.flash import fip
from signing.key_files import private_pem
from signing.sign import sign_trace
from tee_replayer.generator.device import Device
from tests.support.signing_samples import EDDSA, ES256, P256_SCALAR, small_trace
from tests.unit.flash.test_signed_ta import signed as signed_ta
from tests.vgpu.test_capture import GOOD_FILE
from trace_format import profile

PRIVATE = ec.derive_private_key(P256_SCALAR, ec.SECP256R1())
KID = ES256.public.kid.hex()


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros((2, 3), np.float16))
    return file.getvalue()


FIRMWARE = bytes(64) + Device("qemu-virt", profile.load("v3d42").profile_id, 7, ES256.public).encoded + bytes(9)
KINDS: dict[str, tuple[bytes, str, dict[str, object]]] = {
    "a trace": (small_trace(), "trace", {"name": "small", "gpu": "v3d42", "actions": 3, "slots": []}),
    "a signed trace": (
        sign_trace(small_trace(), EDDSA),
        "signed trace",
        {"claimed algorithm": "EdDSA", "name": "small"},
    ),
    "a capture": (GOOD_FILE, "capture", {"gpu": "v3d42", "jobs": 1, "write": 1, "end": 1}),
    "a public key": (ES256.public.pem(), "public key", {"algorithm": "ES256", "key_id": KID}),
    "a private key": (private_pem(PRIVATE), "private key, not encrypted", {"key_id": KID}),
    "a locked key": (private_pem(PRIVATE, b"horse"), "private key, encrypted", {}),
    "a package": (fip.build({"tos-fw": FIRMWARE}), "firmware image package (TF-A)", {}),
    "a TA": (signed_ta(0x70414930), "signed trusted application (OP-TEE)", {}),
    "a tensor": (npy(), "tensor (.npy)", {"dtype": "float16", "shape": [2, 3]}),
    "firmware": (
        FIRMWARE,
        "firmware (plain bytes)",
        {"replayer at 0x40": f"qemu-virt, v3d42, key {KID}, security version 7 or newer"},
    ),
}


@pytest.mark.parametrize("what", KINDS)
def test_each_kind(what: str, tmp_path: Path) -> None:
    data, kind, figures = KINDS[what]
    path = tmp_path / "file"
    path.write_bytes(data)
    done = CliRunner().invoke(main, ["inspect", str(path), "--json"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kind"] == kind
    assert found["figures"] | figures == found["figures"]
    text = CliRunner().invoke(main, ["inspect", str(path)]).stdout.splitlines()
    assert text[0] == f"{path}: {kind}"
    assert len(text) >= 1 + len(figures)
    if what == "a package":
        assert any(KID in line for line in text)


@pytest.mark.parametrize("what", [what for what in KINDS if what != "firmware"])
def test_a_cut_file_is_one_sentence(what: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(KINDS[what][0][:40])
    done = CliRunner().invoke(main, ["inspect", str(path)])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {path}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("at", "value"), [(32, b"\xff" * 8), (4, b"\7"), (16, b"\xff" * 30)])
def test_a_damaged_elf_file(at: int, value: bytes, tmp_path: Path) -> None:
    """Where the headers are, how large and how many, which class: one sentence."""
    path = tmp_path / "file"
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 183, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 16, 16, 4096)
    path.write_bytes(header + segment)
    good = CliRunner().invoke(main, ["inspect", str(path), "--json"])
    assert json.loads(good.stdout)["figures"] == {
        "machine": "AArch64",
        "entry": "0x0",
        "loaded bytes": 16,
        "memory bytes": 16,
    }
    path.write_bytes((header + segment)[:at] + value + (header + segment)[at + len(value) :])
    done = CliRunner().invoke(main, ["inspect", str(path)])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {path}: a damaged ELF file: ")
    assert done.stderr.count("\n") == 1


def test_another_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"hello world")
    done = CliRunner().invoke(main, ["inspect", str(path)])
    assert done.stderr.endswith(
        "expected a trace, capture, key, trust policy, firmware, image, package, TA or tensor, "
        "found 68656c6c6f20776f\n"
    )
    assert CliRunner().invoke(main, ["inspect", str(tmp_path / "none")]).exit_code == 2
