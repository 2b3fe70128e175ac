# SPDX-License-Identifier: BSD-2-Clause
"""The format: sections, actions, policy, profiles, and what is generated from the schema."""
