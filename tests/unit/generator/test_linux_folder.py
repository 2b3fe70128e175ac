# SPDX-License-Identifier: BSD-2-Clause
"""What `generate --platform linux` writes and refuses; and the guest's device tree that the overlay makes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.publish.sbom import firmware as sbom
from host_tools.machine.devicetree import Tree, with_overlay
from host_tools.machine.errors import RecordError
from host_tools.runners import user_space
from host_tools.runners.replay import RunnerError
from tee_replayer.generator import linux_folder
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import GenerateError, Options
from tee_replayer.generator.platforms import platform_of
from tests.support import crypto_trees, device_files
from tests.support.bare_metal import require
from tests.support.replayer_samples import KEY
from trace_format import profile as profiles
from trace_format.errors import ProfileError
from trace_format.operators import Operator

SYMBOLS = ("CARVEOUT_HIGH=0", "CARVEOUT_LOW=0xb0000000", "UNIT=b0000000", "MIB=16")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return generate(Options("v3d42", platform_of("linux"), KEY, crypto_trees.empty(tmp_path)), tmp_path / "out")


def test_the_folder_is_complete(folder: Path) -> None:
    """Every file of tee_replayer/linux, none with a mark left in it; the profile's blocks but those of boards."""
    for source in linux_folder.HERE.iterdir():
        if source.is_file():
            assert re.search(r"@[A-Z]+@", (folder / source.name).read_text(encoding="utf-8")) is None
    target = (folder / "linux_target.h").read_text(encoding="utf-8")
    blocks = profiles.load("v3d42").blocks
    for name, block in blocks.items():
        row = f'{{"{name}", {block.base:#06x}u, {block.bytes:#06x}u}}'
        assert (row in target) == (not block.board)
    assert f'=="{next(iter(blocks))}"' in (folder / "70-gramophone.rules").read_text(encoding="utf-8")
    assert "linux" in sbom.bill(folder).subject.name


def test_what_make_writes_is_replaced(folder: Path, tmp_path: Path) -> None:
    for name in ("gramophone-gpu", "libgramophone_gpu.so", "libgramophone_gpu.a", "carveout.dtbo", "uio.o"):
        (folder / name).write_bytes(b"built")
    generate(Options("v3d42", platform_of("linux"), KEY, crypto_trees.empty(tmp_path)), folder)
    assert not (folder / "uio.o").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"carveout_bytes": 4096}, "the device tree says how large the carve-out is"),
        ({"any_client": True}, "who may use the GPU, the kernel says"),
        ({"share_gpu": True}, "'gramophone-gpu give-back' gives the GPU back"),
        ({"policy": Path("x")}, "it takes no client policy"),
        ({"operators": tuple(Operator)[:1]}, "its replayer has no operators on the CPU"),
        ({"evidence": Evidence(True, False, False)}, "a process has nowhere to keep a secret"),
    ],
)
def test_what_a_process_has_no_use_for(option: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(GenerateError, match=f"^platform linux: {message}"):
        generate(
            Options("v3d42", platform_of("linux"), KEY, crypto_trees.empty(tmp_path), **option),  # type: ignore[arg-type]
            tmp_path / "out",
        )
    assert not (tmp_path / "out").exists()


def test_a_gpu_with_several_interrupts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ProfileError, match=r"^mali_g71 has 3 interrupts \(job, mmu, gpu\), and the kernel's UIO driver"
    ):
        generate(Options("mali_g71", platform_of("linux"), KEY, crypto_trees.empty(tmp_path)), tmp_path / "out")


def test_the_command_says_whom_one_trusts(tmp_path: Path) -> None:
    (tmp_path / "pub.pem").write_bytes(KEY.pem())
    trees = crypto_trees.empty(tmp_path)
    line = [
        "generate",
        str(device_files.written(tmp_path, trees, platform="linux")),
        "-o",
        f"{tmp_path}/out",
        "--json",
    ]
    done = CliRunner().invoke(main, line, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["platform"] == "linux"
    assert "gramophone_gpu.c" in answer["files"]
    assert answer["warnings"] == [
        "the kernel and its root see all that is replayed and can change it: docs/LINUX.md"
    ]


@pytest.mark.parametrize("cells", [1, 2])
def test_the_overlay_reserves_what_it_shows(cells: int, tmp_path: Path) -> None:
    for program, package in (("dtc", "device-tree-compiler"), ("cc", "gcc")):
        require(program, package)
    source = linux_folder.HERE / "carveout.dtso"
    symbols = [f"-D{symbol}" for symbol in (*SYMBOLS, f"SIZE_CELLS={cells}")]
    text = subprocess.run(
        ["cc", "-E", "-P", "-x", "assembler-with-cpp", *symbols, str(source)], check=True, capture_output=True
    ).stdout
    dtc = ["dtc", "-q", "-@", "-O", "dtb"]
    overlay = subprocess.run([*dtc, "-I", "dts"], input=text, check=True, capture_output=True).stdout
    board = f"/dts-v1/; / {{ #address-cells = <2>; #size-cells = <{cells}>; x {{ }}; }};".encode()
    base = subprocess.run([*dtc, "-I", "dts"], input=board, check=True, capture_output=True).stdout
    tree = tmp_path / "tree"
    tree.write_bytes(with_overlay(base, overlay))

    def cells_of(path: str) -> list[int]:
        said = subprocess.run(
            ["fdtget", "-t", "x", str(tree), path, "reg"], check=True, capture_output=True, text=True
        )
        return [int(cell, 16) for cell in said.stdout.split()]

    expected = [0, 0xB0000000, *[0] * (cells - 1), 16 << 20]
    assert cells_of("/reserved-memory/gramophone@b0000000") == expected
    assert cells_of("/gramophone-carveout@b0000000") == expected
    subprocess.run(
        ["fdtget", str(tree), "/reserved-memory/gramophone@b0000000", "no-map"], check=True, capture_output=True
    )
    Tree(tree.read_bytes()).new_phandle()  # it is a device tree


def test_an_overlay_that_is_none() -> None:
    if shutil.which("fdtoverlay") is None:
        pytest.skip("apt-get install device-tree-compiler")
    with pytest.raises(RecordError, match="fdtoverlay cannot edit the guest's device tree"):
        with_overlay(b"x", b"y")


def test_a_folder_of_another_platform_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="expected a folder of 'gramophone generate' for linux"):
        user_space.job_with(None, tmp_path, "", {}, "v3d42")  # type: ignore[arg-type]
