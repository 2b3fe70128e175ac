# SPDX-License-Identifier: BSD-2-Clause
"""The package for OP-TEE: against fiptool and OP-TEE's own script, booted, tampered with."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from host_tools import runners
from host_tools.cli import main
from host_tools.flash import fip, signed_ta
from host_tools.flash.check import Checked, check_opened
from host_tools.flash.containers import File, take_apart
from host_tools.flash.errors import FlashError
from host_tools.flash.manifest import Manifest
from host_tools.flash.names import CORE, TA_KEY
from host_tools.flash.pack import Sources, pack
from host_tools.runners.optee import build as optee
from host_tools.runners.optee import images, normal_world
from signing.delivery import Delivery
from signing.sign import FileSigner


@dataclass(frozen=True)
class Packed:
    """A package, and what it was made of."""

    folder: Path
    image: bytes
    manifest: Manifest

    @property
    def files(self) -> dict[str, File]:
        return dict(take_apart(self.image).files)

    @property
    def ta(self) -> str:
        return self.manifest.trusted_applications[0].file

    def flipped(self, piece: str, at: int) -> bytes:
        """The image with a bit of a piece turned over; from its end where `at` is negative."""
        row = next(row for row in self.manifest.pieces if row.name == piece)
        where = row.offset + (at if at >= 0 else row.bytes + at)
        return self.image[:where] + bytes([self.image[where] ^ 1]) + self.image[where + 1 :]


@pytest.fixture(scope="module")
def packed(pta: Path, signed: bytes, tmp_path_factory: pytest.TempPathFactory) -> Packed:
    trace = tmp_path_factory.mktemp("flash") / "lenet.sgtr"
    trace.write_bytes(signed)
    return Packed(pta, *pack(pta, Sources([trace])))


def checked(image: bytes) -> Checked:
    return check_opened(take_apart(image))


def reasons(found: Checked) -> list[str]:
    return [str(finding) for finding in found.findings]


def fiptool(*arguments: str) -> str:
    command = [str(optee.tfa_build() / "fiptool"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_it_is_what_it_must_be(packed: Packed, signer: FileSigner) -> None:
    found = check_opened(take_apart(packed.image), signer.public)
    assert found.ok, reasons(found)
    assert packed.manifest.min_security_version == 3
    assert packed.manifest.missing == ()
    assert packed.manifest.trusted_applications[0].key_sha256 == signed_ta.PUBLISHED_KEY
    core = optee.core_of(packed.folder)
    assert {name: packed.files[name].data for name in CORE.values()} == {
        name: (core / name).read_bytes() for name in CORE.values()
    }


def test_fiptool_reads_the_package_as_we_do(packed: Packed, tmp_path: Path) -> None:
    (tmp_path / "fip.bin").write_bytes(packed.files["fip.bin"].data)
    ours = fip.parse(packed.files["fip.bin"].data).images
    listed = re.findall(
        r'offset=0x(\w+), size=0x(\w+), cmdline="--([\w-]+)"', fiptool("info", str(tmp_path / "fip.bin"))
    )
    assert {name: (int(at, 16), int(size, 16)) for at, size, name in listed} == {
        name: (image.offset, len(image.data)) for name, image in ours.items()
    }
    fiptool("unpack", "--out", str(tmp_path), str(tmp_path / "fip.bin"))
    assert (tmp_path / "soc-fw.bin").read_bytes() == ours["soc-fw"].data
    assert (tmp_path / "tos-fw-extra1.bin").read_bytes() == ours["tos-fw-extra1"].data


def test_fiptool_writes_the_package_as_we_do(packed: Packed, tmp_path: Path) -> None:
    """Every name of our table; then an update of some."""
    options = []
    images = {name: name.encode() * 3 for name in fip.IMAGES}
    for name, data in images.items():
        (tmp_path / name).write_bytes(data)
        options += [f"--{name}", str(tmp_path / name)]
    fiptool("create", *options, str(tmp_path / "all.fip"))
    assert (tmp_path / "all.fip").read_bytes() == fip.build(images)
    core = {part: packed.files[name].data for part, name in CORE.items()}
    ours = fip.update(fip.build(images), core)
    replaced = []
    for part, data in core.items():
        (tmp_path / part).write_bytes(data)
        if data:  # fiptool keeps a place in its table for an empty image, which we leave out
            replaced += [f"--{part}", str(tmp_path / part)]
    fiptool("remove", "--force", "--tos-fw-extra2", str(tmp_path / "all.fip"))
    fiptool("update", *replaced, str(tmp_path / "all.fip"))
    assert (tmp_path / "all.fip").read_bytes() == ours


def test_optees_own_script_takes_the_ta(packed: Packed, tmp_path: Path) -> None:
    """scripts/sign_encrypt.py verifies what we verify, and refuses what we refuse."""
    script = optee.source(*optee.CORE) / "scripts" / "sign_encrypt.py"
    (tmp_path / TA_KEY).write_bytes(packed.files[TA_KEY].data)
    good = packed.files[packed.ta].data
    key = signed_ta.load_key(packed.files[TA_KEY].data, TA_KEY)
    for at in (None, 30, 60, 330, 600, len(good) - 1):
        data = good if at is None else good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        (tmp_path / "ta").write_bytes(data)
        uuid = packed.ta.removesuffix(".ta")
        command = [sys.executable, str(script), "verify", "--uuid", uuid, "--key", str(tmp_path / TA_KEY)]
        done = subprocess.run(
            [*command, "--in", str(tmp_path / "ta")], capture_output=True, text=True, check=False
        )
        ta = signed_ta.parse(data)
        assert (ta.digest == ta.computed and ta.is_signed_by(key)) == (done.returncode == 0) == (at is None), (
            done.stderr
        )


def test_the_package_boots(
    packed: Packed, signed: bytes, signer: FileSigner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BL1 and the package as TF-A's platform "qemu" has them in flash."""
    flash = packed.files["bl1.bin"].data.ljust(images.FIP_AT, b"\0") + packed.files["fip.bin"].data
    (tmp_path / "flash.bin").write_bytes(flash)
    image = images.Image(tmp_path / "flash.bin", images.read_board(packed.folder))
    monkeypatch.setattr(normal_world, "image_for", lambda *_: image)
    found = runners.run("optee", Delivery(signed), signer.public, firmware=packed.folder)
    assert found.ok, found.error
    assert found.jobs == 14


