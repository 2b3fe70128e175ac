/* SPDX-License-Identifier: BSD-2-Clause */
/* Valhall's instructions that access memory, or wait for other threads. Sources: see mali_valhall.h. */
#include "mali_bifrost_integer.h"
#include "mali_valhall_step.h"

enum { SLOT_OF_BARRIERS = 7, EXCHANGES = 15 };
enum { BYTE_TO_HALF = 4, BYTE_TO_WORD = 6, BYTE_TO_PAIR = 7, HALF_TO_WORD = 2, HALF_TO_PAIR = 3 };

static bool message_of(enum valhall_operation operation, uint8_t *message)
{
    switch (operation) {
    case VALHALL_LOAD_I8:
    case VALHALL_LOAD_I16:
    case VALHALL_LOAD_I24:
    case VALHALL_LOAD_I32:
    case VALHALL_LOAD_I48:
    case VALHALL_LOAD_I64:
    case VALHALL_LOAD_I96:
    case VALHALL_LOAD_I128:
    case VALHALL_LD_BUFFER_I8:
    case VALHALL_LD_BUFFER_I16:
    case VALHALL_LD_BUFFER_I24:
    case VALHALL_LD_BUFFER_I32:
    case VALHALL_LD_BUFFER_I48:
    case VALHALL_LD_BUFFER_I64:
    case VALHALL_LD_BUFFER_I96:
    case VALHALL_LD_BUFFER_I128: *message = MESSAGE_LOAD; return true;
    case VALHALL_STORE_I8:
    case VALHALL_STORE_I16:
    case VALHALL_STORE_I24:
    case VALHALL_STORE_I32:
    case VALHALL_STORE_I48:
    case VALHALL_STORE_I64:
    case VALHALL_STORE_I96:
    case VALHALL_STORE_I128: *message = MESSAGE_STORE; return true;
    case VALHALL_ATOM_I32:
    case VALHALL_ATOM1_RETURN_I32:
    case VALHALL_ATOM_RETURN_I32: *message = MESSAGE_ATOMIC; return true;
    case VALHALL_LEA_BUFFER: *message = MESSAGE_ADDRESS; return true;
    case VALHALL_BARRIER: *message = MESSAGE_BARRIER; return true;
    default: return false;
    }
}

bool valhall_is_message(enum valhall_operation operation)
{
    uint8_t message;

    return message_of(operation, &message);
}

/* Low word, high word, from the pair that source 0 is and an offset. */
static bool find_address(struct valhall_step *step, int32_t offset)
{
    struct bifrost_uop low = bifrost_of_one(bifrost_pointer_s32, SLOT_ADDRESS, step->uop.from[0]);
    struct bifrost_uop high = bifrost_of_one(bifrost_pointer_high, SLOT_ADDRESS + 1, step->high[0]);

    low.from[1] = bifrost_constant(step->t, (uint32_t)offset);
    high.from[2] = SLOT_HIDDEN;
    return bifrost_emit(step->t, &low) && bifrost_emit(step->t, &high);
}

/* An offset, and the buffer's name. */
static bool find_in_buffer(struct valhall_step *step)
{
    struct bifrost_uop offset = bifrost_of_one(bifrost_move, SLOT_ADDRESS, step->uop.from[0]);
    struct bifrost_uop buffer = bifrost_of_one(bifrost_move, SLOT_ADDRESS + 1, step->uop.from[1]);

    step->t->code.segment = SEGMENT_UNIFORM;
    step->t->program->uses_uniform_buffers = true;
    return bifrost_emit(step->t, &offset) && bifrost_emit(step->t, &buffer);
}

/* Where bytes of memory go in registers; elements of less than a register leave the rest as it is. */
static void lanes(struct bifrost_transfer *transfer, uint64_t word)
{
    unsigned code = valhall_lane8(word); /* of all sizes at the same place */

    if (transfer->bytes == 1 && code < BYTE_TO_HALF) {
        transfer->shift = (uint8_t)(8 * code);
    } else if (transfer->bytes == 1 && code < BYTE_TO_WORD) {
        transfer->width = 16;
        transfer->shift = (uint8_t)(16 * (code - BYTE_TO_HALF));
    } else if (transfer->bytes == 1) {
        transfer->width = code == BYTE_TO_WORD ? 32 : 64;
    } else if (transfer->bytes == 2 && code < HALF_TO_WORD) {
        transfer->shift = (uint8_t)(16 * code);
    } else if (transfer->bytes == 2) {
        transfer->width = code == HALF_TO_WORD ? 32 : 64;
    } else if (transfer->bytes == 4 && code) {
        transfer->width = 64;
    }
}

/* Whether a code of `lanes` is one that the size has. */
static bool lanes_are_known(unsigned bytes, unsigned code)
{
    return (bytes != 2 || code <= HALF_TO_PAIR) && (bytes != 4 || code <= 1);
}

