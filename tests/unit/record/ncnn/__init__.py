# SPDX-License-Identifier: BSD-2-Clause
"""Networks of ncnn: layers, weights, its CPU code."""
