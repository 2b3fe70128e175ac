# SPDX-License-Identifier: BSD-2-Clause
"""What `generate -o` does with a folder that is there, and what it takes from outside of it."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from tee_replayer import crypto
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.generated_folder import LIST
from tee_replayer.generator.options import GenerateError, Options
from tee_replayer.generator.platforms import platform_of
from tests.support import crypto_trees
from tests.support.replayer_samples import KEY

OWN_OPTEE = (
    'like = "optee"\ntitle = "Mine"\n[memory]\ncarveout = { base = 0x80000000 }\n[constants]\ngpu_spi = 7\n'
)
Generate = Callable[..., Result]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> crypto.Libraries:
    return crypto_trees.empty(tmp_path_factory.mktemp("libraries"))


@pytest.fixture
def generate(libraries: crypto.Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generate:
    monkeypatch.chdir(tmp_path)
    Path("pub.pem").write_bytes(KEY.pem())

    def run(
        *more: str, platform: tuple[str, ...] = ("--platform", "optee"), out: str = "out", gpu: str = "v3d42"
    ) -> Result:
        line = ["generate", "--gpu", gpu, *platform, "--key", "pub.pem", "-o", out, *more]
        line += ["--bearssl", str(libraries.bearssl), "--aws-lc", str(libraries.aws_lc)]
        return CliRunner().invoke(main, line, catch_exceptions=False)

    assert run().exit_code == 0
    return run


def refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 2, result.output
    assert all(part in result.stderr for part in parts), result.stderr


def contents() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}


def test_a_folder_that_nobody_touched_is_replaced(generate: Generate) -> None:
    before = contents()
    Path("out/client/gramophone_tee.o").write_bytes(b"built")
    Path("out/ta/x.ta").write_bytes(b"built")
    Path("out/README.md").unlink()
    assert generate("--min-security-version", "3").exit_code == 0
    after = contents()
    assert after.keys() == before.keys()
    assert after["out/replayer.h"] != before["out/replayer.h"]


@pytest.mark.parametrize("name", ["plain", "my out", "it's", "$HOME", "a;b"])
def test_the_next_command_can_be_pasted(name: str, generate: Generate) -> None:
    done = generate(out=name, platform=("--platform", "qemu-virt"))
    assert done.exit_code == 0, done.output
    command = done.stdout.splitlines()[-1].removeprefix("next: ")
    assert shlex.split(command) == ["make", "-C", name]
    tried = subprocess.run(["sh", "-c", f"{command} -n -p"], capture_output=True, text=True, check=False)
    assert "No such file or directory" not in tried.stderr
    assert "firmware.bin" in tried.stdout


@pytest.mark.parametrize("name", ["ta/policy.h", "sub.mk", "replayer.c"])
def test_an_edited_file_is_not_thrown_away(name: str, generate: Generate) -> None:
    with Path("out", name).open("a") as file:
        file.write("/* mine */\n")
    before = contents()
    refused(generate(), f"out: files are not as they were generated: edited: {name}; --force")
    assert contents() == before
    assert generate("--force").exit_code == 0
    assert "mine" not in Path("out", name).read_text()


def test_an_added_file_is_not_thrown_away(generate: Generate) -> None:
    Path("out/ta/notes.txt").write_text("important")
    Path("out/sub.mk").write_text("")
    refused(generate(), "edited: sub.mk; added: ta/notes.txt; ")
    assert Path("out/ta/notes.txt").read_text() == "important"


def test_a_folder_of_an_earlier_version(generate: Generate) -> None:
    Path("out", LIST).unlink()
    refused(generate(), f"an earlier version generated it, so edits in it cannot be told ({LIST} is missing)")
    assert generate("--force").exit_code == 0


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_what_was_never_generated_stays(force: tuple[str, ...], generate: Generate) -> None:
    shutil.rmtree("out")
    Path("out").mkdir()
    Path("out/thesis.txt").write_text("important")
    refused(generate(*force), "out exists and is no generated folder: name another folder")
    assert list(contents()) == ["out/thesis.txt"]


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is missing: apt-get install coreutils")
def test_the_list_is_one_for_sha256sum(generate: Generate) -> None:
    assert generate().exit_code == 0
    done = subprocess.run(["sha256sum", "--check", "--quiet", LIST], cwd="out", check=False)
    assert done.returncode == 0
    listed = {line.split("  ", 1)[1] for line in Path("out", LIST).read_text().splitlines()}
    assert listed == {str(Path(name).relative_to("out")) for name in contents()} - {LIST}


def test_a_policy_of_ones_own(generate: Generate) -> None:
    policy = Path("out/ta/policy.h").read_text().replace("{NULL}", '{"lenet", NULL}')
    Path("mine.h").write_text(policy)
    done = generate("--policy", "mine.h")
    assert done.exit_code == 0
    assert Path("out/ta/policy.h").read_text() == policy
    assert "policy.h" not in done.stderr
    assert "lets root replay" in generate().stderr


@pytest.mark.parametrize(
    ("text", "missing"), [("", "policy_clients, policy_traces, POLICY_STORAGE"), (None, "No such")]
)
def test_a_policy_that_is_none(text: str | None, missing: str, generate: Generate) -> None:
    before = contents()
    if text is not None:
        Path("mine.h").write_text(text)
    refused(generate("--policy", "mine.h"), "mine.h: ", missing)
    assert contents() == before


def test_only_a_ta_has_a_policy(generate: Generate, libraries: crypto.Libraries) -> None:
    with pytest.raises(GenerateError, match="rpi4 takes no client policy"):
        generate_sources(
            Options("v3d42", platform_of("rpi4"), KEY, libraries, policy=Path("out/ta/policy.h")), Path("rpi4")
        )


def test_a_board_of_ones_own_with_optee(generate: Generate) -> None:
    Path("mine.toml").write_text(OWN_OPTEE)
    done = generate("--json", platform=("--board", "mine.toml"))
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["platform"] == "mine"
    settings = Path("out/sub.mk").read_text()
    assert "GRAMOPHONE_CARVEOUT_BASE ?= 0x80000000\n" in settings
    assert "GRAMOPHONE_GPU_INTID ?= 39\n" in settings
    assert Path("out/mine.toml").read_text() == OWN_OPTEE
    assert " on mine; generated" in Path("out/replayer.h").read_text()


def test_interrupts_that_do_not_follow_one_another_reach_the_pseudo_ta(generate: Generate) -> None:
    Path("mine.toml").write_text(OWN_OPTEE.replace("gpu_spi = 7", "gpu_spi = [9, 8, 7]"))
    done = generate(platform=("--board", "mine.toml"), gpu="mali_g71")
    assert done.exit_code == 0, done.stderr
    assert "GRAMOPHONE_GPU_INTID ?= 0x8000002700280029\n" in Path("out/sub.mk").read_text()
    before = contents()
    words = "mine.toml: constants.gpu_spi: expected an interrupt for each line of Broadcom V3D 4.2 (v3d), found 3"
    refused(generate(platform=("--board", "mine.toml")), words)
    assert contents() == before


def test_a_board_that_contradicts_itself(generate: Generate) -> None:
    before = contents()
    Path("mine.toml").write_text(OWN_OPTEE.replace("0x80000000", "0x08000000"))
    refused(
        generate(platform=("--board", "mine.toml")),
        "mine.toml: memory.carveout (0x8000000 to 0x17ffffff) overlaps devices.gpu (0xb000000 to 0xb01ffff)",
    )
    Path("mine.toml").write_text(OWN_OPTEE.replace("0x80000000", "0xfff0000000"))
    refused(generate(platform=("--board", "mine.toml")), "mine.toml: memory.carveout", "V3D 4.2 reaches only")
    Path("mine.toml").write_text(OWN_OPTEE.replace("0x80000000", "0x80001000"))
    refused(generate(platform=("--board", "mine.toml")), "mine.toml: memory.carveout", "multiples of 2 MiB")
    assert contents() == before


def test_sharing_needs_a_firewall(generate: Generate) -> None:
    Path("mine.toml").write_text(
        'title = "Mine"\nis_silicon = false\n[memory]\ncarveout = { base = 0x80000000, bytes = 0x200000 }\n'
        "[devices]\ngpu = { base = 0, bytes = 4 }\ngic = { base = 8, bytes = 4 }\n[constants]\ngpu_spi = 1\n"
    )
    assert generate(platform=("--board", "mine.toml")).exit_code == 0
    refused(generate("--share-gpu", platform=("--board", "mine.toml")), "mine.toml: ", "devices.firewall")


@pytest.mark.parametrize(("more", "warns"), [((), False), (("--no-mmu",), True)])
def test_an_mmu_that_is_off_brings_back_what_it_forbids(
    more: tuple[str, ...], warns: bool, generate: Generate
) -> None:
    """A Raspberry Pi's mailbox is one bit from its firmware; an MMU shows it elsewhere."""
    result = generate(*more, "--force", platform=("--platform", "rpi4"))
    assert result.exit_code == 0, result.output
    assert ("without an MMU one flipped bit leads out of secure memory" in result.stderr) == warns
