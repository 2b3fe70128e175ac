# SPDX-License-Identifier: BSD-2-Clause
"""Images for boards, packed from real firmware with a small trace."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.flash.check import Checked, check_opened
from host_tools.flash.containers import take_apart
from host_tools.flash.manifest import NAME, Manifest
from host_tools.flash.pack import image_sha256
from signing.keys import Algorithm, PublicKey, generate
from signing.sign import FileSigner
from tee_replayer.generator.device import Device
from tee_replayer.generator.device import find as find_device
from tests.support import replayer_samples as s
from tests.support.cache_plants import sample as moved
from tests.support.firmware_samples import small_mali
from tests.support.replayer_samples import signed, trace

GPUS = {"qemu-virt": "v3d42", "rpi4": "v3d42", "hikey960": "mali_g71", "rk3576": "mali_g52r1"}
STRANGER = FileSigner(generate(Algorithm.ES256))


@dataclass(frozen=True)
class Packed:
    """An image, and what it was made of."""

    folder: Path
    image: bytes
    manifest: Manifest

    def offset(self, piece: str) -> int:
        """Where a piece, or the manifest, lies."""
        return take_apart(self.image).files[NAME].offset if piece == NAME else self.place(piece)

    def place(self, piece: str) -> int:
        return next(row.offset for row in self.manifest.pieces if row.name == piece)

    def changed(self, at: int, new: bytes) -> bytes:
        """The image with other bytes."""
        return self.image[:at] + new + self.image[at + len(new) :]

    def flipped(self, at: int, bit: int = 0) -> bytes:
        return self.changed(at, bytes([self.image[at] ^ 1 << bit]))

    def claimed(self, **values: Any) -> bytes:
        """The image with another manifest of the same size, the whole image's hash made good."""
        text = replace(self.manifest, **values).encode()
        assert len(text) == len(self.manifest.encode())
        image = self.changed(self.offset(NAME), text)
        digest = image_sha256(image, take_apart(image).files[NAME])
        return image.replace(self.manifest.image_sha256.encode(), digest.encode())


def sample(platform: str, folder: Path) -> bytes:
    """A signed trace that needs no inputs."""
    if GPUS[platform] == "v3d42":
        return signed(trace(meta={"name": "small", "security_version": 1}))
    made = small_mali(folder) if GPUS[platform] == "mali_g71" else moved(GPUS[platform])
    return signed(made.with_(slots=[replace(slot, bound=slot.kind.name != "OUTPUT") for slot in made.slots]))


def checked(image: bytes, key: PublicKey | None = s.KEY) -> Checked:
    return check_opened(take_apart(image), key)


def reasons(found: Checked) -> list[str]:
    return [str(finding) for finding in found.findings]


def device_of(p: Packed) -> Device:
    return next(device for _, device in find_device(p.image))


def command(line: str) -> Result:
    return CliRunner().invoke(main, shlex.split(line), catch_exceptions=False)
