# SPDX-License-Identifier: BSD-2-Clause
"""Networks that detect, up to their raw outputs: the layer that makes boxes of them comes after.

BlazeFace: V. Bazarevsky et al., arXiv 1907.05047, table 4. NanoDet-m: its code (ShuffleNet v2, a PAN, heads of
depthwise convolutions). FastestDet and YOLO-FastestV2: their code; YOLO-Fastest 1.1: yolo-fastest-1.1.cfg.
YOLOv4-tiny: C.-Y. Wang et al., arXiv 2011.08036, as yolov4-tiny.cfg has it. SSD: W. Liu et al., arXiv 1512.02325,
on MobileNet v1 (A. Howard et al., arXiv 1704.04861) and on SqueezeNet v1.1 (F. Iandola et al., arXiv 1602.07360).
YOLOv3's heads: J. Redmon, A. Farhadi, arXiv 1804.02767, on MobileNetV2; YOLOv2's: the same, arXiv 1612.08242, on
MobileNet v1.
"""

from __future__ import annotations

from collections.abc import Sequence

from docs.examples.models import MOBILENET_V1
from tests.bench.graphs.mobile import inverted, mobilenet_v2_backbone
from tests.bench.graphs.residual import shuffle_stage
from tests.bench.graphs.writer import Graph

CLASSES = 80  # of COCO
VOC = 21  # and background
LEAKY = "LeakyReLU"


def _blaze(net: Graph, name: str, out: int, stride: int = 1, narrow: int = 0) -> None:
    """A BlazeBlock, or with `narrow` a double one."""
    before = net.channels
    short, net.blob = net.split(f"{name}_split")
    net.conv(f"{name}_dw", before, 5, stride, groups=before)
    if narrow:
        net.conv(f"{name}_narrow", narrow, 1, 1, "ReLU")
        net.conv(f"{name}_dw2", narrow, 5, groups=narrow)
    long = net.conv(f"{name}_pw", out, 1)
    if stride > 1:
        short = net.layer("Pooling", f"{name}_pool", [short], "0=0 1=2 2=2")
    if out > before:
        short = net.layer("Padding", f"{name}_pad", [short], f"4=0 8={out - before}")
    net.binary(f"{name}_add", 0, long, short)
    net.activation("ReLU", name)


def blazeface(seed: int) -> Graph:
    """BlazeFace at 128 x 128: scores and boxes of 2 anchors at 16 x 16 and of 6 at 8 x 8."""
    net = Graph(seed, 3, 128)
    net.conv("conv1", 24, 5, 2, "ReLU")
    for at, (out, stride) in enumerate(((24, 1), (24, 1), (48, 2), (48, 1), (48, 1))):
        _blaze(net, f"single{at}", out, stride)
    for at, stride in enumerate((2, 1, 1)):
        _blaze(net, f"double{at}", 96, stride, 24)
    fine, *heads = net.fork("fine", 3)
    net.blob = fine
    for at, stride in enumerate((2, 1, 1), 3):
        _blaze(net, f"double{at}", 96, stride, 24)
    heads += net.fork("coarse", 2)
    for at, (bottom, out) in enumerate(zip(heads, (2, 32, 6, 96), strict=True)):
        net.channels = 96
        net.conv(("scores16", "boxes16", "scores8", "boxes8")[at], out, 1, bottom=bottom)
    return net


def _shuffle_backbone(net: Graph, channels: Sequence[int], act: str, first: int = 2) -> list[str]:
    """ShuffleNet v2 up to its last stage; what its stages from `first` to 4 give."""
    net.conv("conv1", 24, 3, 2, act)
    net.max_pool_padded("pool1")
    tops = []
    for stage, (out, repeats) in enumerate(zip(channels, (4, 8, 4), strict=True), 2):
        shuffle_stage(net, stage, out, repeats, act)
        if first <= stage < 4:
            top, net.blob = net.split(f"stage{stage}_out")
            tops.append(top)
    tops.append(net.blob)
    return tops


