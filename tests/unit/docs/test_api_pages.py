# SPDX-License-Identifier: BSD-2-Clause
"""The API's pages, as `make api` builds them: without a warning, and with what other programs use."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import CHECKOUT

# Page: names that the page must describe. These are the seams that a program outside of this project uses.
SEAMS = {
    "gramophone.html": (
        "load",
        "Recording",
        "Recording.build",
        "Trace.sign",
        "replay",
        "verify",
        "lint",
        "new_key",
    ),
    "signing/sign.html": ("Signer", "Signer.public", "Signer.sign", "FileSigner", "sign_trace"),
    "signing/delivery.html": ("Delivery",),
    "signing/verify.html": ("verify_trace", "VerificationResult", "Verdict"),
    "signing/key_files.html": ("load_private_key", "load_public_key"),
    "signing/keys.html": ("PublicKey",),
    "trace_format/trace.html": ("Trace", "Trace.parse", "Trace.build"),
    "trace_format/slots.html": ("Slot",),
    "trace_format/actions.html": ("Action", "Columns", "rewritten"),
    "host_tools/runners/replay.html": ("ReplayRequest", "ReplayResult", "Runner"),
    "host_tools/passes/pipeline.html": ("build", "Step"),
    "tee_replayer/generator/generate.html": ("generate",),
    "tee_replayer/generator/options.html": ("Options", "Platform"),
}


# Without --exhaustive the pages of this package are built, without sources, whose colours take longest.
SOME = ("gramophone", "signing")
PAGES = [pytest.param(page, marks=[] if page.startswith(SOME) else [pytest.mark.exhaustive]) for page in SEAMS]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("api")
    (recipe,) = re.findall(
        r"^\tDEV=PYTHON \$\(BIN\)/python (.* pdoc .*)$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE
    )
    command = [sys.executable, "-W", "error", *shlex.split(recipe.replace("build/api", str(folder)))]
    if not request.config.getoption("--exhaustive"):
        command = [*command[: command.index(SOME[0])], "--no-show-source", *SOME]
    done = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, check=False, env={**os.environ, "DEV": "PYTHON"}
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_a_seam_is_described(page: str, pages: Path) -> None:
    text = (pages / page).read_text(encoding="utf-8")
    for name in SEAMS[page]:
        section = text.partition(f'<section id="{name}">')[2] or text.partition(f'<div id="{name}"')[2]
        assert 'class="docstring"' in section.partition("</section>")[0].partition('<div id="')[0], name


@pytest.mark.exhaustive  # they all have to be built
def test_the_index_leads_to_every_package(pages: Path) -> None:
    index = (pages / "index.html").read_text(encoding="utf-8")
    for name in ("signing", "trace_format", "tee_replayer", "host_tools/runners", "host_tools/passes"):
        assert f'href="{name}.html"' in index, name
