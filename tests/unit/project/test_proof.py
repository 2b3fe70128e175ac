# SPDX-License-Identifier: BSD-2-Clause
"""What the proof (`make prove`) takes from elsewhere, and its own tools."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tee_replayer.generator import profiles, target
from tee_replayer.generator.status import CORE
from tests.proof import prover
from tests.proof.__main__ import admitted, explained
from tests.proof.needed import needed
from tests.proof.prover import Run
from tests.proof.splice import ProofError, parse, splice
from tests.proof.units import DEFECTS, UNITS
from tests.support.places import CHECKOUT
from trace_format import profile
from trace_format.emit import GENERATED

SOURCE = """static int twice(int a)
{
    while (a)
        a--;
    while (a)
        a--;
    return a;
}
"""


def expected_registers(name: str) -> set[tuple[int, int, int, int]]:
    """Index, access, bits and bits that must be set, of each register by itself, from the profile."""
    found: set[tuple[int, int, int, int]] = set()
    for register in profile.load(name).by_offset.values():
        rights = (1 if register.readable else 0) | (2 if register.may_write else 0)
        limits = (register.may_set, register.replay_set)
        found |= {(register.index, access, *limits) for access in (1, 2, 3) if access & rights == access}
    return found


@pytest.mark.parametrize("name", target.drivers())
def test_the_list_of_registers_is_the_profiles(name: str, tmp_path: Path) -> None:
    """All 65,536 indices with all rights, under sanitizers: what the proof admits of gr_find_register."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc (apt-get install gcc)")
    (tmp_path / "shipped").mkdir()
    shutil.copyfile(CORE / "check.c", tmp_path / "shipped" / "check.c")
    (tmp_path / "gr_target.h").write_text(target.header(profile.load(name)))
    program = tmp_path / "register_list"
    flags = ["-std=c11", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    includes = [f"-I{folder}" for folder in (tmp_path, CORE, GENERATED)]
    source = prover.HERE / "register_list.c"
    subprocess.run([compiler, *flags, *includes, str(source), "-o", str(program)], check=True)
    lines = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.splitlines()
    assert {tuple(map(int, line.split())) for line in lines} == expected_registers(name)


def test_annotations_go_before_their_lines() -> None:
    text = (
        "@ twice: while (a)\nloop invariant a >= 0;\nloop assigns a;\n@ twice: while (a)\nassert 1;\n\nassert 2;\n"
    )
    lines = splice(SOURCE, parse(text, "f.acsl"), "f.c").splitlines()
    assert lines[2] == "/*@ loop invariant a >= 0; loop assigns a; */     while (a)"
    assert lines[4] == "/*@ assert 1; */ /*@ assert 2; */     while (a)"
    assert len(lines) == len(SOURCE.splitlines())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@ twice: until (a)\nassert 1;\n", "f.c: twice has no line .* that starts with 'until"),
        ("@ thrice: while\nassert 1;\n", "f.c: there is no function thrice"),
        ("@ twice\nassert 1;\n", "f.acsl: expected '@ FUNCTION: LINE', found 'twice'"),
        ("assert 1;\n", "f.acsl: expected a block"),
    ],
)
def test_an_annotation_without_its_place(text: str, message: str) -> None:
    with pytest.raises(ProofError, match=message):
        splice(SOURCE, parse(text, "f.acsl"), "f.c")


def test_the_list_of_open_goals_has_reasons() -> None:
    assert explained("# text\n\nlz4 v3d42 goal: because\n") == {("lz4", "v3d42", "goal"): "because"}
    with pytest.raises(ProofError, match="expected 'UNIT GPU GOAL: reason'"):
        explained("lz4 v3d42 goal\n")


def test_what_is_not_proved_is_in_the_adr() -> None:
    """Functions left out, open goals and admitted facts, each with a reason; so are the units' numbers."""
    adr = (CHECKOUT / "docs" / "adr" / "0014-proof.md").read_text()
    for unit in UNITS:
        for function in unit.left_out:
            assert f"`{function}`" in adr, function
    for _, _, goal in explained((prover.HERE / "alarms.txt").read_text()):
        assert f"`{goal}`" in adr, goal
    assert f"{admitted()} admitted facts" in adr


RUNS = prover.runs(UNITS, list(profiles.load()))
WP = [run for run in RUNS if run.unit.tool == "wp"]


@pytest.mark.parametrize("run", WP, ids=[run.words for run in WP])
def test_every_proved_function_has_a_contract(run: Run) -> None:
    """Of one without, WP assumes that it may write anything, and nothing can be proved of what calls it."""
    folder, unit = prover.HERE / "wp", run.unit
    harness = (folder / f"{unit.stem}.c").read_text()
    included = [folder / name for name in re.findall(r'^#include "(\w+\.h)"', harness, re.MULTILINE)]
    headers = [path.read_text() for path in included if path.exists()]
    contracts = re.findall(r"\*/\n[^;{/]*?\b(\w+)\(", "\n".join([harness, *headers]))
    text = prover.variant((CORE.parent / unit.source).read_text(), run.options)
    assert {*prover.functions(text)} - {*unit.left_out} - {*contracts} == set()


