# SPDX-License-Identifier: BSD-2-Clause
"""What a network's file is, by its first bytes, where a command was given another than it takes."""

from __future__ import annotations

from trace_format.schema import TRACE_MAGIC

HEAD_BYTES = 16
# Bytes at an offset -> what begins so, and what to do with it. Sources: the formats' own descriptions.
KNOWN = (
    (4, b"TFL3", "a TensorFlow Lite file; 'gramophone record tflite' takes it"),
    (0, b"7767517", "an ncnn .param file; 'gramophone record ncnn' takes it with its .bin"),
    (0, b"GGUF", "a GGUF file; 'gramophone record gguf' takes it"),
    (
        0,
        b"PK\x03\x04",
        "a zip archive, as wheels are; 'gramophone record pytorch' takes those of torch.export.save and "
        "torch.jit.save",
    ),
    (0, b"\x80\x02", "a pickle, as torch.save wrote before PyTorch 1.6; torch.export.save writes what is taken"),
    (0, b"\x89HDF", "an HDF5 file, as Keras writes; export the network to ONNX or TensorFlow Lite"),
    (
        4,
        b"ORTM",
        "ONNX Runtime's own format, of its version; 'gramophone record onnx' takes the .onnx that it is made of",
    ),
    (0, b"version https://", "a pointer of Git LFS in place of a file; 'git lfs pull' gets the file"),
    (8, b'{"', "a safetensors file: weights without a network; export the network to ONNX"),
    (8, b"{ ", "a safetensors file: weights without a network; export the network to ONNX"),
    (0, TRACE_MAGIC, "a trace of gramophone's: it is recorded already"),
    (0, b"\x93NUMPY", "a NumPy array"),
)


def instead(head: bytes) -> str:
    """What a file is that is not what was expected, to end a sentence with; "" if its first bytes do not say.

    Args:
        head: the file's first HEAD_BYTES.
    """
    return next((f"; it is {words}" for at, magic, words in KNOWN if head[at : at + len(magic)] == magic), "")
