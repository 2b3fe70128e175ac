# SPDX-License-Identifier: BSD-2-Clause
"""GPUReplay's public recordings with weights, and NumPy's opinion of what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from docs.examples import mnist
from docs.examples.reference import forward
from host_tools import runners
from host_tools.demo.digits import Digits, DigitsError
from host_tools.demo.digits import load as load_digits
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.extras.importers.networks import file
from host_tools.extras.importers.networks.weights import describe, read_weights, with_weights
from host_tools.passes.pipeline import build
from signing.delivery import Delivery
from signing.sign import FileSigner, sign_trace
from trace_format.trace import Trace

TOLERANCE = 1e-5  # of a probability; single precision
HELD_OUT = 1000  # digits that nothing was trained with


def weighted(folder: Path, weights: bytes) -> Trace:
    """The recording in a folder that is called as its network, with the weights of a .npz file."""
    network = file.load(folder.name)
    return with_weights(describe(import_gpureplay(folder, folder.name), network), weights, "w.npz", network)


def made_up(network: file.Network, generator: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Weights with which numbers neither vanish nor explode (He et al., 2015); no batch norm is an identity."""
    tensors = {}
    for slot in network.parameters.values():
        values = generator.standard_normal(slot.shape, np.float32)
        match slot.name.rpartition(".")[2]:
            case "weight":
                values *= np.float32(np.sqrt(2 * slot.sizes["out"] / values.size))
            case "variance" | "gamma":
                values = np.float32(0.75) + np.float32(0.5) * generator.random(slot.shape, np.float32)
            case _:
                values *= np.float32(0.1)
        tensors[slot.name] = values
    return tensors


def held_out() -> Digits:
    """The digits of the test split; a skip where they cannot be fetched."""
    try:
        return mnist.split(mnist.read(mnist.fetch()))[1]
    except DigitsError as error:
        pytest.skip(str(error))


def signed_mnist(recordings: Path, weights: bytes, signer: FileSigner) -> bytes:
    """mnist with these weights, built with all passes and signed."""
    return sign_trace(build(weighted(recordings / "mnist", weights)).build(), signer)


def mnist_by_numpy(weights: bytes, pictures: NDArray[np.float32]) -> NDArray[np.float32]:
    """NumPy's probabilities of pictures, (n, 28, 28)."""
    network = file.load("mnist")
    return forward(network, read_weights(weights, "w.npz", network), pictures)


def check_held_out(
    recordings: Path, weights: bytes, runner: str, signer: FileSigner, which: Sequence[int], **options: Any
) -> None:
    """Some held-out digits on a runner, one replay after the other: NumPy's probabilities and classes."""
    pictures = held_out().inputs()[list(which), 0]
    result = runners.run(
        runner,
        Delivery(signed_mnist(recordings, weights, signer)),
        signer.public,
        series={"input": pictures},
        each=frozenset({"output"}),
        repeat=len(pictures),
        **options,
    )
    assert result.ok, result.error
    assert (result.retries, result.compute) == (0, "full")
    found, expected = result.outputs["output"], mnist_by_numpy(weights, pictures)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    assert (found.argmax(1) == expected.argmax(1)).all()


def check_digits(recordings: Path, weights: bytes, runner: str, signer: FileSigner, **options: Any) -> None:
    """Three digits on a runner, each a session of its own: NumPy's probabilities, and the right class."""
    digits, signed = load_digits()[7:10], signed_mnist(recordings, weights, signer)
    pictures = digits.inputs()[:, 0]
    found = []
    for picture in pictures:
        result = runners.run(runner, Delivery(signed), signer.public, {"input": picture}, **options)
        assert result.ok, result.error
        assert (result.retries, result.compute) == (0, "full")
        found.append(result.outputs["output"])
    expected = mnist_by_numpy(weights, pictures)
    np.testing.assert_allclose(np.stack(found), expected, atol=TOLERANCE)
    assert (np.stack(found).argmax(1) == digits.labels).all()
