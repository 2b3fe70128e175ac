"""Runs one inference of an ncnn network in the recording guest, on the GPU, then on the CPU for reference.

Usage: guest_ncnn.py NET.param NET.bin OUT [--reference] [--int8] [--fp16] [--input NAME=FILE=D0xD1..]...
       [--output NAME]...

Inputs are raw little-endian float32 files, shapes slowest dimension first; without --output, all that the network
has. --int8: the network has int8 weights. --fp16: the GPU keeps all else in half precision; the CPU does not.
Written to OUT: the outputs as raw float32 files (gpu/0, cpu/0, ..) and `report`, one fact a line
(`device V3D 4.2.14.0`, `output gpu 0 prob 10`: back end, file, name, shape).

Only the interpreter's built-in modules are used: in the guest, numpy takes longer to import than a network to run.
The host's reference (record/ncnn_cpu.py) uses the same functions.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import ncnn

# ncnn's GPU code for int8 layers crashes without these; to float32 layers they make no difference.
INT8 = ("use_int8_packed", "use_int8_storage", "use_int8_arithmetic")
FP16 = ("use_fp16_packed", "use_fp16_storage")
SWITCHED_OFF = (
    # Whatever computes in less than float32.
    *INT8,
    *FP16,
    "use_fp16_arithmetic",
    "use_bf16_packed",
    "use_bf16_storage",
    # Winograd's shaders need more registers than a V3D has: with them, Mesa compiles SqueezeNet's for 6 minutes in
    # the guest, without for 20 seconds.
    "use_winograd_convolution",
)


def load(param: str, weights: str, gpu: bool, on: Sequence[str] = ()) -> Any:
    """The network, computing in float32 with one CPU thread.

    Args:
        param, weights: ncnn's files.
        gpu: on the GPU.
        on: those of SWITCHED_OFF that are switched on all the same.

    Raises:
        ValueError: ncnn does not take the files.
    """
    net = ncnn.Net()
    net.opt.use_vulkan_compute = gpu
    net.opt.num_threads = 1
    for option in SWITCHED_OFF:
        setattr(net.opt, option, option in on)
    if net.load_param(param):
        raise ValueError(f"{param}: ncnn cannot load this network")
    if net.load_model(weights):
        raise ValueError(f"{weights}: ncnn cannot load these weights for {param}")
    return net


def infer(net: Any, inputs: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
    """One inference.

    Args:
        net: from `load`.
        inputs: float32 buffer (array, memoryview) of each input blob, without a batch dimension.
        outputs: names of the blobs to compute.

    Returns:
        The outputs as ncnn arrays in host memory.

    Raises:
        ValueError: an input or output is not in the network, or an input is not given.
    """
    extractor = net.create_extractor()
    # With light mode ncnn frees a blob after its last use and would compute it again for a second output.
    extractor.set_light_mode(len(outputs) == 1)
    for name, data in inputs.items():
        # A Mat of a buffer only refers to it, unaligned; ncnn needs its own aligned layout (and may write to it).
        if extractor.input(name, ncnn.Mat(data).clone()):
            raise ValueError(f"no input blob {name!r}; the network has {', '.join(net.input_names())}")
    results = []
    for name in outputs:
        status, result = extractor.extract(name)
        if status:
            raise ValueError(
                f"ncnn cannot compute blob {name!r} (status {status}): is it there, is every input given?"
            )
        results.append(result)
    # The extractor holds GPU memory: it must be gone before the GPU instance is.
    extractor.clear()
    return results


def read_input(text: str) -> tuple[str, Any]:
    """`NAME=FILE=D0xD1..` as a name and a float32 buffer."""
    name, file, shape = text.split("=")
    with open(file, "rb") as stream:
        data = memoryview(stream.read())
    return name, data.cast("f", [int(size) for size in shape.split("x")])


def main(arguments: list[str]) -> None:
    """Run as the module's text says."""
    param, weights, out = arguments[:3]
    pairs = list(pairwise(arguments))
    inputs = dict(read_input(value) for key, value in pairs if key == "--input")
    outputs = [value for key, value in pairs if key == "--output"]
    report = [f"ncnn {ncnn.__version__}", f"python {sys.version.split()[0]}"]

    # ncnn computes on the CPU without a word when it finds no GPU.
    if ncnn.get_gpu_count() < 1:
        sys.exit("ncnn found no Vulkan device")
    info = ncnn.get_gpu_info(0)
    report.append(f"device {info.device_name()}")
    report.append(f"vulkan {info.api_version():#x} driver {info.driver_version():#x}")

    for kind in ("gpu", "cpu") if "--reference" in arguments else ("gpu",):
        on = (*(INT8 if "--int8" in arguments else ()), *(FP16 if "--fp16" in arguments and kind == "gpu" else ()))
        net = load(param, weights, kind == "gpu", on)
        if kind == "gpu" and (not net.opt.use_vulkan_compute or net.vulkan_device() is None):
            sys.exit("ncnn fell back to the CPU")
        os.mkdir(f"{out}/{kind}")
        names = outputs or list(net.output_names())
        for index, result in enumerate(infer(net, inputs, names)):
            data: Any = memoryview(result)
            report.append(f"output {kind} {index} {names[index]} {'x'.join(map(str, data.shape))}")
            with open(f"{out}/{kind}/{index}", "wb") as file:
                file.write(data.tobytes())
        net.clear()
    with open(f"{out}/report", "w") as file:
        file.write("".join(line + "\n" for line in report))
    ncnn.destroy_gpu_instance()


if __name__ == "__main__":
    main(sys.argv[1:])
