# SPDX-License-Identifier: BSD-2-Clause
"""Nine networks as plain PyTorch code, with weights by a seed, and the files that PyTorch writes of them.

`python tests/bench/torch_networks.py FOLDER [NAME...]`, by any Python that has PyTorch: a network becomes NAME.pt2
(torch.export), NAME.pt (TorchScript), NAME.onnx (torch.onnx, which needs onnxscript) and NAME.npz, inputs with
what PyTorch computes of them: `python -m tests.bench.pytorch FOLDER` takes them further.

U-Net: arXiv 1505.04597, with batch norms and padding as everybody builds it; ResNet-18: arXiv 1512.03385; the
super-resolution is ESPCN, arXiv 1609.05158; the detector is of YOLOX's kind, arXiv 2107.08430, with its decoding;
SqueezeNet 1.1: arXiv 1602.07360; MobileNet: arXiv 1704.04861.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

SEED = 20261125


class DoubleConv(nn.Sequential):  # type: ignore[misc]
    def __init__(self, before: int, after: int) -> None:
        super().__init__(
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):  # type: ignore[misc]
    """Segmentation: a class for each pixel."""

    def __init__(self, classes: int = 3, width: int = 16, depth: int = 3) -> None:
        super().__init__()
        sizes = [width << level for level in range(depth + 1)]
        self.first = DoubleConv(3, width)
        self.down = nn.ModuleList(DoubleConv(a, b) for a, b in pairwise(sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in reversed(list(pairwise(sizes))))
        self.merge = nn.ModuleList(DoubleConv(2 * a, a) for a in reversed(sizes[:-1]))
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        x = self.first(image)
        skipped = []
        for level in self.down:
            skipped.append(x)
            x = level(F.max_pool2d(x, 2))
        for up, merge in zip(self.up, self.merge, strict=True):
            x = up(x)
            x = merge(torch.cat([skipped.pop(), x], dim=1))
        return self.last(x)


class KeywordSpotter(nn.Module):  # type: ignore[misc]
    """A word of spectrum frames: a convolution over time, two layers of GRU in both directions, the last state."""

    def __init__(self, bands: int = 40, hidden: int = 48, words: int = 12) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(bands)
        self.conv = nn.Conv1d(bands, 64, 5, stride=2, padding=2)
        self.gru = nn.GRU(64, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, words)

    def forward(self, frames: Tensor) -> Tensor:
        x = self.norm(frames)
        x = F.gelu(self.conv(x.transpose(1, 2)))
        x, state = self.gru(x.transpose(1, 2))
        last = torch.cat((state[-2], state[-1]), dim=-1)
        return F.log_softmax(self.out(last + x.mean(dim=1)), dim=-1)


class CSP(nn.Module):  # type: ignore[misc]
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(channels // 2, channels // 2, 3, padding=1), nn.SiLU())
        self.b = nn.Sequential(nn.Conv2d(channels, channels, 1), nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=1)
        return self.b(torch.cat([left, self.a(right)], 1))


class Detector(nn.Module):  # type: ignore[misc]
    """Boxes of objects: three maps, an anchor a cell, decoded to corners; scores as probabilities."""

    def __init__(self, classes: int = 5, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 6, 2, 2), nn.BatchNorm2d(width), nn.SiLU())
        self.stages = nn.ModuleList()
        for level in range(4):
            size = width << min(level, 3)
            self.stages.append(nn.Sequential(nn.Conv2d(size, 2 * size if level < 3 else size, 3, 2, 1), nn.SiLU()))
        self.mix = nn.ModuleList([CSP(32), CSP(64), CSP(128), CSP(128)])
        self.lateral = nn.ModuleList([nn.Conv2d(64, 64, 1), nn.Conv2d(128, 64, 1), nn.Conv2d(128, 64, 1)])
        self.head = nn.Conv2d(64, 5 + classes, 1)
        self.strides = (8, 16, 32)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stem(image / 255 - 0.5)
        maps = []
        for stage, mix in zip(self.stages, self.mix, strict=True):
            x = mix(stage(x))
            maps.append(x)
        found = [lateral(at) for lateral, at in zip(self.lateral, maps[1:], strict=True)]
        for level in (1, 0):
            bigger = F.interpolate(found[level + 1], scale_factor=2, mode="nearest")
            found[level] = found[level] + bigger
        boxes, scores = [], []
        for at, stride in zip(found, self.strides, strict=True):
            raw = self.head(at)
            rows, columns = raw.shape[-2:]
            ys, xs = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
            grid = torch.stack((xs, ys), dim=-1).view(1, -1, 2).to(raw.dtype)
            raw = raw.flatten(2).permute(0, 2, 1)
            centre = (raw[..., :2].sigmoid() * 2 - 0.5 + grid) * stride
            size = (raw[..., 2:4].sigmoid() * 2) ** 2 * stride
            boxes.append(torch.cat((centre - size / 2, centre + size / 2), dim=-1))
            scores.append(raw[..., 4:5].sigmoid() * raw[..., 5:].softmax(dim=-1))
        return torch.cat(boxes, dim=1), torch.cat(scores, dim=1)


class SuperResolution(nn.Module):  # type: ignore[misc]
    """A picture three times as large: what it adds to one by bilinear interpolation."""

    def __init__(self, factor: int = 3) -> None:
        super().__init__()
        self.factor = factor
        self.body = nn.Sequential(
            nn.Conv2d(3, 32, 5, padding=2, padding_mode="replicate"),
            nn.PReLU(32),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.Tanh(),
            nn.Conv2d(32, 3 * factor**2, 3, padding=1),
            nn.PixelShuffle(factor),
        )

    def forward(self, image: Tensor) -> Tensor:
        plain = F.interpolate(image, scale_factor=self.factor, mode="bilinear", align_corners=False)
        return torch.clamp(plain + self.body(image), 0.0, 1.0)


class BasicBlock(nn.Module):  # type: ignore[misc]
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.shortcut(x)
        return F.relu(y)


class ResNet18(nn.Module):  # type: ignore[misc]
    """Classes of pictures."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        blocks = []
        before = 64
        for after, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [BasicBlock(before, after, stride), BasicBlock(after, after, 1)]
            before = after
        self.layers = nn.Sequential(*blocks)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(image))))
        x = self.avgpool(self.layers(x))
        return self.fc(torch.flatten(x, 1))


