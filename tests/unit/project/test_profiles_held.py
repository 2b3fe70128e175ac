# SPDX-License-Identifier: BSD-2-Clause
"""A profile that is added to profiles.toml is proved, fuzzed, attacked and given hostile traces: all of these take
their tables from it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from host_tools.runners import libraries
from tee_replayer.crypto import SEAMS
from tee_replayer.generator import amalgamate, profiles
from tee_replayer.generator.decryption import HAS_SECRET
from tee_replayer.generator.generate import generate
from tee_replayer.generator.status import CORE
from tests.proof import prover
from tests.proof.units import UNITS
from tests.support import profile_sources
from tests.support.places import CHECKOUT
from tests.support.profile_firmware import NAMES, options_of

EVIDENCE = (CHECKOUT / "docs" / "EVIDENCE.md").read_text()
RUNS = prover.runs(UNITS, list(profiles.load()))
# In a process of its own, with a profile more.
_WITH_ANOTHER = """
import pathlib, sys
from tee_replayer.generator import profiles
profiles.FILE = pathlib.Path(sys.argv[1])
from tests.campaign.__main__ import PROFILES
from tests.emulated.test_fault_injection import EACH_PROFILE
from tests.emulated.test_profiles import CASES
from tests.fuzz import targets
from tee_replayer.generator.status import CORE
from tests.proof import prover
from tests.proof.units import UNITS
print("proof" if any(run.profile == "dummy" for run in prover.runs(UNITS, list(profiles.load()))) else "")
print("fuzz" if "core-dummy-v3d42" in targets.available() else "")
print("campaign" if "dummy" in PROFILES and "dummy" in EACH_PROFILE else "")
print("hostile" if any(name == "dummy" for name, _ in CASES) else "")
"""


def test_another_profile_is_held_to_the_same(tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text(f'{profiles.FILE.read_text()}\n[dummy]\nuse = "None."\nfeatures = {{ steps = true }}\n')
    command = [sys.executable, "-c", _WITH_ANOTHER, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CHECKOUT)
    assert done.stdout.split() == ["proof", "fuzz", "campaign", "hostile"], done.stderr


def test_each_profile_is_in_evidence() -> None:
    """By name, with the command of its proof, its fuzz target, its campaign and its hostile traces."""
    rows = re.findall(r"^\| The profile `(\w+)` .*$", EVIDENCE, re.MULTILINE)
    assert rows == list(profiles.load())
    for name in rows:
        for command in (
            f"tests.proof --profile {name}",
            f"`core-{name}-v3d42`",
            f"tests.campaign --profile {name}",
            f"test_profiles.py -k {name}",
        ):
            assert command in EVIDENCE, command


@pytest.mark.parametrize("name", NAMES)
def test_what_is_proved_and_fuzzed_has_the_options_of_the_firmware(name: str, tmp_path: Path) -> None:
    try:
        libraries.source()
    except OSError as error:
        pytest.skip(f"the crypto libraries' sources cannot be fetched: {error}")
    header = (generate(options_of(name, "v3d42"), tmp_path / "out") / "replayer.h").read_text()
    ours = profile_sources.defines(profiles.named(name).features)
    numbers = {line for line in ours.splitlines() if re.search(r"(NETWORKS|SCHEDULE) \d+$", line)}
    assert numbers <= {*header.splitlines()}
    theirs = {option for option in amalgamate.options(header) if option.startswith("GRAMOPHONE_")}
    of_policy = {macro for _, macro in SEAMS.values()}
    assert theirs - of_policy - {"GRAMOPHONE_REPLAYER_H", HAS_SECRET} == amalgamate.options(ours) - of_policy


def test_units_of_a_profile_are_its_files() -> None:
    """A C file of the core or a feature that no unit proves is named in ADR 0014 as not proved."""
    proved = {CORE.parent / unit.source for unit in UNITS}
    for name in profiles.load():
        for path in profile_sources.sources(profiles.named(name).features):
            assert path in proved or path.parent.name == "operators", path


def _not_proved(name: str) -> dict[str, str]:
    """Functions of a profile's files that no unit proves as that profile has them, and why."""
    found = {}
    for unit in UNITS:
        here = [run for run in RUNS if (run.profile, run.unit.source) == (name, unit.source)]
        if not here:
            continue
        text = prover.variant((CORE.parent / unit.source).read_text(), here[0].options)
        proved = {
            function
            for run in here
            for function in run.unit.only or prover.functions(text)
            if function not in run.unit.left_out
        }
        others = [other for other in UNITS if other.source == unit.source]
        has = profiles.named(name).features.names
        why = [reason for other in others for feature, reason in other.not_with.items() if feature in has]
        for function in {*prover.functions(text)} - proved:
            reasons = [other.left_out[function] for other in others if function in other.left_out]
            found[f"{unit.source}: {function}"] = "; ".join([*reasons, *why])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_what_a_profile_lacks_of_the_proof_has_a_reason(name: str) -> None:
    """A function is proved as the profile has it, or a unit says why not; a file of which a unit is missing there
    is named in the profile's row of EVIDENCE, which also has the number of its proofs.
    """
    without = _not_proved(name)
    assert all(without.values()), without
    row = next(line for line in EVIDENCE.splitlines() if line.startswith(f"| The profile `{name}` "))
    assert f"all {sum(run.profile == name for run in RUNS)} runs of units" in row
    has = profiles.named(name).features
    files = profile_sources.sources(has)
    for unit in UNITS:
        if {*unit.not_with} & {*has.names} and CORE.parent / unit.source in files:
            assert f"`{unit.name}`" in row, unit.name
