/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the core share. Nothing here is for callers. */
#ifndef GRAMOPHONE_INTERNAL_H
#define GRAMOPHONE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

/* Where inlining makes the code smaller although the compiler estimates otherwise, and the opposite. */
#define GR_INLINE static inline __attribute__((always_inline))
#define GR_NOINLINE __attribute__((noinline))

/* The format's loads go byte by byte; where the alignment is known (gr_aligned), each is one instruction. */
GR_INLINE uint16_t gr_load16(const uint8_t *p);
GR_INLINE uint32_t gr_load32(const uint8_t *p);
GR_INLINE uint64_t gr_load64(const uint8_t *p);

#include "gramophone_trace.h"
#include "replayer.h"

/* A structure of the trace in the carve-out: all of them lie at multiples of 8. */
GR_INLINE const uint8_t *gr_aligned(const uint8_t *p)
{
    return __builtin_assume_aligned(p, 8);
}

#ifdef GRAMOPHONE_NETWORKS
#define GR_NETWORK(r) (&(r)->networks[(r)->network])
#define GR_PROGRESS(r) (&(r)->progress[(r)->network])
#define GR_FIRST_ACTION(r) (GR_NETWORK(r)->first_action)
#define GR_END_ACTION(r) (GR_NETWORK(r)->end_action)
#define GR_DRIVER_AT(r) (GR_NETWORK(r)->driver_at)
#define GR_DRIVER_END(r) (GR_NETWORK(r)->driver_end)
#else
#define GR_PROGRESS(r) (r)
#define GR_FIRST_ACTION(r) 0
#define GR_END_ACTION(r) ((r)->action_count)
#define GR_DRIVER_AT(r) ((r)->carveout_bytes)
#define GR_DRIVER_END(r) ((r)->low_bytes)
#endif

/* An action of a loaded trace, not validated. */
GR_INLINE struct gr_action gr_action_at(const struct gr_replayer *r, uint32_t index)
{
    const uint8_t *at = gr_aligned(r->actions + (size_t)index * GR_ACTION_BYTES);
    return (struct gr_action){
        .op = at[GR_ACTION_AT_OP],
        .flags = at[GR_ACTION_AT_FLAGS],
        .arg = gr_load16(at + GR_ACTION_AT_ARG),
        .value = gr_load32(at + GR_ACTION_AT_VALUE),
        .a = gr_load32(at + GR_ACTION_AT_A),
        .b = gr_load32(at + GR_ACTION_AT_B),
    };
}

#ifdef GRAMOPHONE_STEPS
/* Whether a trace says that its registers are set again by its prologue's accesses alone. */
GR_INLINE bool gr_says_resume(const struct gr_replayer *r, uint32_t replay_start)
{
    const struct gr_action a = gr_action_at(r, replay_start);
    return a.op == GR_OP_REPLAY_START && a.flags & GR_REPLAY_START_RESUME;
}
#endif

/* What the replay log is told, where there is one: calls of its functions. */
#ifdef GRAMOPHONE_LOG
#include "tell.h"
#define GR_TELL(r, what) ((r)->log ? (what) : (void)0)
#else
#define GR_TELL(r, what) ((void)0)
#endif
#ifdef GRAMOPHONE_LOG_HASHES
#define GR_TELL_COPY(r, what) GR_TELL(r, what)
#else
#define GR_TELL_COPY(r, what) ((void)0)
#endif

/* `static` where everything is one file. */
#ifndef GR_INTERNAL
#define GR_INTERNAL
#endif

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);

/* A register of the profile that a trace may touch; consecutive ones with the same rights share a row. */
struct gr_register {
    uint16_t first;      /* byte offset / 4 */
    uint16_t count : 4;  /* registers in the row */
    uint16_t access : 2; /* GR_ACCESS_* */
    uint16_t limits : 8; /* index */
};

/* What a write may do. */
struct gr_limits {
    uint32_t bits;   /* that it may set */
    uint32_t always; /* that it must set */
    uint32_t idle;   /* not 0: only while no job runs and no fault is there */
};

#define GR_ACCESS_READ 1u
#define GR_ACCESS_WRITE 2u

/* Stream over the body of a trace: each chunk is copied into secure memory, hashed there, then handed out. */
struct gr_stream {
    const struct gr_source *source;
    uint64_t offset;       /* in the signed file, of the next chunk */
    uint64_t left;         /* bytes of the body after the current chunk */
    uint64_t deadline_us;  /* no chunk is taken after it */
    uint64_t section;      /* bytes of the current section that were not handed out */
    const uint8_t *hashes; /* of the next chunk */
    uint8_t *chunk;        /* buffer of chunk_bytes */
    uint32_t chunk_bytes;
    uint32_t index;           /* number of the next chunk */
    uint64_t differing;       /* not 0: a chunk was not what its hash says */
    const uint8_t *at, *stop; /* bytes handed out that were not taken */
    const uint8_t *end;       /* of the current chunk */
    enum gr_status status;    /* the first failure; after it no more is handed out */
#ifdef GRAMOPHONE_ENCRYPTION
    struct gr_cipher *cipher; /* that decrypts chunks once they are checked; NULL: none does */
    uint64_t opened;          /* blocks that it has decrypted */
#endif
};

