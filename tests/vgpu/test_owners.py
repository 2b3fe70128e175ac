# SPDX-License-Identifier: BSD-2-Clause
"""Whether a network of a joint trace is what its owner has: `join --check`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.sharing import joining
from host_tools.passes.pipeline import build
from tests.support import replayer_samples as s
from tests.support.json_schemas import check
from tests.vgpu.test_joined import FOUR, PAIR, RECORDINGS, joint, single
from trace_format.actions import Op
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace


def differences(whole: Trace, name: str) -> list[str]:
    (network,) = (network for network in whole.networks if network.name == name)
    return joining.differences(whole, network, single(name))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("names", [PAIR, FOUR, tuple(reversed(FOUR))], ids=("two", "four", "four-turned"))
def test_all_parts_are_their_owners(names: tuple[str, ...], exclusive: bool) -> None:
    whole = Trace.parse(joint(names, exclusive).trace.build())
    assert {name: differences(whole, name) for name in names} == {name: [] for name in names}


def test_a_joint_trace_of_malis() -> None:
    names = ("lenet-mali", "lenet-mali-2")
    whole = joint(names).trace
    assert not differences(whole, "lenet-mali")
    assert not differences(whole, "lenet-mali-2")


def other_action(whole: Trace) -> Trace:
    rows = whole.actions.copy()
    at = int(np.flatnonzero(rows["op"] == Op.INTERVAL)[0]) if (rows["op"] == Op.INTERVAL).any() else 5
    rows[at]["value"] ^= 1
    return whole.with_(actions=rows)


def other_page(whole: Trace) -> Trace:
    image = bytearray(whole.image)
    image[PAGE_BYTES + 8] ^= 1
    return whole.with_(image=bytes(image))


def other_row(field: str, change: int) -> Callable[[Trace], Trace]:
    def changed(whole: Trace) -> Trace:
        first = whole.networks[0]
        changes: dict[str, Any] = {field: getattr(first, field) + change}
        return whole.with_(networks=[dataclasses.replace(first, **changes), *whole.networks[1:]])

    return changed


def other_slot(whole: Trace) -> Trace:
    return whole.with_(
        slots=[dataclasses.replace(whole.slots[0], address=whole.slots[0].address + 4), *whole.slots[1:]]
    )


def other_reach(whole: Trace) -> Trace:
    first, second = whole.networks
    return whole.with_(networks=[dataclasses.replace(first, image=((0, second.image[-1][1]),)), second])


CHANGED: dict[str, tuple[Callable[[Trace], Trace], str]] = {
    "an action": (other_action, "is another: expected"),
    "a page": (other_page, "pages of the image are missing"),
    "an action less": (other_row("end_action", -1), "actions, found"),
    "a slot": (other_slot, "its slots are others"),
    "pages that it reaches": (other_reach, "it reaches other pages of the image"),
    "retries": (other_row("retry_limit", 7), "retries: expected 2, found 9"),
    "a budget": (other_row("time_budget_us", 7), "time budget in microseconds: expected 60000000, found 60000007"),
    "working memory": (other_row("page_count", -1), "bytes of working memory: expected 73728, found 69632"),
}


@pytest.mark.parametrize("change", CHANGED)
def test_what_is_not_its_owners(change: str) -> None:
    edit, text = CHANGED[change]
    whole = edit(joint(PAIR).trace)
    found = differences(whole, "lenet")
    assert len(found) == 1, found
    assert text in found[0]
    if change != "a page":
        assert not differences(whole, "detector"), "the other's is untouched"


def test_an_older_version() -> None:
    own = single("lenet").with_(meta={**single("lenet").meta, "security_version": 4})
    (found,) = joining.differences(joint(PAIR).trace, joint(PAIR).trace.networks[0], own)
    assert "the joint trace is older: expected security version 4 or above, found 0" in found


def test_another_gpu_and_what_cannot_be_joined() -> None:
    whole = joint(PAIR).trace
    other = joining.differences(whole, whole.networks[0], single("lenet-mali"))
    assert any("for another GPU" in text for text in other)
    with pytest.raises(joining.JoinError, match="is a raw recording"):
        joining.differences(whole, whole.networks[0], Trace.read(RECORDINGS["lenet"]))


def test_the_command(tmp_path: Path) -> None:
    whole, own = tmp_path / "joint.gtr", tmp_path / "lenet.sgtr"
    whole.write_bytes(joint(PAIR).trace.build())
    own.write_bytes(s.signed(single("lenet").build()))

    def run(*words: str, status: int = 0) -> str:
        done = CliRunner().invoke(main, ["sharing", "join", str(whole), *words], catch_exceptions=False)
        assert done.exit_code == status, done.output
        return done.output

    said = run("--check", f"lenet={own}")
    assert f"lenet is {own}: its 303 actions, 2 slots, image, limits" in said
    assert "not compared: detector" in said
    assert "lenet: detector reaches 2 pages of its image, 1 of them of zeros" in said
    said = run("--check", f"detector={own}", "--json", status=1)
    answer = json.loads(said.splitlines()[-1])
    check("sharing join", answer)
    assert answer["checks"][0]["differences"]
    (other,) = answer["checks"][0]["reached"]
    assert (other["by"], other["time_budget_us"], other["retry_limit"]) == ("lenet", 60_000_000, 2)
    assert "no network 'lent'" in run("--check", f"lent={own}", status=2)
    assert "--check cannot be combined" in run("--check", f"lenet={own}", "-o", str(tmp_path / "x"), status=2)
    assert "-o: expected the file to write" in run(status=2)
    built = tmp_path / "one.gtr"
    built.write_bytes(build(Trace.read(RECORDINGS["lenet"])).build())
    done = CliRunner().invoke(main, ["sharing", "join", str(built), "--check", f"lenet={own}"])
    assert done.exit_code == 2
    assert "is no joint trace" in done.output