def nanodet_m(seed: int) -> Graph:
    """NanoDet-m at 320 x 320: at each of 3 scales the classes' scores and the distances to 4 sides."""
    net, wide = Graph(seed, 3, 320), 96
    widths = (116, 232, 464)
    levels = []
    for at, top in enumerate(_shuffle_backbone(net, widths, LEAKY)):
        net.channels = widths[at]
        levels.append(net.conv(f"reduce{at}", wide, 1, bottom=top))
    for at in (1, 0):
        net.blob = levels[at + 1]
        levels[at + 1], larger = net.split(f"down{at}_split")
        larger = net.twice_as_large(f"down{at}_up", larger, linear=True)
        levels[at] = net.binary(f"down{at}", 0, levels[at], larger)
    for at in (1, 2):
        net.blob = levels[at - 1]
        levels[at - 1], smaller = net.split(f"up{at}_split")
        smaller = net.layer("Interp", f"up{at}_down", [smaller], "0=2 1=5.000000e-01 2=5.000000e-01")
        levels[at] = net.binary(f"up{at}", 0, levels[at], smaller)
    for at, level in enumerate(levels):
        net.blob, net.channels = level, wide
        for repeat in range(2):
            net.separable(f"head{at}_{repeat}", wide, 3, (LEAKY, LEAKY))
        net.conv(f"head{at}", CLASSES + 32, 1)
        scores, sides = net.slices(f"head{at}_slice", CLASSES)
        scores = net.layer("Sigmoid", f"scores{at}_sigmoid", [scores])
        for name, top, count in ((f"scores{at}", scores, CLASSES), (f"sides{at}", sides, 32)):
            net.layer("Reshape", f"{name}_shape", [top], f"0=-1 1={count}")
            net.layer("Permute", name, (), "0=1")
    return net


def fastestdet(seed: int) -> Graph:
    """FastestDet at 352 x 352: object, box and classes of 22 x 22 cells."""
    net, wide = Graph(seed, 3, 352), 96
    large, middle, small = _shuffle_backbone(net, (48, 96, 192), "ReLU")
    small = net.twice_as_large("upsample", small)
    large = net.layer("Pooling", "downsample", [large], "0=1 1=3 2=2 3=1 5=1")
    net.concat("pyramid", [large, middle, small], 48 + 96 + 192)
    net.conv("spp", wide, 1, 1, "ReLU")
    short, *ways = net.fork("spp_split", 4)
    tops = []
    for depth, way in enumerate(ways, 1):
        net.blob = way
        for at in range(depth):
            net.conv(f"spp{depth}_{at}", wide, 5, 1, "ReLU", groups=wide)
        tops.append(net.blob)
    net.concat("spp_concat", tops, 3 * wide)
    net.binary("spp_add", 0, net.conv("spp_out", wide, 1), short)
    net.activation("ReLU", "spp_relu")
    net.conv("head", wide, 1, 1, "ReLU")
    tops = []
    for name, way, out in zip(("object", "box", "class"), net.fork("head_split", 3), (1, 4, CLASSES), strict=True):
        net.channels = wide
        net.separable(name, out, 5, ("ReLU", ""), bottom=way)
        kind = {"object": "Sigmoid", "class": "Softmax"}.get(name)
        tops.append(net.layer(kind, name, (), "0=0 1=1" if name == "class" else "") if kind else net.blob)
    net.concat("output", tops, 1 + 4 + CLASSES)
    return net


def yolo_fastestv2(seed: int) -> Graph:
    """YOLO-FastestV2 at 352 x 352: boxes, objects and classes of 3 anchors of 22 x 22 and of 11 x 11 cells."""
    net, wide = Graph(seed, 3, 352), 72
    middle, _ = _shuffle_backbone(net, (48, 96, 192), "ReLU", 3)
    small, larger = net.split("small_split")
    larger = net.twice_as_large("upsample", larger)
    net.concat("pyramid", [larger, middle], 192 + 96)
    for at, bottom, channels in ((0, "pyramid", 288), (1, small, 192)):
        net.channels = channels
        net.conv(f"level{at}", wide, 1, 1, "ReLU", bottom=bottom)
        tops = []
        for kind, way in zip(("box", "class"), net.split(f"level{at}_split"), strict=True):
            net.blob = way
            for part in range(2):
                net.separable(f"{kind}{at}_{part}", wide, 5, ("ReLU", ""))
            tops.append(net.blob)
        heads = zip((tops[0], *net.split(f"class{at}_split")), ("boxes", "objects", "classes"), strict=True)
        for (head, name), out in zip(heads, (12, 3, CLASSES), strict=True):
            net.channels = wide
            net.conv(f"{name}{at}", out, 1, bottom=head)
    return net


