# SPDX-License-Identifier: BSD-2-Clause
"""From captures of the virtual GPU to raw traces: a network or a program is run several times, its inputs, outputs
and parameters are found as slots by differences, and the recording is built and replayed before anything is
written. A new model format starts in frontends.py.

Not in here: the recorder itself, which is a part of the device (`vgpu/recorder.c`), the machine that it runs in
(`machine`), and what happens to a raw trace next (`passes`).

Read first: convert.py
"""
