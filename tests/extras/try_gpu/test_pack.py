# SPDX-License-Identifier: BSD-2-Clause
"""The archive of `try-gpu`: what is in it, that it compiles, and networks that it refuses."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.try_gpu.pack import OBJECTS, TOP, PackError, pack
from host_tools.passes.pipeline import build
from signing.delivery import Delivery
from tests.support import replayer_samples as s
from tests.support.bare_metal import COMPILER, require
from tests.support.networks import COMMITTED
from trace_format.trace import Trace


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The archive's files, with a network of ours besides."""
    folder = tmp_path_factory.mktemp("pack")
    (folder / "small.gtr").write_bytes(s.trace().build())
    line = ["try-gpu", "--pack", f"{folder}/pi4.tar", "--trace", f"{folder}/small.gtr", "--json"]
    done = CliRunner().invoke(main, line, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    data = (folder / "pi4.tar").read_bytes()
    assert (said["bytes"], said["networks"]["lenet"], said["networks"]["small"]) == (len(data), 14, 1)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = {member.name: tar.extractfile(member) for member in tar}
    assert all(name.startswith(f"{TOP}/") for name in members)
    return {name.removeprefix(f"{TOP}/"): file.read() for name, file in members.items() if file is not None}


def test_each_network_has_its_outputs(files: dict[str, bytes]) -> None:
    rows = [line.split() for line in files["networks.txt"].decode().splitlines()]
    assert rows[0] == ["lenet.sgtr", "prob"]
    assert rows[-1] == ["small.sgtr", "out"]
    expected = {f"expected/{trace.removesuffix('.sgtr')}.{slot}.npy" for trace, *slots in rows for slot in slots}
    assert {name for name in files if name.startswith("expected/")} == expected
    prob = np.load(io.BytesIO(files["expected/lenet.prob.npy"]))
    assert prob.argmax() == 8
    assert {Delivery(files[trace]).signed.signed_by for trace, *_ in rows} == {
        Delivery(files["lenet.sgtr"]).signed.signed_by
    }


def test_it_compiles_without_warnings(files: dict[str, bytes], tmp_path: Path) -> None:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    command = ["make", "-s", "CROSS_COMPILE=aarch64-linux-gnu-", "EXTRA_CFLAGS=-Werror", "gramophone-gpu"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert all((tmp_path / name).is_file() for name in OBJECTS.split())
    assert not {"uio.c", "take.c"} & files.keys()


def test_the_owner_reads_what_is_promised_and_what_to_type(files: dict[str, bytes]) -> None:
    readme = files["README.txt"].decode()
    assert "it keeps nothing\nsecret, for it has no memory firewall" in readme
    script = files["try-gpu.sh"].decode()
    options = set(re.findall(r"try-gpu\.sh (--[a-z-]+)", readme))
    assert options == set(
        re.findall(r"(--[a-z-]+)", script.partition('case ${1:-} in\n"" | ')[2].partition(")")[0])
    )


def test_a_network_of_another_gpu(tmp_path: Path) -> None:
    path = tmp_path / "mali.gtr"
    path.write_bytes(build(Trace.read(COMMITTED["mali_g71"])).build())
    with pytest.raises(PackError, match="GPU of the trace: expected v3d42, found mali_g71"):
        pack([path])


def test_a_network_without_a_value(tmp_path: Path) -> None:
    path = tmp_path / "open.gtr"
    path.write_bytes(s.trace(slots=s.slots(bound=False)).build())
    with pytest.raises(
        PackError, match=r"no value for in; 'gramophone build --keep-inputs' keeps recorded inputs"
    ):
        pack([path])


@pytest.mark.parametrize("name", ["lenet", "two words"])
def test_a_name_that_is_none(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.gtr"
    path.write_bytes(s.trace().build())
    with pytest.raises(PackError, match="name of the file: expected letters, digits"):
        pack([path])
