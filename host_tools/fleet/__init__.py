# SPDX-License-Identifier: BSD-2-Clause
"""Watching devices: the logs of thousands of them, verified as streams, and questions to their entries.

Not in here: what makes an entry the device's, and what is wrong with a log, which is signing/long_log.py.

Read first: watch.py
"""
