# SPDX-License-Identifier: BSD-2-Clause
"""What cannot be recorded is refused by `check` within seconds of a processor, also behind much that can be."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_graphs import graph, node

MOST_CPU_S = 20.0  # a refusal takes 2 to 8 on an idle machine
STEPS, SIZE, LAYERS = 80, 64, 24
Draw = Callable[[Path], Path]


def last_of_many(kind: str, domain: str = "", **attributes: Any) -> Draw:
    """A network whose last operator is refused, behind a recurrent layer of many steps and convolutions."""

    def draw(path: Path) -> Path:
        random = np.random.default_rng(7)
        constants = {
            "w": random.normal(0, 0.1, (1, 4 * SIZE, SIZE)).astype(np.float32),
            "r": random.normal(0, 0.1, (1, 4 * SIZE, SIZE)).astype(np.float32),
            "flat": np.array([1, 1, STEPS, SIZE]),
            "k": random.normal(0, 0.1, (8, 8, 3, 3)).astype(np.float32),
            "k0": random.normal(0, 0.1, (8, 1, 3, 3)).astype(np.float32),
            "row": np.array([1, -1]),
        }
        nodes = [node("LSTM", "x w r", "y", hidden_size=SIZE), node("Reshape", "y flat", "n0")]
        nodes += [node("Conv", f"n{at} {'k' if at else 'k0'}", f"n{at + 1}", pads=[1] * 4) for at in range(LAYERS)]
        nodes.append(node("Reshape", f"n{LAYERS} row", "end"))
        ends = ["label", "z"] if kind == "SVMClassifier" else ["z"]
        nodes.append(helper.make_node(kind, ["end"], ends, domain=domain, **attributes))
        return graph(path, nodes, {"x": ("float32", [STEPS, 1, SIZE])}, {"z": "float32"}, constants)

    return draw


def texts(path: Path) -> Path:
    encoder = helper.make_node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", cats_strings=["a", "b"])
    return graph(path, [encoder], {"x": ("str", [1, 1])}, {"y": "float32"})


CASES: dict[str, tuple[Draw, str]] = {
    "no such operator": (last_of_many("Bernoulli"), "there is no such operator"),
    "sizes that values decide": (last_of_many("Unique"), "there is no such operator"),
    "of another's domain": (last_of_many("Mystery", "com.example"), "com.example"),
    "a variant": (
        last_of_many(
            "SVMClassifier",
            "ai.onnx.ml",
            classlabels_ints=[0, 1],
            coefficients=[1.0, -1.0],
            kernel_type="LINEAR",
            post_transform="PROBIT",
            kernel_params=[1.0, 0.0, 0.0],
            rho=[0.0],
            support_vectors=[0.5] * (2 * 8 * STEPS * SIZE),
            vectors_per_class=[1, 1],
        ),
        "leaves a score undefined",
    ),
    "texts": (texts, "numbers only"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_refusal_costs_little(name: str, tmp_path: Path) -> None:
    """Of a processor, children included: a user waits on a machine that does other things, too."""
    draw, said = CASES[name]
    path = draw(tmp_path / "n.onnx")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "host_tools", "check", str(path), "--json"], capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 2, done
    assert said in json.loads(done.stdout)["error"]
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_CPU_S
