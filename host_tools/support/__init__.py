# SPDX-License-Identifier: BSD-2-Clause
"""What any room may use and that knows nothing of GPUs: files, caches, programs, messages, tensors, the version,
and the sandbox that foreign code runs in.

Not in here: anything about traces.

Read first: files.py
"""
