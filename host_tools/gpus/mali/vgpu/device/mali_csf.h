/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Command streams: what stands in place of job slots on a Mali since 2021. A microcontroller takes jobs from
 * rings of 64-bit instructions. Its firmware is not here: what the driver sees of it is, its contract.
 *
 * Sources: Linux 6.12 drivers/gpu/drm/panthor (panthor_regs.h, panthor_fw.h, panthor_fw.c, panthor_sched.c);
 * Mesa 25.0.7 src/panfrost (lib/genxml/v10.xml, vulkan/csf); the rest was found by running both.
 */
#ifndef GRAMOPHONE_MALI_CSF_H
#define GRAMOPHONE_MALI_CSF_H

#include "mali_device.h"
#include "mali_g610_register_map.h"

enum { CSF_GROUPS = 8, CSF_STREAMS = 8, CSF_REGISTERS = 96, CSF_CALLS = 8, CSF_SAVED = 32 };

/* Instructions from `pc` on, up to `end`. */
struct csf_range {
    uint64_t pc, end;
};

struct csf_stream {
    bool is_on, is_blocked;
    bool has_waited;  /* in a call, whose rest is another job for an observer */
    uint64_t extract; /* bytes that were taken from the ring */
    struct csf_range now, caller[CSF_CALLS];
    unsigned depth;
    uint32_t reg[CSF_REGISTERS];
};

struct csf_group {
    bool is_active;
    uint64_t told; /* instructions when the driver was told that the group is idle, + 1: once for each time */
    struct csf_stream stream[CSF_STREAMS];
};

/* Streams of a group that was suspended, by the address of its buffer. */
struct csf_saved {
    uint64_t buffer;
    struct csf_stream stream[CSF_STREAMS];
};

struct mali_csf {
    struct csf_group group[CSF_GROUPS];
    struct csf_saved saved[CSF_SAVED];
    uint64_t due_ns;       /* when the microcontroller looks at what has been rung; 0: nothing has */
    bool starts;           /* it is to boot */
    uint64_t rung;         /* bit n: doorbell n */
    uint64_t instructions; /* that streams ran */
};

/* What a dispatch is of: the stream's registers and the instruction. */
struct mali_csf_dispatch {
    const uint32_t *reg;
    uint64_t word;
};

/* Of GPU_COMMAND: as job manager GPUs have it; a value that is none of theirs: not modelled. */
uint32_t mali_csf_command(uint32_t value);
bool mali_csf_create(struct mali_device *dev);
void mali_csf_reset(struct mali_device *dev);
/* True: the write was one of a register that means something here. */
bool mali_csf_write(struct mali_device *dev, uint32_t offset, uint32_t value);
void mali_csf_advance(struct mali_device *dev);

/* Words that the microcontroller shares with the driver, in its own address space. A fault stops the GPU. */
uint32_t mali_csf_word(struct mali_device *dev, uint64_t va);
uint64_t mali_csf_pair(struct mali_device *dev, uint64_t va);
void mali_csf_set(struct mali_device *dev, uint64_t va, uint32_t value);
void mali_csf_set_pair(struct mali_device *dev, uint64_t va, uint64_t value);
/* Where group and stream take and give: its input and output block. */
uint64_t mali_csf_group_input(struct mali_device *dev, unsigned group);
uint64_t mali_csf_group_output(struct mali_device *dev, unsigned group);
uint64_t mali_csf_stream_input(struct mali_device *dev, unsigned group, unsigned stream);
uint64_t mali_csf_stream_output(struct mali_device *dev, unsigned group, unsigned stream);
/* Toggle an event of a group, if the driver listens to it. */
void mali_csf_event(struct mali_device *dev, unsigned group, uint32_t bit);

/* mali_csf_stream.c: run a stream until its ring is empty or it waits. */
void mali_csf_run(struct mali_device *dev, unsigned group, unsigned stream);

#endif
