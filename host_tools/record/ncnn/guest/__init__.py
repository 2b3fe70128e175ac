# SPDX-License-Identifier: BSD-2-Clause
"""The program that runs in the recording guest, on the guest's Python: it imports nothing of ours, and is copied
into the job's archive.

Not in here: what starts it and reads its answer (`record/ncnn/job.py`).

Read first: guest_ncnn.py
"""
