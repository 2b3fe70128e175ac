# SPDX-License-Identifier: BSD-2-Clause
"""What the jobs of a trace access, and whether that holds for all data: observed on the virtual GPU, noted in a
recording, or derived from job chains; which actions start a job, what jobs cost, where the bytes of slots lie.

Not in here: what is done with it: passes change a program (`passes`), `audit` judges. How a family reads its own
jobs is in `gpus/FAMILY`.

Read first: proof.py
"""
