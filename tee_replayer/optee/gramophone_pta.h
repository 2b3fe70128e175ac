/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The replayer as a pseudo-TA of OP-TEE: for clients.
 *
 * One session at a time, which has the GPU (more where it has a queue: below). A client does
 *
 *     LOAD_BEGIN, LOAD_DATA until all is there, LOAD,
 *     then as often as wanted { SET_INPUT for each input, RUN, GET_OUTPUT for each output }, then UNLOAD
 *
 * Each piece of shared memory is copied to secure memory before anything looks at it, and is not read again.
 * Closing the session unloads: the GPU is reset, the memory wiped. Where the normal world has the GPU
 * between sessions, opening one closes the board's firewall and resets the GPU; closing it resets the GPU,
 * then opens the firewall.
 *
 * Every command returns TEE_SUCCESS, what the replayer found (GRAMOPHONE_RESULT of a GR_STATUS; replayer.h
 * has their meaning), or
 *   TEE_ERROR_BAD_PARAMETERS  parameters of other types than the command's, a slot's piece that lies outside
 *                             the slot, an output where an input is meant or the other way round
 *   TEE_ERROR_BAD_STATE       out of turn: nothing is loaded, not all data is there, no output was computed;
 *                             no network is chosen, its request waits (of SUBMIT, RUN, a slot's data), or it
 *                             has none (of STEP); of YIELD: the session has no network
 *   TEE_ERROR_ACCESS_DENIED   the slot is of a network that this session has not chosen
 *   TEE_ERROR_BUSY            the network is another session's; of LOAD_BEGIN: others use the loaded
 *                             trace, or another session sends one
 *   TEE_ERROR_EXCESS_DATA     more data than LOAD_BEGIN announced
 *   TEE_ERROR_OUT_OF_MEMORY   the trace, or its inputs and outputs, do not fit the secure memory
 *   TEE_ERROR_SHORT_BUFFER    no room for the answer; the size is set to what it takes
 *   TEE_ERROR_ITEM_NOT_FOUND  the trace has no such slot, or network
 *   TEE_ERROR_NOT_SUPPORTED   no such command; those of a log and of attestations, where it has none
 *
 * Where pieces of a trace are read while jobs run (feature `streaming`), there is no LOAD_BEGIN and no
 * LOAD_DATA: a client shares the memory in which the signed trace lies, and LOAD and each RUN take it as a
 * parameter. It may change at any time: RUN then returns the result of GR_STATUS_CHUNK, and of GR_STATUS_READ
 * where the memory ends before the piece. The trace stays loaded, and the next RUN reads all pieces again.
 *
 * Where joint traces are taken, each network is one session's: CHOOSE it, and all
 * commands that name no slot are about it. With a queue there are as many sessions as
 * networks. One loads; the others choose other networks of what it has loaded. Each may, instead of RUN,
 *
 *     SUBMIT, then STEP until the request is over, then GET_OUTPUT
 *
 * A STEP runs one piece of the request that is first, whosever that is; whoever waits lets everybody's work
 * go on. A session that holds a network, and asks for nothing, keeps the trace loaded and costs nobody time.
 *
 * With a replay log (docs/LOG.md), LOAD and RUN are refused with the result of GR_STATUS_LOG until LOG_OPEN,
 * and while there is no room for another entry.
 *
 * Opening a session returns TEE_SUCCESS, or
 *   TEE_ERROR_BUSY            another session has the GPU; or as many are open as there can be networks
 *   TEE_ERROR_ACCESS_DENIED   the caller is not the TA for applications (GRAMOPHONE_TA_ONLY in sub.mk)
 *   TEE_ERROR_GENERIC         the core has not mapped the GPU or the secure memory, or the normal world's GPU
 *                             does not complete its reset
 */
#ifndef GRAMOPHONE_PTA_H
#define GRAMOPHONE_PTA_H

#include "gramophone_optee.h"
#include "replayer.h"

/* clang-format off */
#define GRAMOPHONE_PTA_UUID { 0xceefca54, 0xd0d0, 0x4b26, { 0x8a, 0x4f, 0x86, 0x6b, 0x50, 0xec, 0x5b, 0xb8 } }
/* The same, as RFC 4122 puts it in memory: for clients that build their own messages. */
#define GRAMOPHONE_PTA_UUID_BYTES { 0xce, 0xef, 0xca, 0x54, 0xd0, 0xd0, 0x4b, 0x26, \
                                    0x8a, 0x4f, 0x86, 0x6b, 0x50, 0xec, 0x5b, 0xb8 }
