# SPDX-License-Identifier: BSD-2-Clause
"""What is up to date, what is done again and why, what a failure leaves: with tasks of GNU make."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from host_tools.extras.project.tasks.graph import GONE, NEW, Done, State, plan, run
from host_tools.extras.project.tasks.store import ANSWER, OUTPUT, Store, put
from host_tools.extras.project.tasks.task import Task
from host_tools.support.unchanged import EPOCH, content_hash, tool_stamp
from trace_format.errors import GramophoneError

RULES = """\
upper: text
\ttr a-z A-Z <text >upper
\techo run >>$(LOG)
first:
\thead -c 1 upper >first
\techo run >>$(LOG)
"""


class Project:
    """A text, its upper case, and the first letter of that."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rules, self.text, self.log = folder / "Makefile", folder / "text", folder / "log"
        self.rules.write_text(RULES)
        self.text.write_text("abc")
        self.store = Store(folder / "store")
        self.before: dict[str, Mapping[str, str]] = {}
        self.options: tuple[str, ...] = ()

    def tasks(self) -> list[Task]:
        log = f"LOG={self.log}"
        rules = {"Makefile": self.rules}
        return [
            Task("upper", ("make", "upper", log, *self.options), {**rules, "text": self.text}, output="upper"),
            Task("first", ("make", "first", log), rules, {"upper": "upper"}, output="first"),
            Task("other", ("make", "upper", log), {**rules, "text": self.rules}, output="upper"),
        ]

    def make(self, tool: str = "1", jobs: int = 2) -> list[str]:
        """State and reason of each task."""
        planned = said(plan(self.tasks(), self.store, tool, self.before))
        done = run(self.tasks(), self.store, tool, self.before, jobs=jobs)
        self.before = {row.task.name: row.ingredients for row in done if row.ingredients}
        for before, after in zip(planned, said(done), strict=True):
            todo = after.replace("made:", "to do:", 1)
            assert before == todo or "uses" in before or after.startswith(("failed", "left")), (before, after)
        return said(done)

    def runs(self) -> int:
        """How many commands have been run."""
        return self.log.read_text().count("run") if self.log.exists() else 0


def said(done: Sequence[Done]) -> list[str]:
    return [f"{row.state.value}: {row.why}" if row.why else row.state.value for row in done]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    assert made.make() == [f"made: {NEW}"] * 3
    assert made.runs() == 3
    return made


def test_nothing_is_done_twice(project: Project) -> None:
    assert project.make() == ["up to date"] * 3
    os.utime(project.text)
    os.utime(project.rules)
    assert project.make() == ["up to date"] * 3
    assert project.runs() == 3


def test_only_what_depends_on_a_change_is_done_again(project: Project) -> None:
    project.text.write_text("xyz")
    assert project.make() == ["made: changed: text", "made: changed: upper", "up to date"]
    assert project.runs() == 5
    project.text.write_text("abc")
    assert project.make() == ["up to date"] * 3, "what it was before is still in the store"


def test_a_result_that_comes_out_the_same_changes_nothing_further(project: Project) -> None:
    project.options = ("--no-builtin-rules",)
    assert project.make() == ["made: changed: options", "up to date", "up to date"]


def test_tool_epoch_and_stamp_count(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert project.make(tool="2") == ["made: changed: the tool"] * 3
    monkeypatch.setenv(EPOCH, "1")
    assert project.make(tool="2") == [f"made: changed: {EPOCH}"] * 3
    stamp = ["old"]
    task = Task("t", ("make", "--version"), stamp=lambda prepare: stamp[0])
    assert run([task], project.store, "1", {})[0].state == State.MADE
    assert run([task], project.store, "1", {})[0].state == State.UP_TO_DATE
    stamp[0] = "new"
    assert run([task], project.store, "1", {})[0].state == State.MADE


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_failure_leaves_the_others(project: Project, jobs: int) -> None:
    project.text.unlink()
    upper, first, other = project.make(jobs=jobs)
    assert upper == f"failed: {project.text}: No such file or directory"
    assert (first, other) == ("left: needs upper", "up to date")
    project.text.write_text("new")
    project.rules.write_text(RULES.replace("tr a-z A-Z <text", "false"))
    upper, first, other = project.make(jobs=jobs)
    assert re.match(r"failed: ended with status 2: .*Error 1", upper)
    assert first == "left: needs upper"
    project.rules.write_text(RULES)
    assert [row.partition(":")[0] for row in project.make(jobs=jobs)] == ["made", "made", "up to date"]


def test_what_is_damaged_or_gone_is_made_again(project: Project) -> None:
    done = run(project.tasks(), project.store, "1", {})
    entry = done[0].entry
    assert entry
    assert entry.output
    for damage in (
        lambda: entry.output.write_text("ABX"),
        lambda: entry.output.unlink(),
        lambda: (entry.output.parent / ANSWER).write_text('{"status": 0'),
        lambda: (entry.output.parent / ANSWER).write_text("[]"),
    ):
        damage()
        assert project.make() == [f"made: {GONE}", "up to date", "up to date"]
        assert entry.output.read_text() == "ABC"
    assert not list(project.store.folder.glob(".work-*"))


def test_results_are_put_where_they_are_wanted(project: Project, tmp_path: Path) -> None:
    entry = run(project.tasks(), project.store, "1", {})[0].entry
    assert entry
    place = tmp_path / "out" / "deep" / "upper"
    assert put(entry, place)
    assert not put(entry, place), "it is there"
    place.write_text("edited")
    assert put(entry, place)
    assert place.read_text() == "ABC"
    place.unlink()
    place.mkdir()
    assert put(entry, place), "a folder is in its place"
    assert place.is_file()
    assert [path.name for path in place.parent.iterdir()] == ["upper"]


def test_a_task_that_writes_nothing_is_a_failure(tmp_path: Path) -> None:
    store = Store(tmp_path)
    done = run([Task("none", ("make", "--version"), output=OUTPUT)], store, "1", {})
    assert said(done) == [f"failed: wrote no {OUTPUT}: status 0"]
    assert not list(tmp_path.iterdir())


def test_a_folder_is_hashed_with_names_contents_and_what_is_executable(tmp_path: Path) -> None:
    def folder(name: str, files: Mapping[str, str], mode: int = 0o644) -> str:
        for file, text in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(mode)
        return content_hash(tmp_path / name)

    one = folder("one", {"a": "1", "b/c": "2"})
    assert one == folder("two", {"b/c": "2", "a": "1"})
    different = [
        folder("three", {"a": "1", "b/d": "2"}),
        folder("four", {"a": "1", "b/c": "3"}),
        folder("five", {"a": "1", "b/c": "2"}, 0o755),
        folder("six", {"a": "1b/c2"}),
    ]
    assert len({one, *different}) == 5


def test_the_tool_is_its_version_and_its_sources() -> None:
    assert re.fullmatch(r"gramophone \S+ [0-9a-f]{64}", tool_stamp())
    assert tool_stamp() == tool_stamp()


@pytest.mark.parametrize("order", [("a", "a"), ("b", "a")])
def test_a_graph_out_of_order_is_refused(order: tuple[str, ...], tmp_path: Path) -> None:
    tasks = {"a": Task("a", ("make",)), "b": Task("b", ("make",), uses={"x": "a"})}
    for what in (plan, run):
        with pytest.raises(GramophoneError, match="twice, or before"):
            what([tasks[name] for name in order], Store(tmp_path), "1", {})
