# SPDX-License-Identifier: BSD-2-Clause
"""What ncnn's CPU code makes of each layer: jobs are named after these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from host_tools.record.job_layers import Result, sums
from host_tools.record.ncnn import cpu
from host_tools.record.ncnn.param import layers_of, leading_to

COPIES = ("Input", "Split")  # layers that compute nothing


def layer_results(
    network: tuple[bytes, bytes], until: Sequence[str], inputs: Mapping[str, NDArray[np.float32]]
) -> list[Result]:
    """The results of a network's layers.

    Args:
        network: ncnn's text and binary files.
        until: blobs to compute; empty: all.
        inputs: by blob.

    Raises:
        RecordError: ncnn does not compute one.
    """
    layers = leading_to(layers_of(network[0].decode()), list(until))
    made = [(layer, top) for layer in layers if layer.type not in COPIES for top in layer.tops]
    blobs = cpu.run_files(network, inputs, [top for _, top in made])
    return [Result(layer.name, layer.type, layer.bottoms, top, sums(blobs[top])) for layer, top in made]
