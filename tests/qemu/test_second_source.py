# SPDX-License-Identifier: BSD-2-Clause
"""A second source for what the virtual GPUs compute: the same shader on lavapipe, Mesa's driver for the CPU.

Both run in the recording guest. From SPIR-V on they share Mesa's front half; code generation, encoding and
arithmetic are LLVM's and the CPU's on one side, the GPU's compiler and our interpreter on the other. What lavapipe
computes is kept in the user's cache: LLVM takes most of the time.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from host_tools.machine.apt import AptRoot
from host_tools.machine.boot import GuestJob, boot, run_digest
from host_tools.machine.elf import closure
from host_tools.machine.initramfs import LIBRARIES
from host_tools.machine.more_packages import NEEDED_HERE, with_packages
from host_tools.machine.root import ARCHITECTURE, SUITE, UNUSED, RecordRoot
from host_tools.record.program import FOLDER, RESULT, GuestProgram, program_job
from host_tools.support.cache import cache_dir, made_once
from host_tools.vgpu.build import qemu_plugin
from tests.support.guest_programs import VADD, compile_vadd

Words = npt.NDArray[np.uint32]
OPERATIONS = {
    shader: re.findall(r"^    put\((.*)\);$", (VADD / f"{shader}.comp").read_text(encoding="utf-8"), re.MULTILINE)
    for shader in ("operations", "storage")
}
ITEMS, ARGUMENTS = 1024, 3
LAVAPIPE = "libvulkan_lvp.so"
DESCRIPTION = f"{FOLDER}/lavapipe.json"
# Operations that Vulkan lets drivers approximate, or compute in steps: the largest difference, relative to the
# result, or to 1 where results near zero come of larger numbers.
CLOSE = {
    "1.0 / a": (2.5e-7, 0),
    "a / b": (4e-7, 0),
    "sqrt(abs(a))": (4e-7, 0),
    "inversesqrt(abs(a))": (4e-7, 0),
    "exp2(clamp(a, -20.0, 20.0))": (4e-7, 0),
    "exp(clamp(a, -20.0, 20.0))": (2e-6, 0),
    "log2(abs(a))": (4e-7, 1),
    "log(abs(a))": (4e-7, 1),
    "tanh(clamp(a, -8.0, 8.0))": (4e-7, 1),
    "pow(abs(b) + 0.5, clamp(c, -2.0, 2.0))": (1e-5, 0),
    "sin(clamp(a, -8.0, 8.0))": (4e-5, 1),
    "cos(clamp(a, -8.0, 8.0))": (4e-5, 1),
}
CLOSE |= dict.fromkeys(
    (f"unpack{kind}(u).{part}" for kind in ("Unorm4x8", "Snorm4x8", "Unorm2x16", "Snorm2x16") for part in "xyw"),
    (2.5e-7, 0),
)
# Mesa ends its series of a logarithm after the square here (Mesa 25.0, bi_lower_flog2_32 of bifrost_compile.c).
SHORT_SERIES = {
    "log2(abs(a))": (3e-5, 1),
    "log(abs(a))": (3e-5, 1),
    "pow(abs(b) + 0.5, clamp(c, -2.0, 2.0))": (5e-5, 0),
}


def arguments() -> Words:
    """uint32 (3, ITEMS): floats of like and of unlike size, halves, small integers, some of them equal."""
    generator = np.random.default_rng(5)
    quarter = (ARGUMENTS, ITEMS // 4)
    like = generator.standard_normal(quarter).astype(np.float32)
    unlike = (like * np.exp2(generator.integers(-20, 21, quarter))).astype(np.float32)
    halves = (generator.integers(-40, 41, quarter) / 2).astype(np.float32)
    integers = generator.integers(-300, 301, quarter).astype(np.int32)
    found = np.concatenate([part.view(np.uint32) for part in (like, unlike, halves, integers)], axis=1)
    found[1, ::7] = found[0, ::7]
    return found


def run(root: RecordRoot, program: Path, folder: Path, gpu: str, lavapipe: bool, shader: str) -> dict[str, Words]:
    """What the shader gives: operation -> uint32 (ITEMS,)."""
    job = job_of(root, program, folder, gpu, lavapipe, shader)
    found = np.frombuffer(by_lavapipe(job, root) if lavapipe else words_of(job, root), np.uint32)
    rows = found.reshape(-1, ITEMS)[ARGUMENTS:]
    return {
        f"{number} {name}": row for number, (name, row) in enumerate(zip(OPERATIONS[shader], rows, strict=True))
    }


def words_of(job: GuestJob, root: RecordRoot) -> bytes:
    """What a run leaves."""
    result = boot(job, root, qemu_plugin())
    assert ("llvmpipe" in result.output) == (not job.uses_gpu)
    return result.files[f"{RESULT}0"]


def by_lavapipe(job: GuestJob, root: RecordRoot) -> bytes:
    """The same of a run without GPU, which depends on the job and the machine alone: kept."""

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / RESULT).write_bytes(words_of(job, root))

    return (made_once(cache_dir("tests", "lavapipe") / run_digest(job, root)[:32], make) / RESULT).read_bytes()


def job_of(root: RecordRoot, program: Path, folder: Path, gpu: str, lavapipe: bool, shader: str) -> GuestJob:
    """The job that runs the shader."""
    words = (ARGUMENTS + len(OPERATIONS[shader])) * ITEMS
    (folder / "input").write_bytes(arguments().tobytes())
    args = [str(VADD / f"{shader}.spv"), str(folder / "input"), str(ITEMS), str(words), "output"]
    driver = {"VK_ICD_FILENAMES": f"/{DESCRIPTION}"} if lavapipe else {}
    job = program_job(root, GuestProgram(program, args, environment=driver, results={"words": "output"}), gpu)
    if lavapipe:
        job = replace(job, files={**job.files, **cpu_driver(root, folder)}, uses_gpu=False)
    return job


def cpu_driver(root: RecordRoot, folder: Path) -> dict[str, bytes]:
    """Guest path -> content of lavapipe and what it needs."""
    apt = AptRoot(SUITE, ARCHITECTURE, "record", assume=UNUSED, stamp=root.snapshot)
    apt.download(["mesa-vulkan-drivers"])
    apt.extract(folder, keep=lambda path: path.endswith(LAVAPIPE))
    library = f"{LIBRARIES}/{LAVAPIPE}"
    needed = closure(root.tree, [library], {library: folder / library})
    description = {"file_format_version": "1.0.0", "ICD": {"library_path": f"/{library}", "api_version": "1.4.0"}}
    return {path: host.read_bytes() for path, host in needed.items()} | {
        DESCRIPTION: json.dumps(description).encode()
    }


@pytest.fixture(scope="module")
def program(root: RecordRoot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_vadd(root, tmp_path_factory.mktemp("operations"), "operations")


@pytest.fixture(scope="module")
def expected(
    root: RecordRoot, program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, Words]]:
    @functools.cache
    def of(shader: str) -> dict[str, Words]:
        folder = tmp_path_factory.mktemp(f"lavapipe-{shader}")
        return run(with_packages(root, NEEDED_HERE), program, folder, "v3d42", True, shader)

    return of


# A V3D's arithmetic is compared with NumPy's by tests/vgpu/test_qpu_alu.py.
ALWAYS = {("operations", "mali_g52r1")}


@pytest.mark.parametrize(
    ("shader", "gpu"),
    [
        pytest.param(shader, gpu, marks=() if (shader, gpu) in ALWAYS else pytest.mark.exhaustive)
        for shader in OPERATIONS
        for gpu in ("mali_g71", "mali_g72", "mali_g52r1", "mali_g31", "v3d42")
    ],
)
def test_what_lavapipe_computes(
    shader: str,
    gpu: str,
    root: RecordRoot,
    program: Path,
    expected: Callable[[str], dict[str, Words]],
    tmp_path: Path,
) -> None:
    found, right = run(root, program, tmp_path, gpu, False, shader), expected(shader)
    assert found.keys() == right.keys()
    floats = arguments().view(np.float32).astype(np.float64)
    # GPUs may treat NaN and what is smaller than normal numbers as they like.
    usual = ((np.abs(floats) >= np.finfo(np.float32).tiny) | (floats == 0)).all(axis=0)
    assert usual.sum() > ITEMS * 0.6
    close = CLOSE | SHORT_SERIES if gpu == "mali_g71" else CLOSE
    for name, wanted in right.items():
        operation = name.partition(" ")[2]
        which = usual if re.search(r"\b[abc]\b", operation) else np.full(ITEMS, True)
        if operation in close:
            one, other = (words[which].view(np.float32).astype(np.float64) for words in (found[name], wanted))
            relative, of_one = close[operation]
            np.testing.assert_allclose(one, other, rtol=relative, atol=relative * of_one, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name][which], wanted[which], err_msg=name)
