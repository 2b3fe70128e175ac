# SPDX-License-Identifier: BSD-2-Clause
"""A farm gives what one process gives, whatever becomes of its workers and its store: with tasks of GNU make."""

from __future__ import annotations

import os
import re
import socket
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.project.tasks.farm import dask_scheduler
from host_tools.extras.project.tasks.farm.schedulers import Scheduler, SchedulerError, scheduler
from host_tools.extras.project.tasks.farm.shared import Artefact, Shared, SharedError
from host_tools.extras.project.tasks.graph import State
from host_tools.extras.project.tasks.task import Task
from host_tools.support.unchanged import EPOCH, content_hash, tool_stamp
from tests.support.farm import RULES, WAIT_S, Project, project_file


@pytest.fixture(scope="module")
def workers() -> Iterator[Scheduler]:
    with scheduler("local:2", WAIT_S) as found:
        assert found.slots == 2
        yield found


@pytest.fixture
def project(tmp_path: Path, workers: Scheduler) -> Project:
    return Project(tmp_path, workers)


@pytest.mark.parametrize("epoch", ["", "12345"])
def test_a_farm_makes_the_same_bytes_as_one_process(
    project: Project, epoch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EPOCH, epoch)
    expected = project.here(project.tasks())
    done, found = project.farm(project.tasks())
    assert [row.state for row in done] == [State.MADE] * 3
    assert found == expected
    assert any(name.endswith("folder/tool True") or name.endswith("tool True") for name in found)
    again, _ = project.farm(project.tasks())
    assert [row.state for row in again] == [State.UP_TO_DATE] * 3


def test_what_is_in_the_store_is_not_made_again(project: Project) -> None:
    _, expected = project.farm(project.tasks())
    project.workers = Scheduler("", None, 1, lambda: 0, "")  # type: ignore[arg-type] # nobody is asked
    _, found = project.farm(project.tasks(), "another")
    assert found == expected


def test_an_input_may_lie_in_folders(project: Project) -> None:
    files = {"Makefile": project.rules, "deep/er/text": project.text}
    (done,), found = project.farm([Task("nested", ("make", "nested"), files, output="nested")])
    assert done.state == State.MADE, done.why
    assert b"abc" in found.values()


def archive(path: Path, name: str) -> None:
    """A whole archive of other content, or of a file elsewhere."""
    with tarfile.open(path, "w") as packed:
        packed.addfile(tarfile.TarInfo(name))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"other"),
        lambda path: path.unlink(),
        lambda path: archive(path, "folder/../../outside"),
        lambda path: archive(path, "deep/copy"),
        lambda path: path.write_bytes(b"\x1f\x8b\x08\x00 no gzip"),
        lambda path: path.write_text('{"status": 0, "data": {}, "output": ["../../text", false]}'),
    ],
    ids=["half", "empty", "other", "gone", "outside", "content", "packed", "path"],
)
def test_half_written_and_damaged_artefacts_are_made_again(
    project: Project, damage: Callable[[Path], object]
) -> None:
    _, expected = project.farm(project.tasks())
    shared = project.folder / "shared"
    for number, what in enumerate(("objects", "results")):
        for path in shared.glob(f"{what}/*"):
            damage(path)
        done, found = project.farm(project.tasks(), f"another-{number}")
        assert [row.state for row in done] == [State.MADE] * 3, [row.why for row in done]
        assert found == expected
        for path in shared.glob("objects/*"):
            artefact = Artefact(path.name.partition(".")[0], path.suffix == ".tar")
            assert project.shared.get(artefact, project.folder / f"whole-{number}-{path.name}")
    assert not list(shared.glob("*/*.*.*")), "nothing half written is left"
    assert not list(project.folder.rglob("outside"))


def test_private_keys_stay(project: Project) -> None:
    key = project.folder / "key"
    key.write_text("private")
    files = {"Makefile": project.rules, "key": key}
    tasks = [Task("secret", ("make", "secret"), files, output="secret", here=True)]
    done, _ = project.farm(tasks)
    assert done[0].state == State.MADE
    assert not list((project.folder / "shared").glob("*/*"))


