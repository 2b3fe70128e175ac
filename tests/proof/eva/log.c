/* SPDX-License-Identifier: BSD-2-Clause */
/* Of the replay log: opening it, entries of any kind on any report, what the core says while it loads and
 * replays, in any order, and its end; for any log, secret and trace, and a library and a board that may fail
 * at each call. */
#include "log_seam.h"

enum { DATA_BYTES = 64 };
static struct gr_log state;
static struct gr_log_tail tail;
static uint8_t firmware[GR_DIGEST_BYTES], data[DATA_BYTES];
static uint64_t manifest[GR_MANIFEST_BYTES / 8];

static bool keep(void *ctx, const struct gr_log_entry *entry, const struct gr_log_tail *after)
{
    struct gr_log_entry out = *entry;
    (void)ctx;
    (void)out;
    tail = *after;
    return Frama_C_interval(0, 1);
}

int main(void)
{
    const struct gr_log_port port = {keep, give_secret, NULL};
    struct gr_report report;
    Frama_C_make_unknown((char *)&tail, sizeof tail);
    Frama_C_make_unknown((char *)firmware, sizeof firmware);
    Frama_C_make_unknown((char *)manifest, sizeof manifest);
    Frama_C_make_unknown((char *)data, sizeof data);
    if (!gr_log_open(&state, &port, &tail, firmware))
        return 1;
    while (Frama_C_interval(0, 1)) {
        Frama_C_make_unknown((char *)&report, sizeof report);
        gr_log_begin(&state);
#ifdef GRAMOPHONE_TRUST
        gr_log_policy(&state, data, Frama_C_unsigned_int_interval(0, DATA_BYTES),
                      Frama_C_unsigned_int_interval(0, UINT32_MAX));
#endif
        gr_log_trace(&state, data, Frama_C_unsigned_int_interval(0, DATA_BYTES), (const uint8_t *)manifest);
        gr_log_part(&state, Frama_C_interval(GR_LOG_PROLOGUE, GR_LOG_REPLAY_DONE));
        gr_log_slot(&state, Frama_C_unsigned_int_interval(0, UINT32_MAX),
                    Frama_C_unsigned_long_long_interval(0, UINT64_MAX), Frama_C_interval(0, 1));
        gr_log_bytes(&state, data, Frama_C_unsigned_long_long_interval(0, DATA_BYTES),
                     Frama_C_interval(0, 1));
        gr_log_append(&state, Frama_C_interval(GR_LOG_KIND_BOOT, GR_LOG_KIND_REPLAY), &report);
    }
    gr_log_close(&state);
    //@ assert closed: \forall integer i; 0 <= i < 32 ==> state.firmware[i] == 0 && state.subject[i] == 0;
    return 0;
}
#include "shipped/log.c"
