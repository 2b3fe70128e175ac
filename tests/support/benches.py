# SPDX-License-Identifier: BSD-2-Clause
"""The smallest run of every bench, and the benches that the documents name.

`tests/unit/docs/test_benches.py` refuses a document that names a bench without a row here. The rows are run by
`test_benches.py` in the folder that is named by what they need: tests/qemu, tests/optee, tests/recordings.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import CHECKOUT

PACKAGE = "tests.bench"
# Up to what ends the command: its line, its code, a comment.
COMMAND = re.compile(rf"python -m ({PACKAGE}[\w.]*)((?: +(?!#)[^\s`)]+)*)")
BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LENET = "tests/support/lenet.mali_g71.raw.gtr"


@dataclass(frozen=True)
class Smoke:
    """A run of a bench.

    Attributes:
        words: what follows `python -m MODULE`; {folder} is a new one.
        smaller: constants of modules of tests.bench, and what they are for this run: a number, or of a table the
            rows that are kept, by their names or how many.
        needs: the folder of tests.
        guest: it boots the recording machine.
        long: it runs with --exhaustive only.
    """

    words: str = ""
    smaller: Mapping[str, Any] = field(default_factory=dict)
    needs: str = "qemu"
    guest: bool = False
    long: bool = False


def _recorded(words: str = "", **smaller: Any) -> Smoke:
    """A bench that records."""
    return Smoke(words, smaller, guest=True, long=True)


ONE_MALI = {"mali.ORIGINAL": ("mnist",), "bifrost.CONVOLUTIONS": ("mnist",)}
# By what documents call them: a subject of `python -m tests.bench`, or a module, and a word of what else it does.
SMOKE: dict[str, Smoke] = {
    "lenet": Smoke("lenet"),
    "format": Smoke(
        "format", {"format.ACTIONS": 80_000, "format.CONSTRUCT_ACTIONS": 800, "format.IMAGE_BYTES": 1 << 20}
    ),
    "host-lenet": Smoke("host-lenet"),
    "host-large": Smoke("host-large", {"host.LARGE_BYTES": 1 << 20}),
    "shaders-lenet": Smoke("shaders-lenet", {"shaders.ROUNDS": 1}),
    "trust": Smoke("trust", {"trust.CASES": ("one key",), "trust.PLACES": 1}),
    "time": Smoke("time", needs="recordings", long=True),
    "mali": Smoke("mali", ONE_MALI, "recordings", long=True),
    "bifrost": Smoke("bifrost", ONE_MALI, "recordings"),
    "optee": Smoke("optee", {"optee.BUILDS": 1}, "optee", long=True),
    "startup-lenet": _recorded("startup-lenet"),
    "tests.bench.profiles": Smoke("", {"profiles.NAMES": ("plain",), "profiles.GPUS": ("v3d42",)}),
    "tests.bench.trust": Smoke("", {"trust.CASES": ("one key",), "trust.PLACES": 0}),
    "tests.bench.encryption": Smoke("lenet", {"encryption.KINDS": 2}),
    "tests.bench.evidence": Smoke("", {"evidence.CHOICES": 2}),
    "tests.bench.fleet": Smoke("40 2", {"fleet.ALONE": 20}),
    "tests.bench.products": Smoke("", {"products.CONVOLUTIONS": 1, "products.DENSE": 1}),
    "tests.bench.roofline": Smoke(f"{{folder}}/picture.svg lenet={LENET}"),
    "tests.bench.time": Smoke("pi4"),
    "tests.bench.time pi5": _recorded("pi5 --networks squeezenet_v1.1"),
    "tests.bench.products --ncnn": Smoke(
        "--ncnn", {"products.CONVOLUTIONS": 1, "products.DENSE": 1}, guest=True, long=True
    ),
    "tests.bench.node_tests": Smoke("--kept {folder} --page"),
    "tests.bench.size_diff": Smoke("", long=True),
    "tests.bench.node_tests --judge": Smoke(
        "--kept {folder} --step 400 --judge lavapipe v3d42", guest=True, long=True
    ),
    "tests.bench.farm": Smoke("--networks 1 --kills 1", long=True),
    "tests.bench.optee_log": Smoke("", {"optee_log.CHOICES": 2}, "optee", long=True),
    "tests.bench.breadth": _recorded("lenet"),
    "tests.bench.moved": _recorded("lenet", **{"moved.GPUS": 2}),
    "tests.bench.co_execute": _recorded("--side 32 --gflops 2"),
    "tests.bench.decoders": _recorded("demo"),
    "tests.bench.foreseen": _recorded("silero --kept {folder}", **{"foreseen.FACTOR": 1000.0}),  # no test is timed
    "tests.bench.kernels": _recorded("squeezenet --minutes 0.2"),
    "tests.bench.gguf": _recorded(),
    "tests.bench.gguf_types": _recorded("tiny --prompts 1 --tokens 4"),
    "tests.bench.models": _recorded("silero"),
    "tests.bench.pytorch": Smoke("{folder}", needs="qemu with files"),
    "tests.bench.sharing": _recorded(),
    "tests.bench.streaming": _recorded("lenet=1"),
}
# Subjects that do the same as another one with another network, which takes minutes to record.
LIKE = {
    "mobilenet": "lenet",
    "squeezenet": "lenet",
    "host-mobilenet": "host-lenet",
    "host-squeezenet": "host-lenet",
    "host-resnet50": "host-lenet",
    "startup-mobilenet": "startup-lenet",
    "shaders-mobilenet": "shaders-lenet",
    "shaders-squeezenet": "shaders-lenet",
    "encryption": "tests.bench.encryption",
    "fleet": "tests.bench.fleet",
    "kernels": "tests.bench.kernels",
}


def of(needs: str) -> list[Any]:
    """The rows for one folder, as parameters of a test."""
    return [
        pytest.param(name, id=name, marks=[pytest.mark.exhaustive] if row.long else [])
        for name, row in SMOKE.items()
        if row.needs == needs
    ]


def named() -> dict[str, set[tuple[str, str]]]:
    """Modules and words that documents name, by document."""
    found = {}
    for page in (*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        prose = BLOCK.sub("", text).replace("\n", " ")  # code in prose goes on in the next line
        if commands := set(COMMAND.findall("\n".join([*BLOCK.findall(text), prose]))):
            found[page.name] = commands
    return found


def keys(module: str, words: str) -> list[str]:
    """The rows, or what is like them, of a command: of `python -m tests.bench` one for each subject."""
    return [word for word in words.split() if word.islower() and word[0] != "-"] if module == PACKAGE else [module]


def main_of(module: str) -> Any:
    """What `python -m MODULE` calls."""
    path = CHECKOUT / module.replace(".", "/")
    return importlib.import_module(f"{module}.__main__" if path.is_dir() else module).main


def smaller(value: Any, wanted: Any) -> Any:
    """A constant for a run: a number as it is wanted, a table with the rows that are wanted."""
    if not isinstance(value, dict | tuple):
        return wanted
    if isinstance(wanted, int):
        wanted = list(value)[:wanted]
    return {name: value[name] for name in wanted} if isinstance(value, dict) else tuple(wanted)


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a bench at its smallest; its exit status."""
    row = SMOKE[name]
    module = name.split()[0] if name.startswith(PACKAGE) else PACKAGE
    main = main_of(module)
    for constant, wanted in row.smaller.items():
        inside, _, attribute = constant.rpartition(".")
        of_module = importlib.import_module(f"{PACKAGE}.{inside}")
        monkeypatch.setattr(of_module, attribute, smaller(getattr(of_module, attribute), wanted))
    monkeypatch.setattr(sys, "argv", [module, *row.words.format(folder=folder).split()])
    monkeypatch.chdir(CHECKOUT)
    return int(main() or 0)
