# SPDX-License-Identifier: BSD-2-Clause
"""Small .pt2 files without PyTorch, right or wrong; the format is that of host_tools/extras/pytorch/program.py."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT, SHAPE = 7, (2, 3)
Saved = dict[str, Any]


def meta(shape: Sequence[int] = SHAPE, dtype: int = FLOAT) -> Saved:
    """How a tensor is described; its elements lie without gaps."""
    strides = [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]
    return {
        "dtype": dtype,
        "sizes": [{"as_int": size} for size in shape],
        "strides": [{"as_int": stride} for stride in strides],
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


def call(operator: str, made: Sequence[str], **arguments: Any) -> Saved:
    """A call; texts are names of tensors, other values are numbers or lists of such."""
    return {
        "target": f"torch.ops.{operator}",
        "inputs": [{"name": name, "arg": _argument(value), "kind": 1} for name, value in arguments.items()],
        "outputs": [{"as_tensor": {"name": name}} for name in made],
        "metadata": {},
    }


def program(
    calls: Sequence[Saved],
    *,
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    weights: Sequence[str] = (),
    values: Mapping[str, Saved] | None = None,
) -> Saved:
    """A program; its tensors are of SHAPE where `values` does not describe them."""
    made = [item["as_tensor"]["name"] for node in calls for item in node["outputs"]]
    parameters = [{"parameter": {"arg": {"name": f"p_{name}"}, "parameter_name": name}} for name in weights]
    described = {name: meta() for name in (*inputs, *made, *(f"p_{name}" for name in weights))}
    return {
        "graph_module": {
            "graph": {
                "inputs": [],
                "outputs": [],
                "nodes": list(calls),
                "tensor_values": described | dict(values or {}),
            },
            "signature": {
                "input_specs": [*parameters, *({"user_input": {"arg": _argument(name)}} for name in inputs)],
                "output_specs": [{"user_output": {"arg": _argument(name)}} for name in outputs],
            },
        },
        "schema_version": {"major": 8, "minor": 20},
        "torch_version": "2.14.1",
    }


def write(
    path: Path,
    saved: Saved | bytes,
    weights: Mapping[str, NDArray[np.float32]] | None = None,
    described: Mapping[str, Saved] | None = None,
    **members: bytes,
) -> Path:
    """Write an archive.

    Args:
        path: of the file.
        saved: the program, or what stands in its place.
        weights: by name.
        described: how they are, where that is not as `meta` says.
        members: content of others by the names that they have below the archive's folder, "/" as "__".
    """
    weights = weights or {}
    config = {
        name: {
            "path_name": f"weight_{at}",
            "is_param": True,
            "use_pickle": False,
            "tensor_meta": meta(value.shape),
        }
        | dict((described or {}).get(name, {}))
        for at, (name, value) in enumerate(weights.items())
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/models/model.json", saved if isinstance(saved, bytes) else json.dumps(saved))
        archive.writestr("net/data/weights/model_weights_config.json", json.dumps({"config": config}))
        for at, value in enumerate(weights.values()):
            archive.writestr(f"net/data/weights/weight_{at}", value.tobytes())
        for name, content in members.items():
            archive.writestr(f"net/{name.replace('__', '/')}", content)
    return path


def _argument(value: Any) -> Saved:
    if isinstance(value, dict):  # as it is
        return value
    if isinstance(value, str):
        return {"as_tensor": {"name": value}}
    if isinstance(value, bool):
        return {"as_bool": value}
    if isinstance(value, int):
        return {"as_int": value}
    return {"as_float": value} if isinstance(value, float) else {"as_ints": list(value)}