def test_workers_must_be_as_this_computer(project: Project) -> None:
    project.tool = "another"
    done, _ = project.farm(project.tasks())
    assert done[0].why.startswith("a worker has another gramophone, or other packages: expected another, found ")
    project.tool = tool_stamp()
    here = os.getpid()
    asked: Callable[[bool], str] = lambda prepare: "here" if os.getpid() == here else "there"  # noqa: E731
    task = Task("stamped", ("make", "upper"), {"Makefile": project.rules, "text": project.text}, output="upper")
    done, _ = project.farm([Task(**{**vars(task), "stamp": asked})])
    assert done[0].state == State.MADE
    assert done[0].ingredients
    assert "there" in done[0].ingredients.values(), "the stamp is that of who does it"
    differs: Callable[[bool], str] = lambda prepare: str(os.urandom(8))  # noqa: E731
    done, _ = project.farm([Task(**{**vars(task), "stamp": differs})])
    assert done[0].why.startswith("workers differ: expected ")


def test_errors_are_those_of_one_process(project: Project) -> None:
    project.rules.write_text(RULES.replace("tr a-z A-Z <text", "false"))
    done, _ = project.farm(project.tasks())
    assert re.match(r"ended with status 2: .*Error 1", done[0].why)
    assert [row.state for row in done] == [State.FAILED, State.LEFT, State.LEFT]
    project.rules.write_text(RULES.replace(">upper", ">other"))
    done, _ = project.farm(project.tasks())
    assert done[0].why == "wrote no upper: status 0"


def test_a_file_that_changes_meanwhile_is_no_ingredient(project: Project) -> None:
    class Changing(Shared):
        def put(self, path: Path, artefact: Artefact, work: Path) -> None:
            if path == project.text:
                path.write_text("later")
            super().put(path, artefact, work)

    project.shared = Changing(project.shared.url)
    done, _ = project.farm(project.tasks())
    assert done[0].state == State.FAILED
    assert "text: other than was written, 4 times; or an input is changing" in done[0].why


@pytest.mark.parametrize("address", ["", "farm", "ftp://farm", "local", "local:0", "local:x", "tcp:", "tcp://a:b"])
def test_wrong_addresses(address: str) -> None:
    with (
        pytest.raises(SchedulerError, match=re.escape(repr(address)) if address[:3] != "tcp" else address),
        scheduler(address, 1),
    ):
        pass


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_scheduler, "ANSWER_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        for _ in ("deaf", "closed"):
            with (
                pytest.raises(
                    SchedulerError, match=rf"tcp://127.0.0.1:{port}: no Dask scheduler answers within 1 s"
                ),
                scheduler(f"tcp://127.0.0.1:{port}", 1),
            ):
                pass
            deaf.close()


def test_stores_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for url in ("nothing://there", (tmp_path / "file").as_uri(), "gs:///x", "az://container/x"):
        with pytest.raises(SharedError, match=re.escape(url)):
            Shared(url).probe()


def test_a_store_in_memory(tmp_path: Path) -> None:
    """Another file system of fsspec, which renames nothing."""
    shared = Shared("memory://farm")
    folder = tmp_path / "folder"
    (folder / "empty").mkdir(parents=True)
    (folder / "run").write_text("x")
    (folder / "run").chmod(0o755)
    for path in (folder, folder / "run"):
        artefact = Artefact(content_hash(path), path.is_dir())
        assert not shared.get(artefact, tmp_path / "none")
        shared.put(path, artefact, tmp_path)
        assert shared.get(artefact, tmp_path / f"{path.name}.fetched")
        assert content_hash(tmp_path / f"{path.name}.fetched") == artefact.sha256
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "folder.fetched", "run.fetched"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return project_file(tmp_path)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--farm", "tcp://127.0.0.1:1"], "needs --farm-store URL"),
        (["--farm-store", "file:///x"], "--farm-store requires --farm"),
        (["--worker-timeout", "9"], "--worker-timeout requires --farm"),
        (["--farm", "local:2", "--dry-run"], "cannot be combined"),
        (["--farm", "nobody"], "'nobody': not the address of a scheduler; expected local:..., tcp:..., tls:..."),
        (["--farm", "local:1", "--farm-store", "nothing://x"], "nothing://x: "),
    ],
)
def test_a_command_line_that_makes_no_sense(file: Path, words: list[str], error: str) -> None:
    done = CliRunner().invoke(main, ["make", str(file), *words])
    assert done.exit_code == 2
    assert error in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize("module", ["dask", "distributed", "fsspec"])
def test_a_package_that_is_missing_is_one_sentence(
    file: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("host_tools.extras.project.tasks.farm")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    done = CliRunner().invoke(main, ["make", str(file), "--farm", "local:2"])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert f"{module} is missing: pip install 'gramophone[farm]'" in done.stderr
