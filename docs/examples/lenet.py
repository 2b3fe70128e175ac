# SPDX-License-Identifier: BSD-2-Clause
"""LeNet in NumPy: the forward and backward pass, on float arrays laid out (batch, channel, row, column).

conv 5x5 x8, ReLU, max-pool 2x2, conv 5x5 x16, ReLU, max-pool 2x2, dense 64, ReLU, dense 10, softmax. It is
LeCun's LeNet-5 (1998) with today's ReLU and max-pooling, its dense layers narrowed (20,522 parameters in
all), and its channel counts multiples of 4, as GPU back ends pack channels by 4.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]  # float32 to train and run; float64 when the gradients are checked
Parameters = dict[str, Array]

# Name: shape. A dense layer's input is the flattened (channel, row, column) array, as in ncnn's InnerProduct.
SHAPES = {
    "conv1.weight": (8, 1, 5, 5),
    "conv1.bias": (8,),
    "conv2.weight": (16, 8, 5, 5),
    "conv2.bias": (16,),
    "fc1.weight": (64, 16 * 4 * 4),
    "fc1.bias": (64,),
    "fc2.weight": (10, 64),
    "fc2.bias": (10,),
}


def initial(random: np.random.Generator) -> Parameters:
    """Weights drawn as He et al. (2015) recommend for ReLU, biases zero; float32."""
    return {
        name: random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape).astype(np.float32)
        if name.endswith("weight")
        else np.zeros(shape, np.float32)
        for name, shape in SHAPES.items()
    }


def forward(p: Parameters, x: Array) -> tuple[Array, dict[str, Array]]:
    """Classifies a batch.

    Args:
        p: the parameters.
        x: (n, 1, 28, 28).

    Returns:
        Probabilities (n, 10), and the intermediate results that `backward` needs.
    """
    conv1 = convolve(x, p["conv1.weight"]) + p["conv1.bias"][:, None, None]
    pool1 = max_pool(relu(conv1))
    conv2 = convolve(pool1, p["conv2.weight"]) + p["conv2.bias"][:, None, None]
    pool2 = max_pool(relu(conv2))
    flat = pool2.reshape(len(x), -1)
    fc1 = relu(flat @ p["fc1.weight"].T + p["fc1.bias"])
    probability = softmax(fc1 @ p["fc2.weight"].T + p["fc2.bias"])
    return probability, {"x": x, "conv1": conv1, "pool1": pool1, "conv2": conv2, "flat": flat, "fc1": fc1}


def backward(p: Parameters, kept: dict[str, Array], probability: Array, labels: Array) -> Parameters:
    """The gradient of the batch's mean cross-entropy with respect to every parameter.

    Args:
        p: the parameters.
        kept: the intermediate results of `forward`.
        probability: (n, 10), as `forward` gave it.
        labels: (n,), 0..9.
    """
    n = len(labels)
    g: Parameters = {}
    # d: the gradient with respect to each layer's result, from softmax and cross-entropy together downwards.
    d = (probability - np.eye(10, dtype=probability.dtype)[labels]) / n
    g["fc2.weight"], g["fc2.bias"] = d.T @ kept["fc1"], d.sum(0)
    d = d @ p["fc2.weight"] * (kept["fc1"] > 0)
    g["fc1.weight"], g["fc1.bias"] = d.T @ kept["flat"], d.sum(0)
    d = (d @ p["fc1.weight"]).reshape(n, 16, 4, 4)
    d = max_pool_gradient(relu(kept["conv2"]), d) * (kept["conv2"] > 0)
    g["conv2.weight"], g["conv2.bias"] = convolve_gradient(kept["pool1"], d), d.sum((0, 2, 3))
    padded = np.pad(d, ((0, 0), (0, 0), (4, 4), (4, 4)))
    d = convolve(padded, p["conv2.weight"].transpose(1, 0, 2, 3)[:, :, ::-1, ::-1])
    d = max_pool_gradient(relu(kept["conv1"]), d) * (kept["conv1"] > 0)
    g["conv1.weight"], g["conv1.bias"] = convolve_gradient(kept["x"], d), d.sum((0, 2, 3))
    return g


def columns(x: Array, rows: int, cols: int, stride: int = 1) -> Array:
    """Lays out every window as one row of a matrix (im2col): (n * height * width, channels * rows * cols)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (rows, cols), axis=(2, 3))[:, :, ::stride, ::stride]
    matrix: Array = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, x.shape[1] * rows * cols)
    return matrix


def convolve(x: Array, weight: Array, stride: int = 1) -> Array:
    """Valid cross-correlation of (n, c, h, w) with (k, c, rows, cols): (n, k, (h - rows) // stride + 1, ..)."""
    k, _, rows, cols = weight.shape
    n, _, h, w = x.shape
    y = columns(x, rows, cols, stride) @ weight.reshape(k, -1).T
    return y.reshape(n, (h - rows) // stride + 1, (w - cols) // stride + 1, k).transpose(0, 3, 1, 2)


def convolve_gradient(x: Array, d: Array) -> Array:
    """The gradient of `convolve` with respect to its weight, d (n, k, ..) being that of its result."""
    k, rows, cols = d.shape[1], x.shape[2] - d.shape[2] + 1, x.shape[3] - d.shape[3] + 1
    flat = d.transpose(1, 0, 2, 3).reshape(k, -1)
    return (flat @ columns(x, rows, cols)).reshape(k, x.shape[1], rows, cols)


def max_pool(x: Array) -> Array:
    """The largest of each 2x2 square: (n, c, h, w) to (n, c, h / 2, w / 2)."""
    n, c, h, w = x.shape
    largest: Array = x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))
    return largest


def max_pool_gradient(x: Array, d: Array) -> Array:
    """The gradient of `max_pool` with respect to x: a square's goes to its largest (to each, if equal)."""
    n, c, h, w = x.shape
    squares = x.reshape(n, c, h // 2, 2, w // 2, 2)
    largest = squares == squares.max((3, 5), keepdims=True)
    gradient: Array = (largest * d[:, :, :, None, :, None]).reshape(x.shape)
    return gradient


def relu(x: Array) -> Array:
    """The positive part."""
    return np.maximum(x, 0)


def softmax(x: Array) -> Array:
    """Probabilities of each row of (n, classes)."""
    e: Array = np.exp(x - x.max(1, keepdims=True))
    total: Array = e.sum(1, keepdims=True)
    return e / total