/* The TA for applications (ta/gramophone_ta.h). */
#define GRAMOPHONE_TA_UUID { 0x905abb08, 0xb3d9, 0x44d5, { 0xbe, 0xaf, 0xde, 0xfa, 0xa4, 0xf2, 0xfb, 0x9e } }
/* clang-format on */

/* The TEE_Result of a status. */
#define GRAMOPHONE_RESULT(status)                                                                            \
    ((uint32_t)(status) == (uint32_t)GR_STATUS_OK                                                            \
         ? 0u                                                                                                \
         : GRAMOPHONE_RESULT_ERROR | ((uint32_t)(status)&GRAMOPHONE_RESULT_STATUS))

/* Parameters in the order of the command; those not named are of type NONE. */
enum gramophone_command {
    /* value in: bytes of the signed trace, low and high half. Unloads the previous one */
    GRAMOPHONE_LOAD_BEGIN,
    /* memref in: the next bytes of it */
    GRAMOPHONE_LOAD_DATA,
    /* verify and load what has been sent, with the feature `streaming` memref in: the signed trace; no GPU
     * register is written */
    GRAMOPHONE_LOAD,
    /* value in: slot, 0; memref out: struct gramophone_slot */
    GRAMOPHONE_DESCRIBE,
    /* value in: slot, offset; memref in: dense data in C order at that offset. The piece that ends the slot
     * makes the input valid, for all following runs */
    GRAMOPHONE_SET_INPUT,
    /* replay once; with the feature `streaming` memref in: the signed trace */
    GRAMOPHONE_RUN,
    /* value in: slot, offset; memref out: dense data in C order at that offset, as much as fits */
    GRAMOPHONE_GET_OUTPUT,
    /* reset the GPU, wipe the memory */
    GRAMOPHONE_UNLOAD,
    /* memref out: struct gr_report of the last LOAD or RUN */
    GRAMOPHONE_GET_LOG,
    /* memref out: the loaded trace's manifest, as in its file (docs/FORMAT.md) */
    GRAMOPHONE_DESCRIBE_TRACE,
    /* as it was after LOAD, for another user's data: no inputs, no outputs; the next RUN starts with a reset
     * GPU and cleared memory */
    GRAMOPHONE_FORGET,
    /* for the TA: memref in: struct gr_log_tail as it was kept, zeros: none was. Starts this boot's log; one
     * that is open goes on */
    GRAMOPHONE_LOG_OPEN,
    /* for the TA: memref out: struct gr_log_tail, to be kept */
    GRAMOPHONE_LOG_TAIL,
    /* memref out: struct gr_log_entry, one after the other: those that nobody has taken yet, as many as fit;
     * they are given once */
    GRAMOPHONE_GET_ENTRIES,
    /* memref in: a verifier's nonce, 8 to 64 bytes; memref out: an attestation on this session's last replay
     */
    GRAMOPHONE_ATTEST_NONCE,
    /* memref out: 65 bytes, the key that verifies attestations: P-256, 04 || x || y */
    GRAMOPHONE_DEVICE_KEY,
    /* of a device with a trust policy: memref out: 4 bytes, the version under which the loaded trace was
       accepted */
    GRAMOPHONE_TRUST_VERSION,
    /* where joint traces are taken: value in: network, 0. It is this session's until it ends or unloads; LOAD
       has chosen the first one */
    GRAMOPHONE_CHOOSE,
    /* value in: network, 0; memref out: struct gramophone_network */
    GRAMOPHONE_DESCRIBE_NETWORK,
    /* with a queue: value in: after how many microseconds the replay is to be done, low and high half; all
       ones: whenever there is time. Refused (QUEUE, DEADLINE) when it would be late, or make another late */
    GRAMOPHONE_SUBMIT,
    /* value out: 1, 0: the request waits or is under way; else 0, 0, and the result is that of its replay */
    GRAMOPHONE_STEP,
    /* of a session that has a network: the GPU is the normal world's until the next STEP, RUN or LOAD; its
       driver must have let it go by then. What was under way goes on after that if its trace says that it
       can, else it begins again */
    GRAMOPHONE_YIELD,
};

enum { GRAMOPHONE_DEVICE_KEY_BYTES = 65 };

/* Of the device's secret, with OP-TEE's huk_subkey_derive. 'gramophone enrol --huk' is the same. */
#define GRAMOPHONE_HUK_USAGE 0x47524c47u /* GRLG */
#define GRAMOPHONE_HUK_PURPOSE "gramophone device"

#endif