class Fire(nn.Module):  # type: ignore[misc]
    def __init__(self, before: int, squeezed: int, after: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(before, squeezed, 1)
        self.expand1 = nn.Conv2d(squeezed, after // 2, 1)
        self.expand3 = nn.Conv2d(squeezed, after // 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.expand1(x)), F.relu(self.expand3(x))], 1)


class SqueezeNet(nn.Sequential):  # type: ignore[misc]
    """Classes of pictures, SqueezeNet 1.1."""

    def __init__(self, classes: int = 1000) -> None:
        def pool() -> nn.Module:
            return nn.MaxPool2d(3, 2, ceil_mode=True)

        super().__init__(
            *(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(), Fire(64, 16, 128), Fire(128, 16, 128), pool()),
            *(Fire(128, 32, 256), Fire(256, 32, 256), pool(), Fire(256, 48, 384), Fire(384, 48, 384)),
            *(Fire(384, 64, 512), Fire(512, 64, 512), nn.Conv2d(512, classes, 1), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        )


def _separable(before: int, after: int, stride: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False), nn.BatchNorm2d(before), nn.ReLU()),
        *(nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()),
    )


class MobileNet(nn.Sequential):  # type: ignore[misc]
    """Classes of pictures, MobileNet v1."""

    def __init__(self, classes: int = 1000) -> None:
        sizes = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
        before = [32, *(after for after, _ in sizes)]
        super().__init__(
            *(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
            *(_separable(a, b, stride) for a, (b, stride) in zip(before, sizes, strict=False)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, classes)),
        )


class TwoInputs(nn.Module):  # type: ignore[misc]
    """A picture, and numbers about it: classes by both."""

    def __init__(self, numbers: int = 10, classes: int = 4) -> None:
        super().__init__()
        self.picture = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())
        self.numbers = nn.Sequential(nn.Linear(numbers, 16), nn.ReLU())
        self.classes = nn.Linear(32, classes)

    def forward(self, image: Tensor, numbers: Tensor) -> Tensor:
        seen = self.picture(image).mean(dim=(2, 3))
        return F.softmax(self.classes(torch.cat((seen, self.numbers(numbers)), dim=1)), dim=1)


class TwoConvolutions(nn.Sequential):  # type: ignore[misc]
    """The least that is called a network."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3, padding=1), nn.ReLU())


# The largest value of an input, and the inputs' shapes.
NETWORKS = {
    "unet": (UNet, 1.0, ((1, 3, 64, 64),)),
    "keyword": (KeywordSpotter, 1.0, ((1, 49, 40),)),
    "detector": (Detector, 255.0, ((1, 3, 128, 128),)),
    "super_resolution": (SuperResolution, 1.0, ((1, 3, 32, 32),)),
    "resnet18": (ResNet18, 1.0, ((1, 3, 224, 224),)),
    "squeezenet": (SqueezeNet, 1.0, ((1, 3, 224, 224),)),
    "mobilenet": (MobileNet, 1.0, ((1, 3, 224, 224),)),
    "two_inputs": (TwoInputs, 1.0, ((1, 3, 32, 32), (1, 10))),
    "two_convolutions": (TwoConvolutions, 1.0, ((1, 3, 32, 32),)),
}
COUNT = 2  # inputs with PyTorch's outputs


def network(name: str) -> nn.Module:
    """It, ready for inference: batch norms have statistics that are none of the first values."""
    torch.manual_seed(SEED)
    made = NETWORKS[name][0]()
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.2, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.8, 1.2)
    return made.eval()


def write(name: str, folder: Path) -> None:
    """The files of a network."""
    _, most, shapes = NETWORKS[name]
    net = network(name)
    given = [tuple(torch.rand(shape) * most for shape in shapes) for _ in range(COUNT)]
    arrays: dict[str, Any] = {}
    with torch.no_grad():
        for number, values in enumerate(given):
            left = net(*values)
            left = (left,) if isinstance(left, Tensor) else left
            arrays |= {f"input{number}_{at}": tensor.numpy() for at, tensor in enumerate(values)}
            arrays |= {f"output{number}_{at}": tensor.numpy() for at, tensor in enumerate(left)}
        np.savez(folder / f"{name}.npz", **arrays)
        torch.export.save(torch.export.export(net, given[0]), folder / f"{name}.pt2")
        torch.jit.save(torch.jit.trace(net, given[0]), folder / f"{name}.pt")
        torch.onnx.export(net, given[0], folder / f"{name}.onnx")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or NETWORKS:
        write(name, folder)
