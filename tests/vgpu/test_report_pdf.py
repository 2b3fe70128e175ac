# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone report --pdf`: what is asked of a browser, and what becomes of its failures."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from host_tools.audit.report import pdf
from host_tools.cli import main
from tests.support import replayer_samples as s

REFUSED = 1  # the sample has warnings; the report is written all the same


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.gtr").write_bytes(s.trace().build())
    return tmp_path


def run() -> Result:
    return CliRunner().invoke(main, ["report", "net.gtr", "--no-run", "--pdf", "report.pdf"])


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program with Chromium's name, and nothing else on the path that could be one."""
    programs = folder / "programs"
    programs.mkdir()
    # With clang, where it is there: another compiler would compile a virtual GPU of its own.
    for name in ("sh", "cat", "sleep", "cc", "clang", "as", "ld"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    if script:
        path = programs / "chromium"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))


PRINTS = """
for word; do case $word in
    --print-to-pdf=*) target=${word#*=} ;;
    --user-data-dir=*) profile=${word#*=} ;;
    file://*) source=${word#file://} ;;
esac; done
test ! -e "$profile" || exit 3
{ echo "%PDF $*"; cat "$source"; } > "$target"
"""


def test_what_the_browser_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(folder, monkeypatch, PRINTS)
    assert run().exit_code == REFUSED
    printed = Path("report.pdf").read_text()
    assert printed.startswith("%PDF --headless --disable-gpu ")
    assert "--host-resolver-rules=MAP * ~NOTFOUND" in printed
    assert len(re.findall("<details", printed)) == len(re.findall('<details[^>]* open=""', printed)) > 0
    command = printed.partition("\n")[0]
    for root in (True, False):
        monkeypatch.setattr("os.geteuid", lambda root=root: 0 if root else 1000)
        assert run().exit_code == REFUSED
        command = Path("report.pdf").read_text().partition("\n")[0]
        assert ("--no-sandbox" in command) == root


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("", r"cannot write a PDF: Chromium is not installed \(apt-get install chromium\)"),
        ("echo first; echo last >&2; exit 7", r".*/chromium made no PDF \(exit status 7\): last"),
        ("exit 0", r".*/chromium made no PDF \(exit status 0\): it said nothing"),
        ("sleep 100", r".*/chromium made no PDF within 0.5 s"),
    ],
)
def test_no_pdf(script: str, sentence: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(folder, monkeypatch, script)
    real, limit = pdf.pdf, 0.5 if "sleep" in script else 60
    monkeypatch.setattr(
        "host_tools.commands.report.pdf",
        lambda page, program: real(page, program, limit),
    )
    done = run()
    assert done.exit_code == 2
    assert re.fullmatch(f"error: {sentence}\n", done.stderr)
    assert not Path("report.pdf").exists()


def test_chromium_prints_it() -> None:
    assert run().exit_code == REFUSED
    data = Path("report.pdf").read_bytes()
    assert data.startswith(b"%PDF-")
    assert data.rstrip().endswith(b"%%EOF")
    assert len(re.findall(rb"/Type */Page\b", data)) >= 2
