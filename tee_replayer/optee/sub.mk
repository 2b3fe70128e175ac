# SPDX-License-Identifier: BSD-2-Clause
# Gramophone's pseudo-TA: replays signed GPU recordings. Put this folder at core/pta/gramophone, add
#     subdirs-$(CFG_GRAMOPHONE_PTA) += gramophone
# to core/pta/sub.mk, and build OP-TEE with CFG_GRAMOPHONE_PTA=y. The settings below are a board's, from
# its description (`board` of the device file); the command line and the board's conf.mk come before them.

# The GPU: its register window, the interrupt id (32 + SPI) of its first line, and the GIC's distributor. Of lines
# that do not follow one another the id is 1 << 63, and each line's id in 16 bits, the first line's in the lowest.
GRAMOPHONE_GPU_BASE ?= @GPU@
GRAMOPHONE_GPU_BYTES ?= @WINDOW@
GRAMOPHONE_GPU_INTID ?= @INTID@
GRAMOPHONE_GICD_BASE ?= @GICD@
# Where the normal world has the GPU between sessions: the firewall that says which world owns it (optee_port.c);
# 0: always the secure world.
GRAMOPHONE_FIREWALL_BASE ?= @FIREWALL@
# Secure memory that the GPU sees at the same address, in multiples of 2 MiB, where the platform maps memory
# (below 4 GiB by default). Its last part, a multiple of 4096, takes the signed trace while it is loaded,
# then inputs and outputs.
GRAMOPHONE_CARVEOUT_BASE ?= @CARVEOUT_BASE@
GRAMOPHONE_CARVEOUT_BYTES ?= @CARVEOUT_BYTES@
GRAMOPHONE_STAGING_BYTES ?= @STAGING@

# y: only the TA for applications (ta/) opens sessions, so that its policy cannot be bypassed.
GRAMOPHONE_TA_ONLY ?= @TA_ONLY@
ifneq ($(GRAMOPHONE_TA_ONLY),y)
$(warning gramophone: any client may open sessions; GRAMOPHONE_TA_ONLY=y leaves them to the TA and its policy)
endif
cppflags-$(GRAMOPHONE_TA_ONLY) += -DGR_TA_ONLY

# All in one: see there.
srcs-y += gramophone.c

# Each makes the code smaller.
cflags-y += -Os -fomit-frame-pointer -fno-shrink-wrap -fno-guess-branch-probability -fno-tree-loop-im \
  -fno-move-loop-invariants -fno-tree-tail-merge -fno-jump-tables
cflags-y += -Wno-declaration-after-statement -Wno-redundant-decls -Wno-shadow
cppflags-y += -DGR_GPU_LINES=@LINES@ \
  -DGR_GPU_BASE=$(GRAMOPHONE_GPU_BASE) -DGR_GPU_BYTES=$(GRAMOPHONE_GPU_BYTES) \
  -DGR_GPU_INTID=$(GRAMOPHONE_GPU_INTID) -DGR_GICD_BASE=$(GRAMOPHONE_GICD_BASE) \
  -DGR_FIREWALL_BASE=$(GRAMOPHONE_FIREWALL_BASE) \
  -DGR_CARVEOUT_BASE=$(GRAMOPHONE_CARVEOUT_BASE) -DGR_CARVEOUT_BYTES=$(GRAMOPHONE_CARVEOUT_BYTES) \
  -DGR_STAGING_BYTES=$(GRAMOPHONE_STAGING_BYTES)
