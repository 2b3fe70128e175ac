# SPDX-License-Identifier: BSD-2-Clause
"""A step of gradient descent for a convolutional network, in JAX; prints it for IREE's compiler (step.mlir)."""

from __future__ import annotations

import jax
from jax import Array
from jax import numpy as jnp

SHAPES = ((3, 3, 1, 4), (3, 3, 4, 8), (128, 16), (16, 4), (4, 8, 8, 1), (4, 4))  # of the arguments of `step`
RATE = 0.05  # of learning
Weights = tuple[Array, Array, Array, Array]


def convolution(x: Array, kernel: Array, stride: int) -> Array:
    """Pictures of height, width and channels by a kernel."""
    order = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=order)


def loss(weights: Weights, x: Array, t: Array) -> Array:
    """Cross entropy of pictures and their classes."""
    c1, c2, d1, d2 = weights
    x = jax.nn.relu(convolution(x, c1, 1))
    x = jax.nn.relu(convolution(x, c2, 2))
    x = jax.nn.relu(x.reshape(x.shape[0], -1) @ d1)
    return -(jax.nn.log_softmax(x @ d2) * t).sum() / x.shape[0]


def step(c1: Array, c2: Array, d1: Array, d2: Array, x: Array, t: Array) -> tuple[Array, ...]:
    """The next weights, and the loss."""
    weights = (c1, c2, d1, d2)
    value, gradient = jax.value_and_grad(loss)(weights, x, t)
    return (*(a - RATE * b for a, b in zip(weights, gradient, strict=True)), value.reshape(1))


if __name__ == "__main__":
    print(jax.jit(step).lower(*(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in SHAPES)).as_text())
