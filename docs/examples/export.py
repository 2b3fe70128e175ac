# SPDX-License-Identifier: BSD-2-Clause
"""Writes the network as an ncnn model.

Source of the file formats: ncnn's documentation, `docs/developer-guide/param-and-model-file-structure.md` and
`operators.md`. In the `.bin`, each layer has its weights, after a 32-bit flag (0: plain float32), then its
biases, without a flag.
"""

from docs.examples.lenet import SHAPES, Parameters
from host_tools.demo.ncnn_model import INPUT, OUTPUT

# A layer's line: type, name, numbers of inputs and outputs, their names, then parameters. ReLU is the layers'
# own activation (9=1), as ncnn's optimiser would make it.
PARAM = f"""7767517
8 8
Input        {INPUT}   0 1 {INPUT} 0=28 1=28 2=1
Convolution  conv1  1 1 {INPUT} conv1 0=8 1=5 5=1 6=200 9=1
Pooling      pool1  1 1 conv1 pool1 0=0 1=2 2=2
Convolution  conv2  1 1 pool1 conv2 0=16 1=5 5=1 6=3200 9=1
Pooling      pool2  1 1 conv2 pool2 0=0 1=2 2=2
InnerProduct fc1    1 1 pool2 fc1 0=64 1=1 2=16384 9=1
InnerProduct fc2    1 1 fc1 fc2 0=10 1=1 2=640
Softmax      {OUTPUT}   1 1 fc2 {OUTPUT} 0=0 1=1
"""


def weights(parameters: Parameters) -> bytes:
    """The content of the `.bin`, its layers in the order of `PARAM`."""
    chunks = []
    for name in SHAPES:
        if name.endswith("weight"):
            chunks.append(bytes(4))
        chunks.append(parameters[name].astype("<f4").tobytes())
    return b"".join(chunks)
