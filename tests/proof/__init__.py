# SPDX-License-Identifier: BSD-2-Clause
"""The proof of the replayer (`make prove`): contracts in `wp` and `eva`, what puts them into copies of the
sources, and the prover.

Not in here: what is proved and what is not, in words (docs/adr/0014-proof.md).

Read first: units.py
"""
