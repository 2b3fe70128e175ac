# SPDX-License-Identifier: BSD-2-Clause
"""A farm whose store is an object store: the same bytes, whatever becomes of workers, artefacts and answers."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.project.tasks.farm import shared as shared_module
from host_tools.extras.project.tasks.farm.schedulers import scheduler
from host_tools.extras.project.tasks.farm.shared import Artefact, Shared, SharedError
from host_tools.extras.project.tasks.graph import State
from host_tools.extras.project.tasks.task import Task
from host_tools.support import object_stores
from host_tools.support.unchanged import content_hash
from tests.support.buckets import Buckets, bucket_store
from tests.support.farm import WAIT_S, Project, project_file

__all__ = ["bucket_store"]
URL = "s3://bucket/our farm"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "RETRY", {"max_retries": 4, "retry_timeout": timedelta(seconds=20)})


@pytest.mark.exhaustive  # test_farm.py and test_farm_lost.py do with a folder
def test_the_same_bytes_with_a_worker_killed_and_artefacts_half_written(tmp_path: Path, store: Buckets) -> None:
    with scheduler("local:2", WAIT_S) as workers:
        project = Project(tmp_path, workers)
        project.shared = Shared(URL)
        inputs = {"Makefile": project.rules, "text": project.text}
        killing = Task("killing", ("make", "killing", f"MARK={tmp_path / 'mark'}"), inputs, output="killing")
        tasks = [killing, *project.tasks()]
        done, found = project.farm(tasks)
        assert {row.state for row in done} == {State.MADE}, done
        assert found == project.here(tasks)
        whole = dict(store.objects)
        assert {name.split("/")[2] for name in whole} == {"objects", "results"}
        assert not list((tmp_path / "shared").glob("*/*")), "nothing went elsewhere"
        for number, part in enumerate((2, 1_000_000)):  # half written, or nothing of it
            for name, data in whole.items():
                store.objects[name] = data[: len(data) // part]
            done, again = project.farm(tasks, f"another-{number}")
            assert {row.state for row in done} == {State.MADE}, done
            assert again == found
            assert store.objects == whole, "what was damaged is whole again"


def test_answers_that_are_refused_or_cut_are_asked_for_again(tmp_path: Path, store: Buckets) -> None:
    store.fault = lambda method, name: ("503", "cut", "")[sum(store.asked.values()) % 3]
    with scheduler("local:2", WAIT_S) as workers:
        project = Project(tmp_path, workers)
        project.shared = Shared(URL)
        done, found = project.farm(project.tasks())
        assert {row.state for row in done} == {State.MADE}, done
        assert found == project.here(project.tasks())


def test_artefacts_of_any_size(tmp_path: Path, store: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones are written in parts, and read in pieces."""
    monkeypatch.setattr(shared_module, "PIECE", 5 << 20)
    shared = Shared(URL)
    for size in (0, 1, 11 << 20):
        path = tmp_path / f"of-{size}"
        path.write_bytes(bytes(range(256)) * (size // 256) + bytes(size % 256))
        artefact = Artefact(content_hash(path), is_folder=False)
        assert not shared.get(artefact, tmp_path / "none")
        store.asked.clear()
        shared.put(path, artefact, tmp_path)
        assert shared.get(artefact, tmp_path / f"{size}.fetched")
        assert (tmp_path / f"{size}.fetched").read_bytes() == path.read_bytes()
    assert store.asked == {"POST": 2, "PUT": 3, "HEAD": 1, "GET": 3}


def test_an_upload_that_ends_half_way_leaves_nothing(tmp_path: Path, store: Buckets) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(11 << 20))
    artefact = Artefact(content_hash(path), is_folder=False)
    refused = threading.Event()

    def fault(method: str, name: str) -> str:
        if method == "PUT" and len(next(iter(store.uploads.values()), {})):
            refused.set()
        return "503" if refused.is_set() else ""

    store.fault = fault
    with pytest.raises(SharedError, match=r"^s3://bucket/our farm: .*SlowDown: Reduce your request rate"):
        Shared(URL).put(path, artefact, tmp_path)
    assert refused.is_set()
    store.fault = lambda method, name: ""
    assert not store.objects
    assert not Shared(URL).get(artefact, tmp_path / "fetched")


@pytest.mark.parametrize(
    ("url", "variables", "error"),
    [
        ("s3://other/x", {}, "NoSuchBucket: The specified bucket does not exist"),
        (URL, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch: The request is not signed"),
        (URL, {"AWS_ACCESS_KEY_ID": "nobody"}, "InvalidAccessKeyId: "),
        (URL, {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "error sending request"),
        (URL, {"AWS_ALLOW_HTTP": "false"}, "error"),
    ],
    ids=["bucket", "secret", "key", "nobody", "http"],
)
def test_a_store_that_cannot_be_used_is_one_sentence_before_anything_is_begun(
    url: str,
    variables: dict[str, str],
    error: str,
    store: Buckets,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(object_stores, "RETRY", {"max_retries": 1, "retry_timeout": timedelta(seconds=5)})
    done = CliRunner().invoke(
        main, ["make", str(project_file(tmp_path)), "--farm", "local:1", "--farm-store", url]
    )
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
    assert done.stderr.startswith(f"error: {url}: ")
    assert error in done.stderr
    assert not store.objects
