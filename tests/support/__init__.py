# SPDX-License-Identifier: BSD-2-Clause
"""What several tests share: samples of traces, keys and images, small assemblers for both shader engines, hostile
inputs, models of hardware that misbehaves, and our own small recordings.

Not in here: tests. What only one room needs is in its conftest.py.

Read first: trace_samples.py
"""
