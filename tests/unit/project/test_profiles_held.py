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
from tests.proof.units import UNITS
from tests.support import profile_sources
from tests.support.places import CHECKOUT
from tests.support.profile_firmware import NAMES, options_of

EVIDENCE = (CHECKOUT / "docs" / "EVIDENCE.md").read_text()
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
