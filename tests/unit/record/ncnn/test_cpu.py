# SPDX-License-Identifier: BSD-2-Clause
"""ncnn on the host's CPU, and the networks with random weights."""

from pathlib import Path

import numpy as np
import pytest

from docs.examples.models import MODELS, mobilenet_v1, squeezenet_v1_1
from host_tools.machine.errors import RecordError
from host_tools.record.ncnn import cpu as ncnn_cpu

MAGIC = "7767517"


def write(folder: Path, param: bytes, weights: bytes = b"") -> tuple[Path, Path]:
    (folder / "net.param").write_bytes(param)
    (folder / "net.bin").write_bytes(weights)
    return folder / "net.param", folder / "net.bin"


def relu(folder: Path) -> tuple[Path, Path]:
    return write(folder, f"{MAGIC}\n2 2\nInput data 0 1 data\nReLU out 1 1 data out\n".encode(), bytes(4))


@pytest.mark.parametrize("shape", [(5,), (3, 7), (3, 7, 5), (1, 1, 1), (2, 4, 4)])
def test_arrays_of_any_shape_pass_unchanged(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Rows and channels that are no multiple of 16 bytes: ncnn pads them."""
    data = np.random.default_rng(1).random(shape, dtype=np.float32)
    before = data.copy()
    result = ncnn_cpu.run(*relu(tmp_path), {"data": data})
    np.testing.assert_array_equal(result["out"], data)
    np.testing.assert_array_equal(data, before)


def test_several_outputs_of_one_inference(tmp_path: Path) -> None:
    text = f"""{MAGIC}
4 5
Input data 0 1 data
Split split 1 2 data a b
ReLU r 1 1 a positive
AbsVal s 1 1 b magnitude
"""
    files = write(tmp_path, text.encode(), bytes(4))
    results = ncnn_cpu.run(*files, {"data": np.array([-2, 3], np.float32)}, ["magnitude", "positive"])
    assert {name: array.tolist() for name, array in results.items()} == {"magnitude": [2, 3], "positive": [0, 3]}


def test_errors_name_the_file_or_blob(tmp_path: Path) -> None:
    files = relu(tmp_path)
    data = {"data": np.zeros(4, np.float32)}
    with pytest.raises(RecordError, match=r"nowhere\.param: file is missing"):
        ncnn_cpu.run(tmp_path / "nowhere.param", files[1], data)
    with pytest.raises(RecordError, match="no input blob 'image'"):
        ncnn_cpu.run(*files, {"image": data["data"]})
    with pytest.raises(RecordError, match="blob 'prob'"):
        ncnn_cpu.run(*files, data, ["prob"])
    with pytest.raises(RecordError, match=r"net\.param: ncnn cannot load this network"):
        ncnn_cpu.run(*write(tmp_path, b"not a network"), data)


@pytest.mark.parametrize(
    ("files", "parameters", "layers"),
    # Parameters (weights and biases) of the published networks; layers that carry them have one flag word more.
    [(mobilenet_v1(1), 4_221_032, 28), (squeezenet_v1_1(1), 1_235_496, 26)],
    ids=["mobilenet_v1", "squeezenet_v1.1"],
)
def test_networks_have_the_published_number_of_parameters(
    files: tuple[bytes, bytes], parameters: int, layers: int
) -> None:
    assert len(files[1]) == 4 * (parameters + layers)


@pytest.mark.parametrize("name", MODELS)
def test_networks_compute_sane_values(tmp_path: Path, name: str) -> None:
    make, shape = MODELS[name]
    files = write(tmp_path, *make(7))
    logits = {"mobilenet_v1": "fc", "squeezenet_v1.1": "pool10"}[name]
    inputs = [np.random.default_rng(seed).random(shape, dtype=np.float32) for seed in (1, 2)]
    first, second = (ncnn_cpu.run(*files, {"data": data}, [logits, "prob"]) for data in inputs)
    assert first["prob"].shape == (1000,)
    assert first["prob"].sum() == pytest.approx(1, abs=1e-5)
    assert 0.05 < first[logits].std() < 20  # activations neither vanish nor explode on their way
    assert not np.array_equal(first["prob"], second["prob"])
    np.testing.assert_array_equal(ncnn_cpu.run(*files, {"data": inputs[0]})["prob"], first["prob"])


def test_weights_depend_on_the_seed_alone() -> None:
    assert mobilenet_v1(3, width=0.25) == mobilenet_v1(3, width=0.25)
    assert mobilenet_v1(3, width=0.25)[1] != mobilenet_v1(4, width=0.25)[1]
    assert mobilenet_v1(3, width=0.25)[0] == mobilenet_v1(4, width=0.25)[0]