/* Bytes of the current section that can be taken at `at`, which the caller then advances; 0: it is at its
 * end, or the stream has failed. */
GR_INTERNAL uint64_t gr_stream_ready(struct gr_stream *s);

/* Copy bytes of the section to `out`, or skip them (NULL); fewer when the stream fails. */
GR_INTERNAL void gr_stream_take(struct gr_stream *s, uint8_t *out, uint64_t bytes);

/* Decode the section, an LZ4 block, to `out`, which it must fill; damage shows in the stream's status. */
GR_NOINLINE GR_INTERNAL void gr_lz4_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes);

#ifdef GRAMOPHONE_NETWORKS
/* Whether the selected network reaches these bytes of the image: each page says whose it is. */
GR_INTERNAL bool gr_reaches(const struct gr_replayer *r, uint64_t first, uint64_t end);
/* Whether each of its pages is a network's, and none is that of a network that is not there. */
GR_INTERNAL bool gr_has_owners(const struct gr_replayer *r);
/* Have the GPU at the selected network's disposal: with its page tables, if it has started. */
GR_INTERNAL void gr_take_over(struct gr_replayer *r);
/* What precedes its prologue: the GPU is reset unless others use it; then only what is this network's is
 * wiped (if it `is_new`), and what the GPU remembers of page tables. False: the reset does not complete. */
GR_INTERNAL bool gr_prepare_network(struct gr_replayer *r, bool is_new);
#endif

#ifdef GRAMOPHONE_NETWORKS
/* What the GPU's registers had is gone, memory is as it was: networks go on once their registers are set
 * again. Where the trace does not say that this is enough, and without steps, they begin again, and only the
 * network `keeper` keeps the time and the retries that it has used. */
GR_INTERNAL void gr_leave(struct gr_replayer *r, uint32_t keeper);
#ifdef GRAMOPHONE_STEPS
/* Whether a network goes on after a reset. */
GR_INTERNAL bool gr_resumes(const struct gr_replayer *r, uint32_t network);
#endif
#endif

#ifdef GRAMOPHONE_STEPS
/* Give up the selected network's replay if one is under way, with what it has left in memory. */
GR_INTERNAL void gr_abandon(struct gr_replayer *r);
#endif

/* Fetch an action and check all that can be checked without running it; the report then names it. */
GR_INTERNAL enum gr_status gr_fetch_action(struct gr_replayer *r, uint32_t index, struct gr_action *action);

/* Compare secrets and hashes: 1 or 0, as a word, since of a bool callers may not rely on a register's upper
 * bits. */
GR_INTERNAL uint32_t gr_is_same(const uint8_t *a, const uint8_t *b, size_t bytes);

/* Whether s of a signature is the one of two that is read. */
GR_INTERNAL bool gr_is_low(const uint8_t s[32]);

/* What a write may do; NULL when the register does not allow all of `access`. */
GR_INTERNAL const struct gr_limits *gr_find_register(uint32_t index, uint32_t access);

/* Slots: whether one is well formed, bytes of its dense data, whether the caller still has to bind it,
 * copying one during a replay. */
GR_INTERNAL bool gr_slot_is_valid(const struct gr_replayer *r, uint32_t slot);
GR_INTERNAL uint64_t gr_slot_bytes(const struct gr_replayer *r, uint32_t slot);
GR_INTERNAL bool gr_lacks_data(const struct gr_replayer *r, uint32_t slot);
GR_INTERNAL enum gr_status gr_copy_slot(struct gr_replayer *r, uint32_t slot, bool to_gpu);

#ifdef GRAMOPHONE_OPERATORS
/* Operators on the CPU: whether an action's operands are what its operator takes, and the actions
 * around it let it work; computing. */
GR_INTERNAL enum gr_status gr_check_operator(const struct gr_replayer *r, const struct gr_action *a,
                                             uint32_t index);
GR_INTERNAL enum gr_status gr_operate(struct gr_replayer *r, const struct gr_action *a);
#endif

/* Overwrite with zeros that the compiler cannot leave out. `bytes` and `to` are multiples of 8. */
GR_INTERNAL void gr_wipe(void *to, uint64_t bytes);

#define GR_STATE_LOADED 0xe3e3e3e3u
/* Limit of the resets that are tried, whatever the trace allows. */
#define GR_RETRY_LIMIT 8u
/* For jobs that have been reported as done to be over. */
#define GR_IDLE_TIMEOUT_US 10000u

_Static_assert(GR_SLOTS == GR_MAX_SLOTS && GR_KEPT == GR_KEEP_SLOTS, "replayer.h has the format's limits");
_Static_assert(sizeof(struct gr_replayer) % 8 == 0, "gr_wipe takes it");

#endif
