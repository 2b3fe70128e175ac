# SPDX-License-Identifier: BSD-2-Clause
"""What goes with a signed trace to those who get it: statements of its origin, SUIT manifests, TUF repositories,
proofs of transparency logs (docs/PROVENANCE.md).

Not in here: signatures of the trace itself, and the envelopes that all of this is signed in (signing).

Read first: statement.py
"""
