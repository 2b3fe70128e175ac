# SPDX-License-Identifier: BSD-2-Clause
"""Operators that are not of ONNX's own domain, as ones that are: trained tables (`ai.onnx.ml`) and what ONNX
Runtime's tools write (`com.microsoft`). A compiler's front end gets the result; ONNX Runtime, the judge, gets the
file as it is.

Not in here: ONNX's own operators that a compiler lacks (`compiled/operators.py`), and what callers get in place of
texts and maps (`onnx_answers.py`).

Read first: table.py
"""