def yolov4_tiny(seed: int) -> Graph:
    """YOLOv4-tiny at 416 x 416: 3 anchors of 13 x 13 and of 26 x 26 cells."""
    net, anchors = Graph(seed, 3, 416), 3 * (5 + CLASSES)
    net.conv("conv1", 32, 3, 2, LEAKY)
    net.conv("conv2", 64, 3, 2, LEAKY)
    middle = ""
    for width in (64, 128, 256):
        name = f"csp{width}"
        net.conv(name, width, 3, 1, LEAKY)
        whole, part = net.split(f"{name}_split")
        net.layer("Crop", f"{name}_part", [part], f"0=0 1=0 2={width // 2} 3=-233 4=-233 5=-233")
        net.channels = width // 2
        net.conv(f"{name}_a", width // 2, 3, 1, LEAKY)
        one, two = net.split(f"{name}_a_split")
        net.conv(f"{name}_b", width // 2, 3, 1, LEAKY, bottom=two)
        net.concat(f"{name}_ab", [f"{name}_b", one], width)
        net.conv(f"{name}_c", width, 1, 1, LEAKY)
        inner = net.blob
        if width == 256:
            middle, inner = net.split(f"{name}_c_split")
        net.concat(f"{name}_concat", [whole, inner], 2 * width)
        net.max_pool(f"{name}_pool", 2, 2)
    net.conv("conv3", 512, 3, 1, LEAKY)
    net.conv("conv4", 256, 1, 1, LEAKY)
    coarse, fine = net.split("conv4_split")
    net.conv("coarse", 512, 3, 1, LEAKY, bottom=coarse)
    net.conv("boxes13", anchors, 1)
    net.channels = 256
    net.conv("fine", 128, 1, 1, LEAKY, bottom=fine)
    larger = net.twice_as_large("fine_up")
    net.concat("fine_concat", [larger, middle], 384)
    net.conv("fine2", 256, 3, 1, LEAKY)
    net.conv("boxes26", anchors, 1)
    return net


def _ssd(net: Graph, sources: list[tuple[str, int, int]]) -> Graph:
    """Boxes and scores over sources (blob, channels, priors of a place)."""
    tops: dict[str, list[str]] = {"boxes": [], "scores": []}
    for at, (blob, channels, priors) in enumerate(sources):
        net.blob = blob
        for part, (kind, each) in zip(net.fork(f"source{at}", 2), (("boxes", 4), ("scores", VOC)), strict=True):
            net.channels = channels
            net.conv(f"{kind}{at}", each * priors, 1, bottom=part)
            net.layer("Permute", f"{kind}{at}_order", (), "0=3")
            tops[kind].append(net.layer("Flatten", f"{kind}{at}_flat"))
    net.concat("boxes", tops["boxes"], 1)
    net.concat("scores_flat", tops["scores"], 1)
    net.layer("Reshape", "scores_rows", (), f"0={VOC} 1=-1")
    net.layer("Softmax", "scores_softmax", (), "0=1 1=1")
    net.layer("Flatten", "scores")
    return net


def _extras(net: Graph, widths: Sequence[tuple[int, int]]) -> list[tuple[str, int, int]]:
    """SSD's layers after the backbone, each half the size, and with the last blob the sources that they are."""
    sources = []
    for at, (narrow, out) in enumerate(widths):
        source, net.blob = net.split(f"extra{at}_split")
        sources.append((source, net.channels, 6))
        net.conv(f"extra{at}_a", narrow, 1, 1, "ReLU")
        net.conv(f"extra{at}_b", out, 3, 2, "ReLU")
    return [*sources, (net.blob, net.channels, 6)]


EXTRAS = ((256, 512), (128, 256), (128, 256), (64, 128))


def mobilenet_ssd(seed: int) -> Graph:
    """SSD at 300 x 300 on MobileNet v1, for 20 classes: boxes and scores of 1,917 priors."""
    net = Graph(seed, 3, 300)
    first = _mobilenet_v1(net, tapped=True)
    return _ssd(net, [(first, 512, 3), *_extras(net, EXTRAS)])


def _mobilenet_v1(net: Graph, *, tapped: bool) -> str:
    """MobileNet v1 without its classifier; if tapped, what its last layer of 512 channels gives."""
    net.conv("conv1", 32, 3, 2, "ReLU")
    first = ""
    for at, (out, stride) in enumerate(MOBILENET_V1, 2):
        net.separable(f"conv{at}", out, 3, ("ReLU", "ReLU"), stride=stride)
        if at == 12 and tapped:
            first, net.blob = net.split("conv12_split")
    return first


def squeezenet_ssd(seed: int) -> Graph:
    """SSD at 300 x 300 on SqueezeNet v1.1, for 20 classes."""
    net = Graph(seed, 3, 300)
    net.conv("conv1", 64, 3, 2, "ReLU")
    net.max_pool("pool1", 3, 2)
    first = ""
    for at, narrow in {2: 16, 3: 16, 4: 32, 5: 32, 6: 48, 7: 48, 8: 64, 9: 64}.items():
        net.conv(f"fire{at}_squeeze", narrow, 1, 1, "ReLU")
        one, three = net.split(f"fire{at}_split")
        net.conv(f"fire{at}_1x1", 4 * narrow, 1, 1, "ReLU", bottom=one)
        net.channels = narrow
        net.conv(f"fire{at}_3x3", 4 * narrow, 3, 1, "ReLU", bottom=three)
        net.concat(f"fire{at}", [f"fire{at}_1x1", f"fire{at}_3x3"], 8 * narrow)
        if at == 5:
            first, net.blob = net.split("fire5_out")
        if at in (3, 5):
            net.max_pool(f"pool{at}", 3, 2)
    return _ssd(net, [(first, 256, 3), *_extras(net, EXTRAS)])


def mobilenetv2_yolov3(seed: int) -> Graph:
    """YOLOv3's heads at 352 x 352 on MobileNetV2, for 20 classes: 3 anchors of 11 x 11 and of 22 x 22 cells."""
    net, anchors = Graph(seed, 3, 352), 3 * (5 + VOC - 1)
    middle = mobilenet_v2_backbone(net, tapped=6)
    net.conv("neck", 512, 1, 1, LEAKY)
    coarse, fine = net.split("neck_split")
    net.separable("coarse", 512, 3, (LEAKY, LEAKY), bottom=coarse)
    net.conv("boxes11", anchors, 1)
    net.channels = 512
    net.conv("fine", 128, 1, 1, LEAKY, bottom=fine)
    larger = net.twice_as_large("fine_up")
    net.concat("fine_concat", [larger, middle], 128 + 96)
    net.conv("fine_pw", 256, 1, 1, LEAKY)
    net.conv("fine_dw", 256, 3, 1, LEAKY, groups=256)
    net.conv("boxes22", anchors, 1)
    return net


def mobilenet_yolo(seed: int) -> Graph:
    """YOLOv2's head at 416 x 416 on MobileNet v1, for 20 classes: 5 anchors of 13 x 13 cells."""
    net = Graph(seed, 3, 416)
    _mobilenet_v1(net, tapped=False)
    for at in range(2):
        net.separable(f"head{at}", 1024, 3, ("ReLU", "ReLU"))
    net.conv("boxes", 5 * (5 + VOC - 1), 1)
    return net


def yolo_fastest(seed: int) -> Graph:
    """YOLO-Fastest 1.1 at 320 x 320: 3 anchors of 10 x 10 and of 20 x 20 cells."""
    net, anchors = Graph(seed, 3, 320), 3 * (5 + CLASSES)
    net.conv("conv1", 8, 3, 2, LEAKY)
    net.conv("conv2", 8, 1, 1, LEAKY)
    # Each stage: width and output of its first block, which halves the size if the stride is 2; then so many
    # blocks of another width.
    stages = (
        (8, 4, 1, 8, 1),
        (24, 8, 2, 32, 2),
        (32, 8, 2, 48, 2),
        (48, 16, 1, 96, 4),
        (96, 24, 2, 136, 4),
        (136, 48, 2, 224, 5),
    )
    middle = ""
    for at, (wide, out, stride, wider, repeats) in enumerate(stages):
        if at == len(stages) - 1:
            middle, net.blob = net.split("middle_split")
        inverted(net, f"stage{at}", wide, out, 3, stride, LEAKY)
        for repeat in range(repeats):
            inverted(net, f"stage{at}_{repeat}", wider, out, 3, 1, LEAKY)
    whole, *ways = net.fork("spp_split", 4)
    pools = [
        net.layer("Pooling", f"spp{size}", [way], f"0=0 1={size} 2=1 3={size // 2} 5=1")
        for size, way in zip((3, 5, 9), ways, strict=True)
    ]
    net.concat("spp", [*reversed(pools), whole], 4 * 48)
    net.conv("neck", 96, 1, 1, LEAKY)
    coarse, fine = net.split("neck_split")
    larger = net.twice_as_large("upsample", fine)
    net.concat("pyramid", [larger, middle], 96 + 24)
    for cells, bottom, wide in ((10, coarse, 96), (20, "pyramid", 120)):
        net.blob, net.channels = bottom, wide
        for part in range(2):
            net.separable(f"boxes{cells}_{part}", wide, 5, (LEAKY, ""))
        net.conv(f"boxes{cells}", anchors, 1)
    return net
