# SPDX-License-Identifier: BSD-2-Clause
"""Makes torch_spotter.pt2 and torch_spotter.npz: a small network with a GRU, which ncnn has no GPU code for.

`python tests/support/torch_spotter.py FOLDER`, by a Python that has PyTorch (2.14 was it); inputs with what
PyTorch makes of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn


class Spotter(nn.Module):  # type: ignore[misc]
    """Frames of sound to words."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 12, 3, stride=2, padding=1)
        self.gru = nn.GRU(12, 6, bidirectional=True, batch_first=True)
        self.out = nn.Linear(12, 4)

    def forward(self, frames: Tensor) -> Tensor:
        x = torch.relu(self.conv(frames.transpose(1, 2)))
        _, state = self.gru(x.transpose(1, 2))
        return self.out(torch.cat(list(state), dim=-1)).log_softmax(-1)


def main(folder: Path) -> None:
    """Write both files."""
    torch.manual_seed(20261125)
    net, frames = Spotter().eval(), torch.randn(1, 8, 8)
    torch.export.save(torch.export.export(net, (torch.zeros(1, 8, 8),)), folder / "torch_spotter.pt2")
    with torch.no_grad():
        np.savez(folder / "torch_spotter.npz", frames=frames.numpy(), out0=net(frames).numpy())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
