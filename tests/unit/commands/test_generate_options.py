# SPDX-License-Identifier: BSD-2-Clause
"""`generate DEVICE.toml`: the same folder as the options that it replaces, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.cli import main
from host_tools.commands.generate import generate_command
from signing import key_files
from tee_replayer.crypto import Libraries
from tee_replayer.generator import profiles
from tests.support import crypto_trees, device_files
from tests.support.bad_input import FLEET
from tests.support.replayer_samples import ES256, KEY
from trace_format.toml_table import Table

OPERATORS = ("copy", "matmul", "flip")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    return crypto_trees.empty(tmp_path_factory.mktemp("libraries"))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(tmp_path, "pub.pem").write_bytes(KEY.pem())
    Path(tmp_path, "fleet.gtp").write_bytes(FLEET)
    Path(tmp_path, "fleet.pem").write_bytes(key_files.private_pem(ES256.key))
    monkeypatch.chdir(tmp_path)


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["generate", *map(str, words)], catch_exceptions=False)


def contents(folder: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@st.composite
def devices(draw: st.DrawFn) -> tuple[list[str], dict[str, Any]]:
    """Old options, and the rows of a device file that say the same."""
    words, rows, features = ["--gpu", "v3d42"], dict[str, Any](gpu="v3d42"), dict[str, Any]()

    def option(chance: bool, more: list[str], key: str, value: Any, table: dict[str, Any] = rows) -> None:
        if chance:
            words.extend(more)
            table[key] = value

    some = st.booleans()
    platform = draw(st.sampled_from(["qemu-virt", "linux", "optee"]))
    option(True, ["--platform", platform], "platform", platform)
    trust = draw(some)
    file = "fleet.gtp" if trust else "pub.pem"
    option(True, ["--key", file], "trust_policy" if trust else "key", file)
    option(trust and draw(some), ["--device-id", "12" * 16], "device_id", "12" * 16)
    option(trust and draw(some), ["--algorithm", "eddsa"], "algorithms", ["eddsa"])
    option(draw(some), ["--min-security-version", "3"], "min_security_version", 3)
    option(platform != "linux" and draw(some), ["--carveout-mib", "64"], "carveout_mib", 64)
    option(platform == "qemu-virt" and draw(some), ["--mmu"], "mmu", True)
    option(platform == "optee" and draw(some), ["--share-gpu"], "share_gpu", True)
    if trust:
        features["trust"] = True
    bare, process = platform == "qemu-virt", platform == "linux"
    networks = draw(st.sampled_from([0, 2, 5]))
    option(bool(networks), ["--networks", str(networks)], "networks", networks, features)
    option(draw(some), ["--steps"], "steps", True, features)
    option(bool(networks) and draw(some), ["--schedule", "4"], "schedule", 4, features)
    if "schedule" in features:
        features["steps"] = True
    chosen = sorted(draw(st.sets(st.sampled_from(OPERATORS)))) if not process else []
    option(bool(chosen), [w for name in chosen for w in ("--operator", name)], "operators", chosen, features)
    option(not process and draw(some), ["--decrypts"], "encryption", True, features)
    option("encryption" in features and draw(some), ["--fleet-key", "fleet.pem"], "fleet_key", "fleet.pem")
    evidence = draw(st.sampled_from([[], ["hashes"], ["hashes", "attestations"], ["attestations"]]))
    if not process and not networks and draw(some):
        names = {"hashes": "--log-hashes", "attestations": "--attest"}
        option(True, ["--replay-log", *(names[name] for name in evidence)], "evidence", evidence or True, features)
    option(bare and draw(some), ["--rollback-store"], "store", True, features)
    profile = profiles.read(Table(features, "", profiles.FeatureError)).profile
    if profile and draw(some):
        rows["profile"] = profile
    rows["features"] = features
    return words, rows


@settings(max_examples=25, deadline=None)
@given(device=devices())
def test_old_options_and_a_device_file_write_the_same(
    libraries: Libraries, device: tuple[list[str], dict[str, Any]]
) -> None:
    words, rows = device
    trees = ["--bearssl", libraries.bearssl, "--aws-lc", libraries.aws_lc]
    old = run(*words, *trees, "-o", "old", "--force")
    file = device_files.written(Path(), libraries, **{**dict.fromkeys(device_files.PLAIN), **rows})
    new = run(file, "-o", "new", "--force", "--untested")
    assert (old.exit_code, new.exit_code) == (0, 0), old.output + new.output
    assert contents("old") == contents("new")
    assert "deprecated" not in new.stderr
    printed = old.stderr.partition("this device file says the same (docs/DEVICE-FILE.md):\n")[2]
    said = [line for line in printed.splitlines() if not line.startswith("warning: ")]
    Path("printed.toml").write_text("\n".join(said))
    again = run("printed.toml", "-o", "again", "--force", "--untested")
    assert again.exit_code == 0, again.output
    assert contents("again") == contents("new")


def test_old_options_are_said_to_be_deprecated_and_are_in_no_help(libraries: Libraries) -> None:
    trees = ["--bearssl", libraries.bearssl, "--aws-lc", libraries.aws_lc]
    done = run("--gpu", "v3d42", "--platform", "qemu-virt", "--key", "pub.pem", *trees, "-o", "out", "--json")
    assert json.loads(done.stdout)["warnings"] == [
        "options that say what to generate are deprecated: 'gramophone generate' takes a device file"
    ]
    shown = [param for param in generate_command.params if not getattr(param, "hidden", False)]
    named = {opt for param in shown for opt in param.opts} - {"--verbose", "-v", "--quiet", "-q", "--log"}
    assert named == {"device_file", "-o", "--output", "--force", "--untested", "--json"}
    assert "--gpu" not in run("--help").stdout


def test_features_that_are_no_profile_need_a_word(libraries: Libraries) -> None:
    file = device_files.written(Path(), libraries, profile=None, features={"steps": True, "store": True})
    refused = run(file, "-o", "out")
    assert (refused.exit_code, Path("out").exists()) == (2, False)
    assert refused.stderr == (
        "error: device.toml: expected the features of a profile, found an untested combination: steps, store; "
        "--untested allows it\n"
    )
    done = run(file, "-o", "out", "--untested", "--json")
    answer = json.loads(done.stdout)
    assert (answer["profile"], answer["features"]) == (None, ["steps", "store"])
    assert any("found an untested combination: steps, store" in text for text in answer["warnings"])
    assert "## Untested combination" in Path("out/README.md").read_text()


def test_a_profile_is_named(libraries: Libraries) -> None:
    answer = json.loads(
        run(device_files.written(Path(), libraries, profile="joint"), "-o", "out", "--json").stdout
    )
    assert (answer["profile"], answer["features"]) == ("joint", ["networks"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"device_id": "12" * 16}, "device.toml: device_id: expected the feature trust"),
        ({"platform": "rpi4", "profile": "logged"}, "device.toml: rpi4.toml: a replay log needs a place"),
        ({"profile": "encrypted", "key": None, "trust_policy": "fleet.gtp", "fleet_key": "pub.pem"}, "pub.pem: "),
        ({"bearssl": "."}, ".: not a BearSSL source tree"),
    ],
)
def test_all_is_checked_before_the_first_byte(libraries: Libraries, rows: dict[str, Any], message: str) -> None:
    before = sorted([*Path().iterdir(), Path("device.toml")])
    file = device_files.written(Path(), None if "bearssl" in rows else libraries, **rows)
    refused = run(file, "-o", "out")
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"error: {message}")
    assert sorted(Path().iterdir()) == before


def test_a_record_is_no_device_file(libraries: Libraries) -> None:
    assert run(device_files.written(Path(), libraries), "-o", "out").exit_code == 0
    refused = run("out/device.toml", "-o", "again")
    assert refused.stderr == (
        "error: out/device.toml: the record of a generated folder has no keys: expected key = FILE, found key_id\n"
    )
