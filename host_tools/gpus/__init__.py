# SPDX-License-Identifier: BSD-2-Clause
"""One folder for each GPU family, with all that the host knows of it: its description `FAMILY`, page tables, jobs,
what its recordings become, its own passes, the guest's needs (`guest.toml`), and in `vgpu` the virtual GPU's part,
in C.

Not in here: the interface that these implement (`families`), and registers (`trace_format/gpus`). Importers of
recordings are in `host_tools/extras/importers`.

Read first: mali/__init__.py
"""
