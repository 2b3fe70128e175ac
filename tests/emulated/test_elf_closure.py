# SPDX-License-Identifier: BSD-2-Clause
"""What aarch64 programs and kernel modules need, from files made by the cross compiler."""

import lzma
import shutil
import subprocess
from pathlib import Path

import pytest

from host_tools.machine.elf import closure
from host_tools.machine.errors import RecordError
from host_tools.machine.kernel_modules import depends, load_order

CC = "aarch64-linux-gnu-gcc"
LIB = "usr/lib/aarch64-linux-gnu"
LINKER = "lib/ld-linux-aarch64.so.1"


@pytest.fixture(autouse=True, scope="module")
def compiler() -> None:
    if shutil.which(CC) is None:
        pytest.skip(f"{CC} is missing: apt-get install gcc-aarch64-linux-gnu")


def compile_c(output: Path, source: str, *flags: str) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [CC, "-x", "c", "-", "-x", "none", "-o", str(output), "-nostdlib", "-Wl,--no-as-needed", *flags]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A program that needs libb, which needs libc1 next to itself by a run path; the linker lies in usr/lib."""
    root = tmp_path / "root"
    compile_c(root / f"{LIB}/private/libc1.so", "int c;", "-shared", "-Wl,-soname,libc1.so")
    compile_c(
        root / f"{LIB}/libb.so",
        "int b;",
        "-shared",
        str(root / f"{LIB}/private/libc1.so"),
        "-Wl,-soname,libb.so",
        "-Wl,-rpath,$ORIGIN/private/../private",
    )
    compile_c(
        root / "usr/bin/program",
        "void _start(void) {}",
        str(root / f"{LIB}/libb.so"),
        "-pie",
        f"-Wl,--dynamic-linker=/{LINKER}",
        "-Wl,--allow-shlib-undefined",
    )
    shutil.copy(root / f"{LIB}/private/libc1.so", root / f"usr/{LINKER}")
    return root


def test_closure_follows_interpreter_libraries_and_run_paths(tree: Path) -> None:
    found = closure(tree, ["usr/bin/program"])
    assert list(found) == ["usr/bin/program", f"{LIB}/libb.so", f"{LIB}/private/libc1.so", f"usr/{LINKER}"]
    assert all(host == tree / path for path, host in found.items())


def test_given_files_stand_in_for_those_of_the_tree(tree: Path, tmp_path: Path) -> None:
    moved = tmp_path / "libb.so"
    (tree / f"{LIB}/libb.so").rename(moved)
    extra = {"work/program": tree / "usr/bin/program", f"{LIB}/libb.so": moved}
    assert closure(tree, ["work/program"], extra)[f"{LIB}/libb.so"] == moved


def test_what_is_missing_is_named_with_who_needs_it(tree: Path) -> None:
    (tree / f"{LIB}/libb.so").unlink()
    with pytest.raises(
        RecordError, match=r"usr/bin/program needs libb\.so, which is neither in the guest root nor"
    ):
        closure(tree, ["usr/bin/program"])
    with pytest.raises(RecordError, match="nowhere: file is missing"):
        closure(tree, ["usr/bin/nowhere"])


def test_a_link_out_of_the_tree_is_refused(tree: Path) -> None:
    """An absolute link in a package would lead to the host's own file of that name."""
    (tree / f"{LIB}/libb.so").unlink()
    (tree / f"{LIB}/libb.so").symlink_to("/etc/hostname")
    with pytest.raises(RecordError, match="outside the guest root"):
        closure(tree, ["usr/bin/program"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected an ELF program"),
        (b"#!/bin/sh\n", "expected an ELF program"),
        (b"\x7fELF", "expected an ELF"),
    ],
    ids=["empty", "script", "cut short"],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "program").write_bytes(content)
    with pytest.raises(RecordError, match=message):
        closure(tmp_path, ["program"])


def test_programs_of_other_machines_are_refused(tmp_path: Path) -> None:
    shutil.copy(shutil.which("true") or "/bin/true", tmp_path / "program")
    found = (tmp_path / "program").read_bytes()[18:20]
    if found == b"\xb7\0":
        pytest.skip("this machine is aarch64 itself")
    with pytest.raises(RecordError, match="expected a program for aarch64, found EM_"):
        closure(tmp_path, ["program"])


def module(folder: Path, name: str, needs: str) -> bytes:
    """An object file with the `.modinfo` of a kernel module."""
    text = f"license=GPL\\0depends={needs}\\0name={name}"
    source = f'__attribute__((section(".modinfo"), used)) static const char info[] = "{text}";'
    compile_c(folder / name, source, "-c")
    return (folder / name).read_bytes()


def test_modules_are_loaded_after_what_they_need(tmp_path: Path) -> None:
    built = {
        name: module(tmp_path, name, needs)
        for name, needs in {
            "gpu": "helper,gpu-sched",
            "helper": "drm",
            "gpu_sched": "drm,fixed",
            "drm": "",
        }.items()
    }
    modules = tmp_path / "modules"
    (modules / "kernel").mkdir(parents=True)
    (modules / "modules.builtin").write_text("kernel/drivers/fixed.ko\n")
    (modules / "kernel/gpu.ko").write_bytes(built["gpu"])
    (modules / "kernel/helper.ko.xz").write_bytes(lzma.compress(built["helper"]))
    (modules / "kernel/gpu-sched.ko.xz").write_bytes(lzma.compress(built["gpu_sched"]))
    (modules / "kernel/drm.ko").write_bytes(built["drm"])
    assert depends(built["gpu"]) == ["helper", "gpu_sched"]
    assert load_order(modules, ["gpu"]) == {name: built[name] for name in ("drm", "helper", "gpu_sched", "gpu")}
    assert list(load_order(modules, ["gpu"])) == ["drm", "helper", "gpu_sched", "gpu"]
    (modules / "kernel/drm.ko").unlink()
    with pytest.raises(RecordError, match="kernel module drm is neither a file nor built in"):
        load_order(modules, ["gpu"])