TAMPERINGS: dict[str, tuple[Callable[[Packed], bytes], str]] = {
    "a byte of the core": (lambda p: p.flipped("tee-pager_v2.bin", 5000), "tee-pager_v2.bin at 0x"),
    "the core in the package": (
        lambda p: p.flipped("fip.bin/tos-fw-extra1", 5000),
        "is not the same as tee-pager_v2",
    ),
    "BL31": (lambda p: p.flipped("fip.bin/soc-fw", 100), "fip.bin/soc-fw at 0x"),
    "size of an image": (lambda p: p.flipped("fip.bin", 16 + 24), "FIP: padding between images"),
    "size of the package": (
        lambda p: p.flipped("fip.bin", 16 + 5 * 40 + 16),
        "FIP end marker: size of the package",
    ),
    "the TA's magic": (
        lambda p: p.flipped(p.ta, 0),
        "header of a signed TA, magic: expected 4853544f, found 4953544f",
    ),
    "the TA's algorithm": (lambda p: p.flipped(p.ta, 12), "algorithm of the TA's signature"),
    "the TA's hash": (lambda p: p.flipped(p.ta, 25), "hash of the TA: expected "),
    "the TA's signature": (lambda p: p.flipped(p.ta, 100), "signature of the TA: it is not that of ta_key.pem"),
    "the TA's UUID": (lambda p: p.flipped(p.ta, 20 + 32 + 512), "name of the TA's file: expected "),
    "the TA's code": (lambda p: p.flipped(p.ta, -1), "hash of the TA: expected "),
    "the TA's key": (lambda p: p.flipped(TA_KEY, 100), TA_KEY),
    "a trace": (lambda p: p.flipped("lenet.sgtr", 80), "the device refuses this trace: the signature"),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_named(packed: Packed, name: str) -> None:
    change, reason = TAMPERINGS[name]
    found = checked(change(packed))
    assert not found.ok
    assert any(reason in text for text in reasons(found)), reasons(found)


def test_a_ta_of_another_key_than_the_cores(packed: Packed, tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "ta.pem").write_bytes(pem)
    core = optee.core_of(packed.folder)
    with pytest.raises(FlashError, match=r"\.ta: OP-TEE's core refuses this TA: it does not hold ta_key\.pem"):
        pack(packed.folder, Sources(core=core, ta_signing_key=tmp_path / "ta.pem"))


def test_a_boards_own_package_and_core(packed: Packed, tmp_path: Path) -> None:
    (tmp_path / "board.fip").write_bytes(fip.build({"tb-fw": b"bl2", "soc-fw": b"bl31", "nt-fw": b"u-boot"}))
    core = optee.core_of(packed.folder)
    image, manifest = pack(packed.folder, Sources(fip=tmp_path / "board.fip", core=core))
    found = fip.parse(take_apart(image).files["fip.bin"].data).images
    assert found["nt-fw"].data == b"u-boot"
    assert found["tos-fw-extra1"].data == (core / "tee-pager_v2.bin").read_bytes()
    assert "bl1.bin" not in take_apart(image).files
    assert manifest.missing == ()
    alone = pack(packed.folder, Sources(core=core))[1]
    assert [need.name for need in alone.missing] == ["fip.bin/soc-fw", "fip.bin/nt-fw"]
    with pytest.raises(FlashError, match=r"tee-header_v2\.bin: No such file or directory: expected OP-TEE's core"):
        pack(packed.folder, Sources(core=tmp_path))


def test_the_command(packed: Packed, signer: FileSigner, tmp_path: Path) -> None:
    (tmp_path / "pub.pem").write_bytes(signer.public.pem())
    (tmp_path / "package.tar").write_bytes(packed.image)
    good = CliRunner().invoke(main, shlex.split(f"flash --check {tmp_path}/package.tar --key {tmp_path}/pub.pem"))
    assert good.exit_code == 0, good.output
    assert "archive for optee; all of it is what it must be" in good.stdout
    assert "ta_key.pem is the key that OP-TEE publishes" in good.stderr
