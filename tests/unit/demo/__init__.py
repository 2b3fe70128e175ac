# SPDX-License-Identifier: BSD-2-Clause
"""The demo's network, pictures and recordings."""
