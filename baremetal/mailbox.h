/*
 * The mailbox: how the normal world requests a replay, and gets the response. It lies in normal-world
 * memory, so the firmware copies every field once, checks the copy and uses only that. Little-endian;
 * reserved fields are zero.
 *
 *     mailbox base            request (struct mailbox_request)
 *     + MAILBOX_RESPONSE_AT   response (struct mailbox_response), written once, magic last
 *     anywhere after that     signed trace, inputs, outputs; offsets count from the mailbox base
 *
 * host_tools/runners/mailbox.py is its twin.
 */
#ifndef GRAMOPHONE_MAILBOX_H
#define GRAMOPHONE_MAILBOX_H

#include "replayer.h"

#define MAILBOX_REQUEST_MAGIC UINT64_C(0x3151455258424d47)  /* "GMBXREQ1" */
#define MAILBOX_RESPONSE_MAGIC UINT64_C(0x3150534558424d47) /* "GMBXESP1" */
#define MAILBOX_RESPONSE_AT 8192
#define MAILBOX_DATA_AT 12288
#define MAILBOX_BUFFERS 256

/* Data for a slot, or room for it: dense, in C order. */
struct mailbox_buffer {
    uint32_t slot; /* index in the trace */
    uint32_t reserved;
    uint64_t offset;
    uint64_t bytes;
};

struct mailbox_request {
    uint64_t magic;
    uint64_t trace_offset; /* of the signed trace */
    uint64_t trace_bytes;
    uint32_t repeat;       /* replays */
    uint32_t buffer_count; /* at most MAILBOX_BUFFERS struct mailbox_buffer follow */
};

struct mailbox_response {
    uint64_t magic;
    uint64_t replays; /* done */
    struct gr_report report;
};

_Static_assert(sizeof(struct mailbox_buffer) == 24, "size of mailbox_buffer");
_Static_assert(sizeof(struct mailbox_request) == 32, "size of mailbox_request");
_Static_assert(32 + 24 * MAILBOX_BUFFERS <= MAILBOX_RESPONSE_AT, "room for the request");
_Static_assert(sizeof(struct mailbox_response) == 96, "size of mailbox_response");
_Static_assert(offsetof(struct gr_report, actions) == 40 && sizeof(enum gr_status) == 4,
               "layout of gr_report");

#endif
