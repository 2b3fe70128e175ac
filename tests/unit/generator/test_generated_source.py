# SPDX-License-Identifier: BSD-2-Clause
"""A generated replayer.c holds what that replayer has, in an order to be read; its folder says what is in it."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.generated_folder import LIST
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import crypto_trees
from tests.support import replayer_samples as s
from tests.support.places import CHECKOUT
from trace_format.operators import OPERATORS, Operator

# Lines before the driver's part (1,146 before declarations were put where they are needed), and in all (2,400).
# 81 lines are empty hooks of features that this replayer lacks, so that the core has no conditionals on them.
BEFORE_DRIVER, IN_ALL = 400, 2345
_DECLARED = (
    r"^#define (\w+)",
    r"^(?:GR_INTERNAL|GR_INLINE|(?:GR_NOINLINE )?static)\b[^;{=]*?\b(\w+)\(",
    r"^struct (\w+) \{",
)
PORTS = {"GR_CACHED_BYTES", "GR_CARVEOUT_BYTES"}  # numbers that a board's header may define, or an own build's
KINDS = [
    ("v3d42", "qemu-virt", (), Evidence()),
    ("v3d42", "qemu-virt", (Operator.MATMUL,), Evidence(True, True, True)),
    ("v3d42", "qemu-virt", (Operator.COPY,), Evidence(True)),
    ("v3d42", "rpi4", (), Evidence()),
    ("mali_g71", "hikey960", (), Evidence()),
    ("v3d42", "linux", (), Evidence()),
    ("v3d71", "optee", (), Evidence()),
    ("mali_g52r1", "optee", tuple(OPERATORS), Evidence(True, False, True)),
]
Kind = tuple[str, str, tuple[Operator, ...], Evidence]


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}-{len(kind[2])}-{kind[3].words or 'plain'}")
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def folder(kind: Kind, tmp_path: Path) -> Path:
    gpu, platform, operators, evidence = kind
    libraries = crypto_trees.empty(tmp_path)
    options = Options(gpu, platform_of(platform), s.KEY, libraries, operators=operators, evidence=evidence)
    return generate(options, tmp_path / "out")


def test_no_conditional_asks_for_an_option(folder: Path) -> None:
    source = (folder / "replayer.c").read_text()
    asked = re.findall(r"^[ \t]*#[ \t]*(?:ifn?def|if|elif)\b(.*)", source, re.MULTILINE)
    names = {word for condition in asked for word in re.findall(r"[A-Za-z_]\w*", condition.split("/*")[0])}
    own = {"__clang__", "GR_WITH_FLOATS", "GR_SCRATCH"}  # the compiler's; what OP-TEE's one file defines before
    assert names <= PORTS | own
    header = (folder / "replayer.h").read_text()
    assert set(re.findall(r"^#if\w* (\w+)", header, re.MULTILINE)) == {"GRAMOPHONE_REPLAYER_H", "GR_API"}


def test_the_driver_is_soon_reached(tmp_path: Path) -> None:
    options = Options("v3d42", platform_of("qemu-virt"), s.KEY, crypto_trees.empty(tmp_path))
    out = generate(options, tmp_path / "out")
    lines = (out / "replayer.c").read_text().splitlines()
    assert lines.index(f"/* {'-' * 40} v3d42 */") < BEFORE_DRIVER
    assert len(lines) < IN_ALL


def test_a_plain_replayer_has_no_dead_declaration(tmp_path: Path) -> None:
    """Each macro, function and structure of replayer.c is named by more than its own declarations."""
    options = Options("v3d42", platform_of("qemu-virt"), s.KEY, crypto_trees.empty(tmp_path))
    text = (generate(options, tmp_path / "out") / "replayer.c").read_text()
    assert _dead(text) == set()
    planted = "#define GR_DEAD 1\nstatic void gr_dead(void);\nstruct gr_dead_too {\n    int x;\n};\n"
    assert _dead(text + planted) == {"GR_DEAD", "gr_dead", "gr_dead_too"}


def _dead(text: str) -> set[str]:
    code = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    declared = Counter(name for form in _DECLARED for name in re.findall(form, code, re.MULTILINE))
    named = Counter(re.findall(r"[A-Za-z_]\w*", code))
    return {name for name, count in declared.items() if named[name] <= count}


def test_tables_of_operators_are_of_those_that_are_there(kind: Kind, folder: Path) -> None:
    found = re.findall(r"^#define GR_OPERANDS_(\w+) ", (folder / "replayer.c").read_text(), re.MULTILINE)
    assert set(found) == {operator.name for operator in kind[2]}


def test_assertions_are_last(folder: Path) -> None:
    before, after = (folder / "replayer.c").read_text().split(f"/* {'-' * 40} assertions */\n")
    assert "_Static_assert" not in before
    assert after.count("_Static_assert") > 40
    assert "(" not in re.sub(r"/\*.*?\*/|_Static_assert[^;]*;", "", after, flags=re.DOTALL)


def test_what_nothing_needs_is_left_out(folder: Path) -> None:
    """Of the trace format's own functions and macros each is used; of those made by joining see the test above."""
    text = re.sub(r"/\*.*?\*/", "", (folder / "replayer.c").read_text(), flags=re.DOTALL)
    format = (CHECKOUT / "trace_format" / "generated" / "gramophone_trace.h").read_text()
    ours = re.findall(
        r"^#define (?!GR_(?:OPERANDS|HAS_PACKED)_)(\w+)|^static inline [^(]*?(\w+)\(", format, re.MULTILINE
    )
    for name in {name for pair in ours for name in pair if name} & set(re.findall(r"\w+", text)):
        assert len(re.findall(rf"\b{name}\b", text)) > 1, name


def test_no_comment_names_a_file_that_the_reader_lacks(folder: Path) -> None:
    """Of this repository; the virtual GPUs' files have names of Linux', which comments do name."""
    listed = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    files = [Path(name) for name in listed.splitlines() if not name.startswith(("host_tools", "tests"))]
    theirs = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    unknown = {name for path in files for name in (path.as_posix(), path.name)} - theirs
    for file in ("replayer.c", "replayer.h"):
        comments = " ".join(re.findall(r"/\*.*?\*/", (folder / file).read_text(), re.DOTALL))
        assert not set(re.findall(r"[\w/.-]*\w\.\w+", comments)) & unknown, file


def test_a_readme_says_what_is_there(folder: Path) -> None:
    """Every file at the folder's top, and every folder but OP-TEE's, is named; it is in the list of files."""
    text = (folder / "README.md").read_text()
    assert re.search(r"@[A-Z]+@", text) is None
    assert "  README.md\n" in (folder / LIST).read_text()
    if "# The replayer as firmware" not in text:
        return
    patterns = [re.escape(name).replace(r"\*", ".*") for name in re.findall(r"`([\w.*/-]+)`", text)]
    board = set(re.findall(r"\b\w+\.[chS]\b", (folder / "Makefile").read_text()))
    for path in folder.iterdir():
        name = f"{path.name}/" if path.is_dir() else path.name
        is_board = path.stem in {"rpi4", "armstub8", "hikey960", "qemu_virt"} or name in board
        assert is_board or name in ("LICENSE", "README.md") or any(re.fullmatch(p, name) for p in patterns), name
    assert 40 <= len(text.splitlines()) <= 80
