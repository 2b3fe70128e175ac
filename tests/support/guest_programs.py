# SPDX-License-Identifier: BSD-2-Clause
"""Programs for the recording guest, and `gramophone record run` over them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.machine.apt import AptRoot
from host_tools.machine.initramfs import LIBRARIES
from host_tools.machine.root import ARCHITECTURE, SUITE, UNUSED, RecordRoot
from tests.support.bare_metal import COMPILER, require

VADD = Path(__file__).parents[1] / "qemu" / "vadd"
SHADER = VADD / "vadd.spv"
CFLAGS = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wconversion"]


def cross_compile(source: Path, output: Path, *options: object) -> None:
    """Compile for the guest, whose processor is an Arm."""
    require(COMPILER, "gcc-aarch64-linux-gnu")
    subprocess.run([COMPILER, *CFLAGS, source, "-o", output, *map(str, options)], check=True)


def compile_vadd(root: RecordRoot, folder: Path, name: str = "vadd") -> Path:
    """The vector addition, or a program beside it, compiled with the guest's own Vulkan headers and loader."""
    apt = AptRoot(SUITE, ARCHITECTURE, "record", assume=UNUSED)
    apt.download(["libvulkan-dev"])
    apt.extract(folder, keep=lambda path: path.startswith(("usr/include/vulkan/", "usr/include/vk_video/")))
    loader = root.tree / LIBRARIES / "libvulkan.so.1"
    include = f"-I{folder / 'usr/include'}"
    cross_compile(VADD / f"{name}.c", folder / name, include, loader, "-Wl,--allow-shlib-undefined")
    return folder / name


def record(*words: object, status: int = 0) -> Result:
    """`gramophone record run` with these arguments, which must end with the exit status."""
    result = CliRunner().invoke(main, ["record", "run", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result


def refused(tmp_path: Path, *words: object) -> str:
    """The one sentence of a recording that fails and leaves no file."""
    before = sorted(tmp_path.iterdir())
    result = record("-o", tmp_path / "out.gtr", *words, status=2)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before
    return result.stderr.removeprefix("error: ").strip()
