# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone flash`: a card's block map is written beside its image, and looked at by --check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.flash import bmap
from tests.support.image_samples import Packed


def flash(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["flash", *map(str, args)])


def test_a_card_has_one(images: Callable[[str], Packed], tmp_path: Path) -> None:
    packed, card = images("rpi4"), tmp_path / "card.img"
    bmap.beside(card).write_text("of an older image")
    done = flash(packed.folder, "-o", card, "--trace", packed.folder.parent / "net.sgtr")
    assert done.exit_code == 0, done.stderr
    assert f"block map        {card}.bmap\n" in done.stdout
    assert bmap.beside(card).read_bytes() == bmap.encode(card.read_bytes())
    done = flash("--check", card)
    assert done.exit_code == 0
    assert f"block map        {card}.bmap, of this image\n" in done.stdout
    bmap.beside(card).write_bytes(bmap.encode(card.read_bytes()).replace(b"> 0-", b"> 9-"))
    done = flash("--check", card)
    assert done.exit_code == 1
    assert "card.img.bmap at 0x" in done.stdout
    bmap.beside(card).unlink()
    assert flash("--check", card).exit_code == 0


def test_other_images_have_none(images: Callable[[str], Packed], tmp_path: Path) -> None:
    packed = images("qemu-virt")
    assert flash(packed.folder, "-o", tmp_path / "flash.img").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["flash.img"]
