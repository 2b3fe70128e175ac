# SPDX-License-Identifier: BSD-2-Clause
"""Several commands at once on an empty cache: all of them succeed, and what they share is fetched and made once.

apt's programs are played by scripts, which give the crypto libraries from a folder; all else is as for a user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from host_tools.machine.tested import TESTED
from host_tools.runners import libraries
from tests.support import replayer_samples as s
from tests.support.firmware_samples import GCC
from tests.support.sampling import SomeOf

ROUNDS = 10
PACKAGES = ("bearssl", "rust-aws-lc-sys")
APT_GET = """#!/bin/sh
echo "$1" >> "$LOG"
case $1 in
    update) touch "$(dirname "$APT_CONFIG")/lists/mirror_Sources";;
    source) for last; do :; done; cp -r "$SOURCES/${last%%=*}" "${last%%=*}-tree";;
esac
"""
APT_CACHE = '#!/bin/sh\nfor last; do :; done\ncat "$SOURCES/$last.stanza"\n'
GENERATE = ("-m", "host_tools.cli", "generate", "--gpu", "v3d42", "--platform", "qemu-virt")
# What `replay --on qemu` and `--on unicorn` do before they boot anything.
FIRMWARE = """
import sys
from pathlib import Path
from host_tools.runners import firmware
from signing.key_files import load_public_key
print(firmware.build(load_public_key(Path(sys.argv[1]).read_bytes())).folder)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is missing: apt-get install gcc-aarch64-linux-gnu")
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    for name, text in {"apt-get": APT_GET, "apt-cache": APT_CACHE, "dpkg-source": "#!/bin/sh\n"}.items():
        (fakes / name).write_text(text)
        (fakes / name).chmod(0o755)
    trees = tmp_path / "sources"
    trees.mkdir()
    crypto = libraries.source()
    for package, tree in zip(PACKAGES, (crypto.bearssl, crypto.aws_lc), strict=True):
        assert tree is not None
        (trees / package).mkdir()
        (trees / f"{package}.stanza").write_text(f"Package: {package}\nVersion: {TESTED[package]}\n")
        for file in ("debian", "inc", "src", "LICENSE.txt", "aws-lc"):
            if (tree / file).exists():
                (trees / package / file).symlink_to(tree / file)
    path = f"{fakes}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "SOURCES": str(trees), "LOG": str(tmp_path / "log")}


def test_three_commands_on_a_cold_cache(environment: dict[str, str], tmp_path: Path, some_of: SomeOf) -> None:
    key = tmp_path / "pub.pem"
    key.write_bytes(s.KEY.pem())
    for number in some_of(range(ROUNDS), 1):
        place = tmp_path / str(number)
        place.mkdir()
        log = place / "log"
        settings = environment | {"XDG_CACHE_HOME": str(place / "cache"), "LOG": str(log)}
        lines = [[*GENERATE, "--key", str(key), "-o", str(place / "out")], *[["-c", FIRMWARE, str(key)]] * 2]
        runs = [
            subprocess.Popen(
                [sys.executable, *line], env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for line in lines
        ]
        answers = [run.communicate(timeout=300) for run in runs]
        assert [run.returncode for run in runs] == [0, 0, 0], (number, answers)
        assert log.read_text().split() == ["update", "source"] * len(PACKAGES)
        assert answers[1][0] == answers[2][0]
        assert (Path(answers[1][0].strip()) / "firmware.elf").is_file()
        kept = [path for path in (place / "cache").rglob("*") if path.name.startswith("tmp")]
        assert kept == []
