# SPDX-License-Identifier: BSD-2-Clause
"""LeNet by byte planes: built, and replayed by firmware that was generated for them; other firmware refuses it."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.runners import firmware
from signing.keys import private_pem
from tests.support import networks
from tests.support.bare_metal import COMPILER, require
from tests.support.signing_samples import ES256
from trace_format import layout
from trace_format.schema import Codec

HELP = "a replayer whose device file has 'codecs = [\"planes\"]' decodes all sections"


def run(line: str) -> Result:
    return CliRunner().invoke(main, shlex.split(line), catch_exceptions=False)


def done(line: str) -> Result:
    """A command that must succeed."""
    result = run(line)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LeNet, built for the start and for the size, signed."""
    folder = tmp_path_factory.mktemp("planes")
    (folder / "pub.pem").write_bytes(ES256.public.pem())
    (folder / "key.pem").write_bytes(private_pem(ES256.key))
    np.save(folder / "data.npy", networks.picture(networks.LENET))
    for name in ("start", "size"):
        done(f"build {RAW} -o {folder}/{name}.gtr --optimise {name}")
        done(f"sign {folder}/{name}.gtr --signing-key {folder}/key.pem -o {folder}/{name}.sgtr")
    return folder


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Path) -> None:
    """A working folder with all of that."""
    shutil.copytree(work, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def test_the_trace_is_smaller_and_says_what_it_needs() -> None:
    """By a tenth at least; start is what is built without the option."""
    start, size = Path("start.gtr").read_bytes(), Path("size.gtr").read_bytes()
    assert len(size) < 0.9 * len(start)
    default = json.loads(done(f"build {RAW} -o default.gtr --json").stdout)
    assert default["codecs"] == []
    assert Path("default.gtr").read_bytes() == start
    found = done(f"build {RAW} -o again.gtr --optimise size")
    assert "a device must decode its sections: 'codecs = [\"planes\"]' in its device file" in found.stdout
    assert Path("again.gtr").read_bytes() == size
    assert layout.disassemble(size)[1].linked_codecs == [Codec.PLANES]
    for file in ("size.gtr", "size.sgtr"):
        assert json.loads(done(f"inspect {file} --json").stdout)["figures"]["codecs"] == ["planes"]
    assert "codecs" not in json.loads(done("inspect start.sgtr --json").stdout)["figures"]
    assert "the same" in done("diff start.gtr size.gtr").output


@pytest.mark.parametrize("runner", ["vgpu", "unicorn"])
def test_it_computes_the_same(runner: str) -> None:
    if runner == "unicorn":
        require(COMPILER, "gcc-aarch64-linux-gnu")
    for name in ("start", "size"):
        done(f"replay {name}.sgtr --key pub.pem --input data=data.npy -o prob={name}.npy --on {runner}")
    assert Path("start.npy").read_bytes() == Path("size.npy").read_bytes()


def test_firmware_without_the_codec_refuses() -> None:
    """And the message says what it lacks."""
    require(COMPILER, "gcc-aarch64-linux-gnu")
    plain = firmware.build(ES256.public)
    result = run(f"replay size.sgtr --key pub.pem --input data=data.npy --on unicorn --firmware {plain.folder}")
    assert result.exit_code == 1
    assert HELP in result.output


def make_with_codec() -> None:
    """Firmware in the folder out."""
    require(COMPILER, "gcc-aarch64-linux-gnu")
    done("generate --gpu v3d42 --platform qemu-virt --key pub.pem --codec planes -o out")
    assert " *   codecs            planes\n" in Path("out/replayer.c").read_text(encoding="utf-8")
    firmware.compile_firmware(Path("out"))


def test_firmware_that_is_generated_with_the_codec() -> None:
    """It takes both traces."""
    make_with_codec()
    for name in ("start", "size"):
        done(f"replay {name}.sgtr --key pub.pem --input data=data.npy --on unicorn --firmware out")


@pytest.mark.exhaustive  # without a codec tests/emulated/test_audit_firmware.py repeats a build
def test_a_rebuild_is_told_of_the_codec() -> None:
    """By the record beside it: then it has the same bytes, and other bytes if not."""
    make_with_codec()
    audit = "audit-firmware out/firmware.elf --key pub.pem --rebuild --json"
    assert json.loads(done(audit).stdout)["firmware"][0]["findings"] == []
    record = Path("out/device.toml")
    record.write_text(record.read_text().replace('codecs = ["planes"]\n', ""))
    (finding,) = json.loads(run(audit).stdout)["firmware"][0]["findings"]
    assert finding["rule"] == "GF801"
