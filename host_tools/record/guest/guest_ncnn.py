"""Runs one inference of an ncnn network in the recording guest, on the GPU, then on the CPU for reference.

Usage: guest_ncnn.py NET.param NET.bin OUT [--reference] [--input NAME=FILE=D0xD1..]... [--output NAME]...

Inputs are raw little-endian float32 files, shapes slowest dimension first; without --output, all that the network
has. Written to OUT: the outputs as raw float32 files (gpu/0, cpu/0, ..) and `report`, one fact a line
(`device V3D 4.2.14.0`, `output gpu 0 prob 10`: back end, file, name, shape).
Only the interpreter's built-in modules are used: numpy takes longer to import on this machine than the network to run.
"""

import os
import sys
from typing import Any

import ncnn

FP32 = (
    "use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_packed", "use_bf16_storage",
    "use_int8_packed", "use_int8_storage", "use_int8_arithmetic",
)


def load(param: str, weights: str, gpu: bool) -> Any:
    """The network, computing in float32 with one CPU thread."""
    net = ncnn.Net()
    net.opt.use_vulkan_compute = gpu
    net.opt.num_threads = 1
    for option in FP32:
        setattr(net.opt, option, False)
    if net.load_param(param) or net.load_model(weights):
        sys.exit(f"ncnn cannot load {param} and {weights}")
    return net


def read_input(text: str) -> tuple[str, memoryview]:
    """`NAME=FILE=D0xD1..` as a name and a float32 array."""
    name, file, shape = text.split("=")
    with open(file, "rb") as stream:
        data = memoryview(stream.read())
    return name, data.cast("f", [int(size) for size in shape.split("x")])


def infer(net: Any, inputs: list[tuple[str, memoryview]], outputs: list[str]) -> list[Any]:
    """One inference: the outputs as ncnn arrays in host memory."""
    extractor = net.create_extractor()
    # With light mode ncnn frees a blob after its last use and would compute it again for a second output.
    extractor.set_light_mode(len(outputs) == 1)
    for name, data in inputs:
        if extractor.input(name, ncnn.Mat(data)):
            sys.exit(f"the network has no input named {name}")
    results = []
    for name in outputs:
        status, result = extractor.extract(name)
        if status:
            sys.exit(f"ncnn cannot compute output {name}: status {status}")
        results.append(result)
    extractor.clear()
    return results


def main(arguments: list[str]) -> None:
    """Run as the module's text says."""
    param, weights, out = arguments[:3]
    reference = "--reference" in arguments
    inputs = [read_input(value) for key, value in zip(arguments, arguments[1:]) if key == "--input"]
    outputs = [value for key, value in zip(arguments, arguments[1:]) if key == "--output"]
    report = [f"ncnn {ncnn.__version__}", f"python {sys.version.split()[0]}"]

    if ncnn.get_gpu_count() < 1:
        sys.exit("ncnn found no Vulkan device")
    info = ncnn.get_gpu_info(0)
    report.append(f"device {info.device_name()}")
    report.append(f"vulkan {info.api_version():#x} driver {info.driver_version():#x}")

    for kind in ("gpu", "cpu") if reference else ("gpu",):
        net = load(param, weights, kind == "gpu")
        if kind == "gpu" and (not net.opt.use_vulkan_compute or net.vulkan_device() is None):
            sys.exit("ncnn fell back to the CPU")
        os.mkdir(f"{out}/{kind}")
        names = outputs or list(net.output_names())
        for index, result in enumerate(infer(net, inputs, names)):
            data = memoryview(result)
            report.append(f"output {kind} {index} {names[index]} {'x'.join(map(str, data.shape))}")
            with open(f"{out}/{kind}/{index}", "wb") as file:
                file.write(data.tobytes())
        net.clear()
    with open(f"{out}/report", "w") as file:
        file.write("".join(line + "\n" for line in report))
    ncnn.destroy_gpu_instance()


main(sys.argv[1:])
