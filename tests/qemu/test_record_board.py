# SPDX-License-Identifier: BSD-2-Clause
"""`record pi-kit` and `record pi`: the recorder at the driver's ioctls against the recorder in the device.

The recording machine takes the board's place: Debian's v3d.ko and Mesa, and the virtual GPU under them.

That takes most of a minute, with `--exhaustive`. With `make test`, tests/unit/record/test_board.py makes a kit and
reads results, and test_networks.py records the same network in the device.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.demo import PARAM, RAW, WEIGHTS
from host_tools.demo.record import SHAPES, record, same_versions
from host_tools.machine.boot import GuestJob, boot, qemu_version
from host_tools.machine.root import RecordRoot
from host_tools.passes.pipeline import build
from host_tools.record.board.kit import kit
from host_tools.record.ncnn.job import ncnn_job
from host_tools.record.shader_cache import with_shader_cache
from host_tools.record.tolerances import TOLERANCE
from host_tools.vgpu.build import qemu_plugin
from trace_format.trace import Trace


@pytest.fixture(scope="module")
def result(root: RecordRoot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the machine sends back. Its shaders are compiled already, as for other recordings of the network."""
    param, weights = PARAM.read_bytes(), WEIGHTS.read_bytes()
    files = kit(param, weights, SHAPES, name="lenet", tolerance=TOLERANCE)
    job = GuestJob(
        "cd /kit && PYTHON='python3.13 -S -B' sh run.sh && mv result.tar /out",
        {f"kit/{name}": data for name, data in files.items()},
    )
    zeros = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    plugin = qemu_plugin()
    job = with_shader_cache(job, ncnn_job(param, bytes(len(weights)), zeros), root, plugin)
    path = tmp_path_factory.mktemp("board") / "result.tar"
    path.write_bytes(boot(job, root, plugin).files["result.tar"])
    return path


@pytest.mark.exhaustive
def test_what_a_board_records_is_what_the_device_saw(result: Path, root: RecordRoot, tmp_path: Path) -> None:
    """Built, both are the same trace: actions, image, slots. `record pi` has replayed it."""
    output = tmp_path / "board.raw.gtr"
    said = CliRunner().invoke(main, ["record", "pi", str(result), "-o", str(output)], catch_exceptions=False)
    assert said.exit_code == 0, said.output
    board = Trace.read(output)
    assert board.meta["driver"].startswith("Mesa ")
    committed = Trace.read(RAW)
    here = committed.with_(notes={**root.notes, "qemu": qemu_version()})
    device = committed if same_versions(here, committed) else record()
    one, other = build(board), build(device)
    assert one.slots == other.slots
    np.testing.assert_array_equal(one.actions, other.actions)
    assert one.image == other.image
    assert (one.carveout_bytes, one.va_bytes) == (other.carveout_bytes, other.va_bytes)
