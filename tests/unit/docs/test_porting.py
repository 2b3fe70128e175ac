# SPDX-License-Identifier: BSD-2-Clause
"""The recipes of docs/PORTING.md, each followed with a dummy in a copy of the sources: no other file changes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from host_tools.passes.listing import PASSES
from tee_replayer.generator import boards
from tests.support import crypto_trees, porting
from tests.support.copied_tree import CopiedTree
from tests.support.floors import FLOORS
from tests.support.places import CHECKOUT
from tests.support.porting import Recipe, documented
from tests.support.replayer_samples import KEY, library
from tests.unit.project.test_imports import misplaced

CROSS = "aarch64-linux-gnu-"
LIMITS = {"A GPU": 9, "A board": 4, "A pass": 3, "An opcode": 3, "An operator": 4}
CHOSEN = ("NAME", "FAMILY", "PORT", "SUBJECT")  # names that are chosen
RECIPES = {
    "A GPU": (porting.GPU, porting.GPU_NAMES),
    "A GPU, jobs in memory": (porting.CHAINED_GPU, porting.CHAINED_GPU_NAMES),
    "A board": (porting.BOARD, porting.BOARD_NAMES),
    "A pass": (porting.PASS, porting.PASS_NAMES),
    "An opcode": (porting.OPCODE, {}),
    "An operator": (porting.OPERATOR, porting.OPERATOR_NAMES),
}


class Tree(CopiedTree):
    """A copy whose imports can be asked for."""

    def follows_import_rules(self) -> bool:
        """Whether imports go down only."""
        rooms = self.root / "host_tools"
        modules = [path for path in rooms.rglob("*.py") if path.parent != rooms or path.name != "__init__.py"]
        sources = {str(path.relative_to(rooms)): path.read_text(encoding="utf-8") for path in modules}
        return misplaced(sources, FLOORS) == []


@pytest.fixture
def follow(tmp_path: Path) -> Callable[[Recipe], Tree]:
    def copy(recipe: Recipe) -> Tree:
        return Tree.following(recipe, tmp_path / "tree")

    return copy


def compile_replayer(folder: Path) -> None:
    """Compile a generated replayer.c, for the device's CPU where there is a compiler for it."""
    compiler = shutil.which(f"{CROSS}gcc") or "cc"
    flags = ["-std=c11", "-Os", "-ffreestanding", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-c"]
    subprocess.run(
        [compiler, *flags, "-o", str(folder / "replayer.o"), str(folder / "out" / "replayer.c")], check=True
    )


@pytest.mark.parametrize("section", LIMITS)
def test_a_recipe_is_short(section: str) -> None:
    files = documented(section)
    assert 0 < len(files) <= LIMITS[section]
    assert len(set(files)) == len(files)
    assert all((CHECKOUT / file).exists() for file in files if not any(word in file for word in CHOSEN))


@pytest.mark.parametrize("title", RECIPES)
def test_a_dummy_writes_the_files_of_its_recipe(title: str) -> None:
    recipe, names = RECIPES[title]
    section = title.partition(",")[0]
    files = documented(section)
    for word, name in names.items():
        files = [file.replace(word, name) for file in files]
    assert files == list(recipe)


GPU_SCRIPT = """
name, family = "NAME", "FAMILY"
from tee_replayer.generator import device_file
from tee_replayer.generator.device_file import device_key
from tests.support import device_files
from host_tools.families.family import family_of, profile_of
from host_tools.machine.devicetree import with_gpu
from host_tools.machine.placements import DRIVERS, PLACEMENTS
from host_tools.vgpu.binding import VirtualGpu
from host_tools.vgpu.build import Double, library
from tee_replayer.crypto import Libraries
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support.device_trees import small_tree
from trace_format.emit.__main__ import main as emit
from trace_format.profile import for_gpu
from trace_format.schema import Gpu

assert (emit([]), emit(["--check"])) == (0, 0)
assert name.upper() in Path("docs/FORMAT.md").read_text()
assert name in shown("record run")
assert device_file.read(device_files.written(folder, key="key.pem", gpu=name)).gpu == name

assert for_gpu(Gpu[name.upper()]) is profile_of(f"{name}-variant")
assert family_of(name).page_tables.__name__ == "DummyTables"
assert family in [driver.module for driver in DRIVERS]
assert b"arm,mali-bifrost" in with_gpu(small_tree(), name)
(folder / "nothing.c").write_text("typedef int nothing;")
with VirtualGpu(name, library=library(Double(folder / "nothing.c", ("v3d", "mali_")))) as gpu:
    assert gpu.read32(0) == 0x60000000
trees = Libraries(folder / "bearssl", folder / "aws-lc")
key = device_key(folder / "key.pem")
generate(Options(name, platform_of("optee"), key, trees), folder / "out")
"""


CHAINS_SCRIPT = """
import struct
from host_tools.audit.jobs import jobs_of
from host_tools.audit.lint import lint
from host_tools.audit.report.regions import regions
from host_tools.passes.listing import PASSES
from tests.support.mali_chains import PAGE, Area, submit, trace

FIRST, SECOND, TARGET, UNUSED = (0x10000000 + i * 0x100000 for i in range(4))

def chains(first, second=(0, TARGET), waits=True):
    # Two jobs, of one descriptor each.
    areas = [Area(at, 1, data=struct.pack("<QQ", *words)) for at, words in ((FIRST, first), (SECOND, second))]
    areas += [Area(TARGET), Area(UNUSED, 1, data=b"x" * PAGE)]
    return trace(areas, submit(FIRST, waits=waits), submit(SECOND)).with_(gpu="dummy2")

def found(sample):
    return [(item.rule.id, item.text) for item in lint(sample) if item.rule.id[:3] in ("GR3", "GR6")]

good = chains((0, TARGET))
assert found(good) == []
assert found(chains((0, 0x5000))) == [("GR301", "job 0: the target at GPU address 0x5000 is not mapped")]
assert found(chains((0x5000, TARGET))) == [("GR303", "job 0: the descriptor at 0x5000 is not mapped")]
assert found(chains((FIRST, TARGET))) == [("GR303", "job 0 has no end")]
assert found(chains((0, TARGET), waits=False)) == []  # it queues

jobs = jobs_of(good)
assert [(item.first * PAGE, set(item.jobs)) for item in jobs.followed.reached] == [
    (FIRST, {0}), (SECOND, {1}), (TARGET, {0, 1})
]
may = {row.address: row.may for row in regions(good, jobs, None)}
assert may == {FIRST: [0], SECOND: [1], TARGET: [0, 1], UNUSED: []}
assert jobs_of(chains((0x5000, TARGET))).not_followed == "job 0: the descriptor at 0x5000 is not mapped"

small = PASSES["dead-memory"](good)
mapped = {row.address for row in regions(small, jobs_of(small), None)}
assert {FIRST, SECOND, TARGET} <= mapped and UNUSED not in mapped

names = list(PASSES)
assert "dummy-markers" in names[names.index("no-op-lists") : names.index("map-once")]
assert "dummy-markers" in shown("build")
assert (good.jobs, PASSES["dummy-markers"](good).jobs) == (2, 0)
other = good.with_(gpu="mali_g71")
assert PASSES["dummy-markers"](other).jobs == 2
"""


def gpu_script(names: dict[str, str]) -> str:
    """The checks of any GPU, for the one that is so called."""
    script = GPU_SCRIPT
    for word, name in names.items():
        script = script.replace(f'"{word}"', f'"{name}"')
    return script


GPUS = {
    "jobs in registers": (porting.GPU, porting.GPU_NAMES, ""),
    "jobs in memory": (porting.CHAINED_GPU, porting.CHAINED_GPU_NAMES, CHAINS_SCRIPT),
}


@pytest.mark.parametrize(
    "kind", [pytest.param("jobs in registers", marks=pytest.mark.exhaustive), "jobs in memory"]
)
def test_a_gpu(follow: Callable[[Recipe], Tree], tmp_path: Path, kind: str) -> None:
    """Of a family whose jobs are in memory, lint, reports and passes know its answers, too."""
    recipe, names, more = GPUS[kind]
    tree = follow(recipe)
    crypto_trees.empty(tmp_path)
    (tmp_path / "key.pem").write_bytes(KEY.pem())
    tree.run(gpu_script(names) + more, tmp_path)
    compile_replayer(tmp_path)
    assert tree.follows_import_rules()


BOARD_SCRIPT = """
from tests.support import device_files
from tee_replayer.generator import device_file
from tee_replayer.generator.device_file import device_key
from host_tools.flash.pack import board_of
from host_tools.runners.firmware import Board
from host_tools.runners.unicorn import power_block
from tee_replayer.crypto import Libraries
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of

read = device_file.read(device_files.written(folder, key="key.pem", platform="dummy-board"))
assert read.board.name == "dummy-board"
trees = Libraries(folder / "bearssl", folder / "aws-lc")
key = device_key(folder / "key.pem")
out = generate(Options("v3d42", platform_of("dummy-board"), key, trees), folder / "out")
assert board_of(out).name == "dummy-board"
block = power_block(Board(0, 0, 0, 0, 0, 0, 0, 0, power_base=0x10000000))
assert (block.TITLE, block.GPU) == ("Dummy board", "v3d42-pi4")
"""


def test_a_board(follow: Callable[[Recipe], Tree], tmp_path: Path) -> None:
    """Its own objects are compiled; the crypto libraries' stand-ins are empty files."""
    tree = follow(porting.BOARD)
    crypto_trees.empty(tmp_path)
    (tmp_path / "key.pem").write_bytes(KEY.pem())
    tree.run(BOARD_SCRIPT, tmp_path)
    out = tmp_path / "out"
    assert boards.load("rpi4").notice in (out / "replayer.h").read_text()
    if shutil.which(f"{CROSS}gcc"):
        objects = ["startup.o", "main.o", "port.o", "dummy_port.o", "string.o", "replayer.o"]
        subprocess.run(["make", "-s", "-C", str(out), *objects], check=True)
    assert tree.follows_import_rules()


PASS_SCRIPT = """
from host_tools.passes.listing import PASSES

assert "dummy." in shown("build")
assert PASSES["dummy"].what == "Leave the actions as they are."
"""


@pytest.mark.exhaustive  # a GPU with jobs in memory has a pass of its own, too
def test_a_pass(follow: Callable[[Recipe], Tree], tmp_path: Path) -> None:
    tree = follow(porting.PASS)
    tree.run(PASS_SCRIPT, tmp_path)
    assert tree.follows_import_rules()


OPCODE_SCRIPT = """
from types import SimpleNamespace
from tee_replayer.generator.device_file import device_key
from host_tools.model.interpreter import Interpreter
from tee_replayer.crypto import Libraries
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from trace_format.actions import Op, action
from trace_format.emit.__main__ import main as emit

assert (emit([]), emit(["--check"])) == (0, 0)
assert "Dummy" in Path("docs/FORMAT.md").read_text()
device = SimpleNamespace(gpu=None, kept={})
Interpreter._step(device, action(Op.DUMMY, number=7))
assert device.kept == {0: 7}
trees = Libraries(folder / "bearssl", folder / "aws-lc")
key = device_key(folder / "key.pem")
generate(Options("v3d42", platform_of("optee"), key, trees), folder / "out")
"""


def test_an_opcode(follow: Callable[[Recipe], Tree], tmp_path: Path) -> None:
    tree = follow(porting.OPCODE)
    crypto_trees.empty(tmp_path)
    (tmp_path / "key.pem").write_bytes(KEY.pem())
    tree.run(OPCODE_SCRIPT, tmp_path)
    compile_replayer(tmp_path)
    assert "GR_OP_DUMMY: " in (tmp_path / "out" / "replayer.c").read_text()


OPERATOR_SCRIPT = """
import numpy as np
from tee_replayer.generator import device_file
from tee_replayer.generator.device_file import device_key
from tests.support import device_files
from host_tools.text.reader import assemble
from host_tools.text.writer import Annotations, text_of
from tee_replayer.crypto import Libraries
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support.operator_samples import OPERANDS, both, slots_of, trace_of
from trace_format.emit.__main__ import main as emit
from trace_format.operators import Operator
from trace_format.trace import Trace

assert (emit([]), emit(["--check"])) == (0, 0)
assert "| 99 **dummy** | a dummy" in Path("docs/FORMAT.md").read_text()
file = device_files.written(folder, key="key.pem", profile=None, features={"operators": ["dummy"]})
assert device_file.read(file).features.operators == (Operator.DUMMY,)

arrays = OPERANDS[Operator.DUMMY]
data = trace_of(Operator.DUMMY, slots_of(Operator.DUMMY, arrays)).build()
text = "\\n".join(text_of(data, Trace.parse(data), Annotations())) + "\\n"
assert "Operate dummy 2 operands from" in text
assert assemble(text, "dummy.txt")[0] == data

trees = Libraries(folder / "bearssl", folder / "aws-lc")
key = device_key(folder / "key.pem")
options = Options("v3d42", platform_of("optee"), key, trees, operators=(Operator.DUMMY,))
out = generate(options, folder / "out")
assert "gr_operator_dummy(" in (folder / "out" / "operators.c").read_text()
(core,), (host,) = both(Operator.DUMMY, arrays)
assert np.array_equal(core, -arrays[1]) and np.array_equal(core, host)
"""


@pytest.mark.exhaustive
def test_an_operator(follow: Callable[[Recipe], Tree], tmp_path: Path) -> None:
    """The device's C, compiled for this machine, and the interpreter compute it."""
    library()  # skips where the crypto libraries' sources cannot be had
    tree = follow(porting.OPERATOR)
    crypto_trees.empty(tmp_path)
    (tmp_path / "key.pem").write_bytes(KEY.pem())
    tree.run(OPERATOR_SCRIPT, tmp_path)
    compile_replayer(tmp_path)
    assert tree.follows_import_rules()


def test_an_operator_without_its_c_is_refused(follow: Callable[[Recipe], Tree], tmp_path: Path) -> None:
    recipe = {file: text for file, text in porting.OPERATOR.items() if file.startswith("trace_format/")}
    follow(recipe).run(
        """
from tee_replayer.features import operators
from trace_format.operators import Operator
try:
    operators.files([Operator.COPY])
except TypeError as error:
    assert "expected argmax, conv1x1, copy, cumulative_sum, dense, detection_output," in str(error), error
else:
    raise AssertionError("not refused")
""",
        tmp_path,
    )


def test_every_pass_has_a_row_in_the_design() -> None:
    text = (
        (CHECKOUT / "docs" / "DESIGN.md").read_text(encoding="utf-8").split("\n## Passes\n")[1].split("\n## ")[0]
    )
    assert re.findall(r"^\| `([\w-]+)` \|", text, flags=re.MULTILINE) == list(PASSES)