static bool move_memory(struct valhall_step *step, struct bifrost_code *code)
{
    static const uint8_t sizes[8] = {1, 2, 3, 4, 6, 8, 12, 16};
    uint8_t bytes = sizes[step->word >> 27 & 7];
    struct bifrost_transfer *transfer = &code->transfer;
    bool is_load = code->message == MESSAGE_LOAD;

    *transfer = (struct bifrost_transfer){.bytes = bytes,
                                          .align = bytes % 2   ? 1
                                                   : bytes % 4 ? 2
                                                               : 4,
                                          .width = (uint8_t)(8 * bytes)};
    if (is_load) {
        if (!lanes_are_known(bytes, valhall_lane8(step->word)))
            return valhall_refuse(step, "a load to a place by a code that is reserved");
        lanes(transfer, step->word);
        transfer->is_signed = !valhall_unsigned(step->word);
    }
    transfer->words = (uint8_t)((transfer->shift + transfer->width + 31) / 32);
    if (valhall_count(step->word) != transfer->words)
        return valhall_refuse(step, "a message of another number of registers than its size");
    if (step->row->source[0] == VALHALL_WORD)
        return find_in_buffer(step);
    return find_address(step, valhall_offset_number(step->word));
}

/* What threads get is the word before their own operation. */
static bool atomic(struct valhall_step *step, struct bifrost_code *code)
{
    static const uint8_t with_1[16] = {ATOMIC_ADD, ATOMIC_ADD, ATOMIC_UMAX, ATOMIC_SMAX, ATOMIC_OR};
    const uint64_t word = step->word;
    bool returns = step->operation == VALHALL_ATOM_RETURN_I32,
         is_1 = step->operation == VALHALL_ATOM1_RETURN_I32;
    unsigned operation = is_1 ? with_1[valhall_atomic1(word)] : valhall_atomic(word),
             count = valhall_count(word), reads = returns && valhall_compare(word) ? 2 : 1;
    uint16_t data = is_1 ? bifrost_constant(step->t, valhall_atomic1(word) == 1 ? ~0u : 1) : code->staging;
    struct bifrost_uop move = bifrost_of_one(bifrost_move, SLOT_DATA, data);

    code->transfer = (struct bifrost_transfer){.bytes = 4, .align = 4, .width = 32};
    if (operation == EXCHANGES)
        operation = reads == 2 ? ATOMIC_COMPARE_EXCHANGE : ATOMIC_EXCHANGE;
    else if ((!is_1 && !bifrost_atomic_post[operation]) || !operation || reads == 2)
        return valhall_refuse(step, "an atomic operation that is not known");
    if ((is_1 ? count > 1 : count != reads) || (returns && valhall_write_count(word)))
        return valhall_refuse(step, "an atomic operation on another number of registers than it has");
    if (operation == ATOMIC_COMPARE_EXCHANGE || operation == ATOMIC_EXCHANGE) {
        if (!returns)
            return valhall_refuse(step, "an exchange without a result");
        code->transfer.words = (uint8_t)reads;
    } else {
        code->transfer.words = returns || (is_1 && count);
    }
    code->transfer.atomic = (uint8_t)operation;
    step->t->program->uses_atomics = true;
    return bifrost_emit(step->t, &move) && find_address(step, (int32_t)valhall_near_number(word));
}

bool valhall_message(struct valhall_step *step)
{
    struct bifrost_code *code = &step->t->code;

    step->ends = true;
    message_of(step->operation, &code->message);
    code->staging = (uint8_t)(step->word >> 40 & 63);
    code->result = code->staging;
    code->segment = SEGMENT_NONE;
    if (code->message == MESSAGE_BARRIER) {
        step->t->program->uses_barrier = true;
        return valhall_slot(step->word) == SLOT_OF_BARRIERS ||
               valhall_refuse(step, "a barrier of an unknown slot");
    }
    if (valhall_slot(step->word) > 2)
        return valhall_refuse(step, "a message of an unknown slot");
    if (code->message == MESSAGE_ADDRESS) {
        code->transfer = (struct bifrost_transfer){.words = 2, .align = 1, .width = 64};
        if (valhall_count(step->word) != 2)
            return valhall_refuse(step, "an address in another number of registers than two");
        if (!find_in_buffer(step))
            return false;
    } else if (code->message == MESSAGE_ATOMIC ? !atomic(step, code) : !move_memory(step, code)) {
        return false;
    }
    if (step->operation == VALHALL_ATOM_RETURN_I32)
        code->result = (uint8_t)(step->word >> 16 & 63);
    if (code->staging + code->transfer.words > BIFROST_REGISTERS || code->result >= BIFROST_REGISTERS)
        return bifrost_refuse(step->t, MALI_INSTR_OPERAND_FAULT, "a message of registers after the last");
    return true;
}
