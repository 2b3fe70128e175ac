# SPDX-License-Identifier: BSD-2-Clause
"""The inputs that a network is recorded with: two that betray where its tensors are, a third that checks it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.record.differences import relative_difference
from host_tools.record.preflight import NetworkError
from host_tools.record.tolerances import TOLERANCE
from trace_format.errors import listed, meant, printable

Float32 = NDArray[np.float32]
Tensors = dict[str, Float32]
Shapes = Mapping[str, tuple[int, ...]]
Compute = Callable[[Tensors], Tensors]  # what a framework makes of inputs, on the CPU
INPUT_SEEDS = (1, 2)
CHECK_SEED = 300  # and those after it
FEW_VALUES, CHECKS_OF_LITTLE = 8, 8  # outputs of fewer values than that are compared for so many inputs
MORE_SEEDS = (4, 5, 6, 7)  # tried where the second input gives the same outputs as the first
LARGEST = 1e30  # number: ncnn's CPU code has 2.4e38 where a power of a negative one is none
WIDTHS = (1.0, 4.0, 16.0)  # standard deviations of inputs with both signs


def random_inputs(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Float32]:
    """Inputs of distinct values in (0, 1), which can be followed through memory."""
    generator = np.random.default_rng(seed)
    return {name: generator.random(shape, dtype=np.float32) for name, shape in shapes.items()}


def recorded_inputs(shapes: Shapes) -> tuple[Tensors, Tensors]:
    """The two inputs of a recording, if nothing speaks against them."""
    first, second = (random_inputs(shapes, seed) for seed in INPUT_SEEDS)
    return first, second


def no_input(name: str, names: Iterable[str]) -> str:
    """Of a name that no input has, with those that there are."""
    return f"no input {printable(name)!r}{meant(name, names)}; the network has {listed(names)}"


def check_fits(name: str, value: NDArray[Any], dtype: str) -> None:
    """Refuse a value that would be another one as the input has it: 0.5 of a whole number, 300 of 8 bits.

    Raises:
        NetworkError: names the input.
    """
    wanted = np.dtype(dtype)
    if wanted.kind == "f" and value.dtype.kind in "fiub":
        return  # it is rounded
    with np.errstate(all="ignore"):
        changed = value[np.asarray(value.astype(wanted) != value)]
    if changed.size:
        raise NetworkError(f"input {name}: expected values that are {dtype}, found {changed.flat[0]}")


def check_values(
    values: Mapping[str, NDArray[Any]], shapes: Shapes, types: Mapping[str, str] | None = None
) -> None:
    """Refuse values of inputs that the network does not have, or not in these shapes and types; None: float32.

    Raises:
        NetworkError: names the input.
    """
    for name, value in values.items():
        if name not in shapes:
            raise NetworkError(no_input(name, shapes))
        if value.shape != shapes[name]:
            text, found = ("x".join(map(str, shape)) or "a number" for shape in (shapes[name], value.shape))
            raise NetworkError(f"input {name}: expected a value of shape {text}, found {found}")
        check_fits(name, value, types[name] if types else "float32")


def telling_inputs(
    shapes: Shapes, compute: Compute, constant: Collection[str] = (), values: Mapping[str, Float32] | None = None
) -> tuple[Tensors, Tensors]:
    """Two inputs that give other outputs, so that these can be told from what does not depend on inputs.

    Args:
        shapes: of the inputs.
        compute: the network.
        constant: outputs that may be the same.
        values: of inputs in the first of the two, in place of random ones.

    Raises:
        NetworkError: names the outputs that are the same for all inputs that were tried, or those of which none of
            these inputs makes all differ.
    """
    first = random_inputs(shapes, INPUT_SEEDS[0]) | dict(values or {})
    expected = compute(first)
    names = [name for name in expected if name not in constant]
    best, least, tried = first, 0.0, 1
    same: set[str] = set(names)
    for second in _candidates(shapes):
        found = compute(second)
        differences = {name: _difference(found[name], expected[name]) for name in names}
        if min(differences.values(), default=1.0) > TOLERANCE:
            return first, second
        same &= {name for name, difference in differences.items() if not difference}
        if (smallest := min(differences.values())) > least:
            best, least = second, smallest
        tried += 1
    if least:
        return first, best
    if not same:
        raise NetworkError(
            f"outputs {listed(names)}: each differs for some of the {tried} random inputs that were tried, "
            "but all of them for none; record the network with fewer outputs"
        )
    raise NetworkError(
        f"output {listed(sorted(same))}: the same for all {tried} random inputs that were tried, so that "
        f"nothing shows where it lies in memory; record the network without it"
    )


def _candidates(shapes: Shapes) -> Iterator[Tensors]:
    """For the second input: with both signs first, for what is positive may be alike before and after a layer."""
    yield normal_inputs(shapes, INPUT_SEEDS[1])
    for seed in (INPUT_SEEDS[1], *MORE_SEEDS):
        yield random_inputs(shapes, seed)
    for width in WIDTHS[1:]:
        for seed in MORE_SEEDS:
            yield normal_inputs(shapes, seed, width)


def _difference(found: Float32, expected: Float32) -> float:
    difference = relative_difference(found, expected)  # not finite: the shape depends on data
    return difference if np.isfinite(difference) and _are_numbers(found) else 0.0


def _are_numbers(tensor: Float32) -> bool:
    """Whether all are, and none so large that it may stand for one that is not."""
    return bool((np.abs(tensor) <= LARGEST).all())


def normal_inputs(shapes: Shapes, seed: int, width: float = 1.0) -> Tensors:
    """Inputs of both signs, with this standard deviation."""
    generator = np.random.default_rng(seed)
    return {name: generator.normal(0, width, shape).astype(np.float32) for name, shape in shapes.items()}


def held_out(shapes: Shapes, compute: Compute) -> list[tuple[Tensors, Tensors]]:
    """Inputs that no slot was found with, of both signs, and what the network makes of each.

    One will do, but for outputs that say little: in place of a mask with one element, any other is right every
    second time. Where an output is no number (a logarithm, a root), inputs are of the first one's
    distribution.
    """
    cases = [_case(shapes, compute, CHECK_SEED)]
    if any(len(np.unique(tensor)) < FEW_VALUES for tensor in cases[0][1].values()):
        cases += [_case(shapes, compute, CHECK_SEED + number) for number in range(1, CHECKS_OF_LITTLE)]
    return cases


def _case(shapes: Shapes, compute: Compute, seed: int) -> tuple[Tensors, Tensors]:
    inputs = normal_inputs(shapes, seed)
    expected = compute(inputs)
    if all(map(_are_numbers, expected.values())):
        return inputs, expected
    inputs = random_inputs(shapes, seed)
    return inputs, compute(inputs)
