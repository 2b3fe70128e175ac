# SPDX-License-Identifier: BSD-2-Clause
"""Networks by a compiler: one static schedule of kernels over planned memory, made and tried on this machine, and
run in the guest through the unmodified driver by a program that knows where its tensors lie.

Not in here: networks that ncnn runs (`record.ncnn`), and what recordings of any program share (`record`).

Read first: plan.py
"""