@pytest.mark.parametrize("run", RUNS, ids=[run.words for run in RUNS])
def test_harnesses_fit_the_shipped_files(run: Run, tmp_path: Path) -> None:
    """By gcc, because the proof is run seldom: declarations agree, and annotations name constants that exist."""
    unit = run.unit
    prover.prepare(run, tmp_path)
    (tmp_path / "__fc_builtin.h").touch()
    annotations = " ".join(re.findall("@@(.*?)@@", prover.marked(unit, tmp_path), re.DOTALL))
    names = sorted({*re.findall(r"\b[A-Z][A-Z0-9_]+\b", annotations)})
    probe = "".join(f"char {name}_[sizeof {name}];\n" for name in names)
    program = f'#include <string.h>\n#include "{prover.harness(unit)}"\n{probe}'
    command = ["gcc", "-x", "c", "-", "-fsyntax-only", "-w", *prover.options(unit, tmp_path)]
    done = subprocess.run(command, input=program, check=False, capture_output=True, text=True)
    assert not done.stderr


@pytest.mark.parametrize("source", sorted({unit.source for unit in UNITS}))
def test_every_function_is_proved_or_left_out(source: str) -> None:
    """Those of all variants of a file, whatever options of the replayer have them."""
    shipped = (CORE.parent / source).read_text()
    named: set[str] = set()
    for unit in UNITS:
        if unit.source == source:
            named |= {*unit.only, *unit.left_out}
    for run in RUNS:
        if run.unit.source == source and not run.unit.only:
            named |= {*prover.functions(prover.variant(shipped, run.options))}
    assert {*prover.functions(shipped)} - named == set()


def test_a_variant_keeps_its_lines() -> None:
    text = "a\n#ifdef GRAMOPHONE_X\nb\n#else\n#ifdef OTHER\nc\n#endif\n#endif\nd\n"
    assert prover.variant(text, set()) == "a\n\n\n\n#ifdef OTHER\nc\n#endif\n\nd\n"
    assert prover.variant(text, {"GRAMOPHONE_X"}) == "a\n\nb\n\n\n\n\n\nd\n"


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: f"{d.unit}-{d.function}")
def test_defects_have_their_place(defect: object) -> None:
    assert isinstance(defect, type(DEFECTS[0]))
    unit = next(unit for unit in UNITS if unit.name == defect.unit)
    text = (CORE.parent / unit.source).read_text()
    assert text.count(defect.text) == 1
    assert defect.function in prover.functions(text)


NEEDED = """
typedef unsigned u;
enum { WIDTH = 4, DEPTH = 9 };
enum mode { ON, OFF };
struct a { u x; u (*call)(u); @MEMBER@ };
struct b { int z; };
@@ logic integer twice(integer n) = 2 * n; @@
@@ requires p->x < WIDTH; ensures \\result == twice(p->x); @@ u f(struct a *p);
u g(void);
u f(struct a *p) { return p->call(p->x); }
u g(void) { return DEPTH; }
"""


@pytest.mark.parametrize("member", ["u y;", "struct b inner;", "enum mode mode; u many[WIDTH];"])
def test_a_member_that_nothing_names_asks_for_no_proof(member: str) -> None:
    found = needed(NEEDED.replace("@MEMBER@", member), {"f"})
    assert found == needed(NEEDED.replace("@MEMBER@", ""), {"f"})
    for name in ("twice", "WIDTH", "u x", "call", "typedef"):
        assert name in found
    for name in ("enum mode", "u g(", "struct b"):
        assert name not in found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("WIDTH = 4", "WIDTH = 5"),
        ("2 * n", "3 * n"),
        ("u x;", "int x;"),
        ("unsigned u", "long u"),
        ("p->x)", "1)"),
    ],
)
def test_what_a_proof_depends_on_asks_for_another(old: str, new: str) -> None:
    text = NEEDED.replace("@MEMBER@", "")
    assert old in text
    assert needed(text, {"f"}) != needed(text.replace(old, new), {"f"})


def test_profiles_share_proofs(tmp_path: Path) -> None:
    """The decoder is one program in all of them; what networks add makes another driver."""
    keys = {run.words: prover.key(run, tmp_path) for run in RUNS if run.unit.name in ("lz4", "v3d42")}
    assert keys["lz4 v3d42 encrypted"] == keys["lz4 v3d42 full"] != keys["lz4 v3d42 plain"]
    assert keys["v3d42 v3d42 plain"] == keys["v3d42 v3d42 optee"] != keys["v3d42 v3d42 joint"]


def test_open_goals_are_read() -> None:
    said = (
        "[wp] [Qed] Goal typed_a : Valid\n"
        "[wp] [CVC4 1.8] Goal typed_b : Timeout (5s)\n"
        "[wp] Proved goals:    1 / 2\n"
    )
    assert prover._read_wp(said, Path("log")) == (2, ("typed_b",))
    with pytest.raises(ProofError, match="no number of goals"):
        prover._read_wp("", Path("log"))


def test_statements_that_eva_does_not_reach_are_open() -> None:
    said = (
        "  In these functions, 8 statements reached (out of 9): 88% coverage.\n"
        "  1 alarm generated by the analysis:\n"
        "    Assertions        2 valid     0 unknown     0 invalid      2 total\n"
        "[eva:alarm] x/check.c:5: Warning: \n  out of bounds read.\n  assert p;\n"
    )
    assert prover._read_eva(said, Path("log")) == (
        11,
        ("1_statements_not_reached", "check.c:out_of_bounds_read._assert_p;"),
    )


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(ProofError, match="not installed: frama-c-base why3 cvc4"):
        prover.check_tools()
