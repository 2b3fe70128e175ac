# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone sharing simulate`: networks share a GPU, by the times that the model gives their jobs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.extras.sharing.commands import arrivals, simulate
from host_tools.passes.pipeline import build
from tests.support.json_schemas import check
from tests.support.places import CHECKOUT
from trace_format.trace import Trace

DETECTOR = CHECKOUT / "tests/support/detector.raw.gtr"


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("shared")
    paths = folder / "lenet.gtr", folder / "detector.gtr"
    for path, raw, name in zip(paths, (RAW, DETECTOR), ("lenet", "detector"), strict=True):
        trace = build(Trace.read(raw), trust_note=True)
        path.write_bytes(trace.with_(meta={**trace.meta, "name": name}).build())
    return paths


def run(*arguments: str | Path, status: int = 0) -> Any:
    result = CliRunner().invoke(main, ["sharing", "simulate", *map(str, arguments), "--json"])
    assert result.exit_code == status, result.output
    found = json.loads(result.stdout)
    check("sharing simulate", found)
    return found


def test_two_networks(traces: tuple[Path, Path], tmp_path: Path) -> None:
    plot = tmp_path / "late.svg"
    arguments = (*traces, "--seconds", "2", "--longest", "400", "--plot", plot)
    found = run(*arguments)
    assert [row["policy"] for row in found["policies"]] == list(simulate.POLICIES)
    assert found["load"] == pytest.approx(0.5, abs=0.1)
    assert [network["deadline_us"] / network["alone_us"] for network in found["networks"]] == [4, 4]
    by_name = {row["policy"]: row for row in found["policies"]}
    assert by_name["edf"]["longest_job_us"] > by_name["edf-cut"]["longest_job_us"]
    detector = [by_name[policy]["networks"][1] for policy in ("edf", "edf-cut")]
    assert detector[0]["jobs"] < detector[1]["jobs"]
    assert detector[0]["alone_us"] < detector[1]["alone_us"]
    assert len({row["networks"][0]["requests"] for row in found["policies"]}) == 1
    assert by_name["fifo"]["late"] > by_name["edf-last-cut"]["late"]
    assert run(*arguments) == found, "seeds say all"
    assert ET.parse(plot).getroot().tag.endswith("svg")
    text = CliRunner().invoke(main, ["sharing", "simulate", *map(str, arguments)])
    assert text.exit_code == 0
    assert "edf-last-cut" in text.stdout
    assert "no times of hardware" in text.stderr


def test_arrivals(traces: tuple[Path, Path], tmp_path: Path) -> None:
    lenet, detector = traces
    fast = ("--scheduler", "edf", "--seconds", "1")
    found = run(lenet, detector, *fast, "--period", "lenet=100000", "--period", "detector=250000")
    assert found["seeds"] == []
    assert [network["requests"] for network in found["policies"][0]["networks"]] == [10, 4]
    table = tmp_path / "requests.csv"
    table.write_text("network,us\ndetector,0\nlenet,10\nlenet,5\n")
    found = run(lenet, detector, *fast, "--arrivals", table, "--deadline", "lenet=100", "--deadline", "2x")
    assert [network["late"] for network in found["policies"][0]["networks"]] == [1, 0]
    assert found["networks"][0]["deadline_us"] == 100
    assert found["networks"][1]["deadline_us"] == 2 * found["networks"][1]["alone_us"]
    found = run(lenet, *fast, "--arrivals", "poisson:50", "--seed", "3", "--seed", "4", "--seed", "3")
    assert found["seeds"] == [3, 4]
    assert len(found["policies"][0]["late_by_seed"]) == 2
    assert 60 <= found["policies"][0]["networks"][0]["requests"] <= 140


def test_traces_of_one_name(traces: tuple[Path, Path]) -> None:
    found = run(traces[0], traces[0], traces[0], "--scheduler", "fifo", "--seconds", "0.1")
    assert [network["name"] for network in found["networks"]] == ["lenet", "lenet-2", "lenet-3"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--arrivals", "load:x"], "expected a number above 0, found 'x'"),
        (["--arrivals", "poisson:0"], "expected a number above 0, found '0'"),
        (["--arrivals", "poisson:nan"], "expected a number above 0, found 'nan'"),
        (["--arrivals", "load:1e9"], "more than 1,000,000 requests"),
        (["--arrivals", "poisson:1e-9"], "no request in 20 s, seed 0"),
        (["--period", "other=5"], "--period: no trace is called 'other'; there are: lenet"),
        (["--period", "lenet=-1"], "expected a number above 0, found '-1'"),
        (["--period", "lenet=0.001"], "more than 1,000,000 requests"),
        (["--deadline", "other=5"], "--deadline: no trace is called 'other'"),
        (["--deadline", "soon"], "expected a number above 0, found 'soon'"),
        (["--chip", "pi5"], "pi5 has another GPU"),
        (["--arrivals", "no/such/file"], "no/such/file"),
    ],
)
def test_wrong_use(traces: tuple[Path, Path], arguments: list[str], expected: str) -> None:
    found = run(traces[0], "--scheduler", "fifo", *arguments, status=2)
    assert expected in found["error"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1: expected columns us and network, found ''"),
        ("at,network\n1,a\n", "line 1: expected columns us and network, found 'at,network'"),
        ("us,network\n1,a\nx,a\n", "line 3: expected microseconds, found 'x'"),
        ("us,network\n-1,a\n", "line 2: expected microseconds, found '-1'"),
        ("us,network\n5,b\n", "line 2: expected a, found 'b'"),
        ("us,network\n5\n", "line 2: expected a, found 'None'"),
    ],
)
def test_malformed_files_of_requests(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(text)
    with pytest.raises(arrivals.ArrivalsError, match=r"requests\.csv") as error:
        arrivals.from_file(path, ["a"])
    assert expected in str(error.value)


def test_a_mali_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "mali.gtr"
    path.write_bytes(build(Trace.read(CHECKOUT / "tests/support/lenet.mali_g71.raw.gtr")).build())
    found = run(path, "--seconds", "0.1", "--longest", "60", "--scheduler", "edf-cut")
    assert "no first workgroup" in " ".join(found["warnings"])
