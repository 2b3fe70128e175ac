# SPDX-License-Identifier: BSD-2-Clause
"""What traces are judged by: the rules of `gramophone lint`, without a GPU and with one, the differences between
two traces, the flow of data from slots to slots, and in `report` the page on a trace's behaviour.

Not in here: compiled firmware (`audit_firmware`), images (`flash`), and what devices themselves refuse, which is
written in `trace_format/policy.py` and `tee_replayer/core`.

Read first: lint.py
"""
