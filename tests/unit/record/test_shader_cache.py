# SPDX-License-Identifier: BSD-2-Clause
"""When the shader cache is made again, when it is taken, and what in it is refused."""

import io
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from host_tools.machine import boot as machine
from host_tools.machine.boot import GuestJob
from host_tools.machine.console import GuestResult
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot
from host_tools.record import shader_cache
from host_tools.support.cache import cache_dir

JOB = GuestJob("run", {"job/input": b"\1\2"})
WARMING = GuestJob("run", {"job/input": b"\0\0"})


@pytest.fixture
def root(tmp_path: Path) -> RecordRoot:
    return RecordRoot(tmp_path, tmp_path / "vmlinuz", tmp_path / "tree", tmp_path / "base.cpio", {}, "key")


@pytest.fixture
def boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[GuestJob]:
    """Jobs that were booted; the machine is replaced by one that leaves a cache of one file."""
    done: list[GuestJob] = []

    def boot(job: GuestJob, *args: object, **options: object) -> GuestResult:
        done.append(job)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            member = tarfile.TarInfo("./part0/shaders.db")
            member.size = 3
            tar.addfile(member, io.BytesIO(b"abc"))
        return GuestResult("", {shader_cache.ARCHIVE: archive.getvalue()}, "", 1.0, {"jobs": 3})

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(shader_cache, "boot", boot)
    monkeypatch.setattr(machine, "qemu_version", lambda: "7.2")
    return done


def test_made_once_and_laid_beside_the_jobs_own_files(root: RecordRoot, boots: list[GuestJob]) -> None:
    first = shader_cache.with_shader_cache(JOB, WARMING, root, Path("plugin"))
    assert first.files == {"job/input": b"\1\2", "cache/part0/shaders.db": b"abc"}
    assert shader_cache.with_shader_cache(JOB, WARMING, root, Path("plugin")) == first
    assert [job.files for job in boots] == [WARMING.files]
    assert first.expected_jobs == 3


def test_a_number_of_jobs_that_was_not_kept_is_not_known(root: RecordRoot, boots: list[GuestJob]) -> None:
    """Caches made before it was kept have none."""
    shader_cache.with_shader_cache(JOB, WARMING, root, Path("plugin"))
    [kept] = cache_dir("record", "shaders").glob("*.jobs")
    for damage in (lambda: kept.write_text("many"), kept.unlink):
        damage()
        assert shader_cache.with_shader_cache(JOB, WARMING, root, Path("plugin")).expected_jobs == 0
    assert len(boots) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda job, root: (replace(job, command="other"), root),
        lambda job, root: (replace(job, files={"job/input": b"\0\0\0"}), root),
        lambda job, root: (replace(job, files={"job/inpu": b"t\0\0"}), root),
        lambda job, root: (replace(job, gpu="mali_g71"), root),
        lambda job, root: (replace(job, gpu="v3d71"), root),
        lambda job, root: (job, replace(root, key="other packages")),
    ],
    ids=["command", "content", "name", "gpu", "gpu-of-the-same-driver", "packages"],
)
def test_made_anew_when_anything_differs(
    root: RecordRoot,
    boots: list[GuestJob],
    change: Callable[[GuestJob, RecordRoot], tuple[GuestJob, RecordRoot]],
) -> None:
    shader_cache.with_shader_cache(JOB, WARMING, root, Path("plugin"))
    warming, root = change(WARMING, root)
    shader_cache.with_shader_cache(JOB, warming, root, Path("plugin"))
    assert len(boots) == 2


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b"junk" * 9, lambda b: b[: len(b) // 2]])
def test_a_damaged_cache_is_named(
    root: RecordRoot, boots: list[GuestJob], damage: Callable[[bytes], bytes]
) -> None:
    shader_cache.with_shader_cache(JOB, WARMING, root, Path("plugin"))
    [kept] = cache_dir("record", "shaders").glob("*.tar.gz")
    kept.write_bytes(damage(kept.read_bytes()))
    with pytest.raises(RecordError, match="expected a shader cache"):
        shader_cache.with_shader_cache(JOB, WARMING, root, Path("plugin"))
