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
from host_tools.extras.bringup.probes import probe, written_pages
from host_tools.extras.try_gpu.pack import COMPATIBLE, GPUS, NETWORKS, OBJECTS, TOP, PackError, pack
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.record.self_test import NETWORKS as SELF_TESTS
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
    line = ["try-gpu", "--pack", f"{folder}/pi.tar", "--trace", f"{folder}/small.gtr", "--json"]
    done = CliRunner().invoke(main, line, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    data = (folder / "pi.tar").read_bytes()
    assert said["bytes"] == len(data)
    assert {gpu: (row["lenet"], row.get("small")) for gpu, row in said["networks"].items()} == {
        "v3d42": (14, 1),
        "v3d71": (14, None),
    }
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = {member.name: tar.extractfile(member) for member in tar}
    assert all(name.startswith(f"{TOP}/") for name in members)
    assert list(members)[-1] == f"{TOP}/v3d71/networks.txt"  # by which the script sees that nothing is cut off
    return {name.removeprefix(f"{TOP}/"): file.read() for name, file in members.items() if file is not None}


@pytest.mark.parametrize("gpu", GPUS)
def test_each_network_has_its_outputs(files: dict[str, bytes], gpu: str) -> None:
    rows = [line.split() for line in files[f"{gpu}/networks.txt"].decode().splitlines()]
    own = [["small.sgtr", "out"]] if gpu == "v3d42" else []
    assert {trace for trace, *_ in rows} == {f"{name}.sgtr" for name in ("lenet", "jobs", *SELF_TESTS)} | {
        trace for trace, *_ in own
    }
    assert ["lenet.sgtr", "prob"] in rows
    expected = {
        f"{gpu}/expected/{trace.removesuffix('.sgtr')}.{slot}.npy" for trace, *slots in rows for slot in slots
    }
    assert {name for name in files if name.startswith(f"{gpu}/expected/")} == expected
    prob = np.load(io.BytesIO(files[f"{gpu}/expected/lenet.prob.npy"]))
    assert prob.argmax() == 8
    assert {Delivery(files[f"{gpu}/{trace}"]).signed.signed_by for trace, *_ in rows} == {
        Delivery(files["v3d42/lenet.sgtr"]).signed.signed_by
    }


def test_the_committed_lenet_is_the_recordings() -> None:
    """The demo's is built when it is packed; a recording for the V3D 7.1 is the tests'."""
    data = COMMITTED["v3d71"].read_bytes()
    built = build(Trace.parse(data), source=data, skip=KEEP_INPUTS)
    assert built.build() == (NETWORKS / "v3d71/lenet.gtr").read_bytes()


@pytest.mark.parametrize("gpu", GPUS)
def test_the_committed_probe_is_that_of_its_lenet(files: dict[str, bytes], gpu: str) -> None:
    """`gramophone prove make LENET -o jobs.gtr` makes it again."""
    lenet = Delivery(files[f"{gpu}/lenet.sgtr"]).trace
    assert lenet
    assert probe(lenet, written_pages(lenet, {})).build() == (NETWORKS / gpu / "jobs.gtr").read_bytes()


@pytest.mark.parametrize("gpu", GPUS)
def test_it_compiles_without_warnings(files: dict[str, bytes], tmp_path: Path, gpu: str) -> None:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    own = {name.removeprefix(f"{gpu}/"): data for name, data in files.items() if name.startswith(f"{gpu}/")}
    for name, data in own.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    command = ["make", "-s", "CROSS_COMPILE=aarch64-linux-gnu-", "EXTRA_CFLAGS=-Werror", "gramophone-gpu"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert all((tmp_path / name).is_file() for name in OBJECTS.split())
    assert not {"uio.c", "take.c"} & own.keys()
    assert f'"{own[COMPATIBLE].decode().strip()}"' in own["devmem_target.h"].decode()


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
    with pytest.raises(PackError, match="GPU of the trace: expected v3d42 or v3d71, found mali_g71"):
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
