/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers and layouts are those of OP-TEE's core/include/optee_msg.h, optee_rpc_cmd.h and sm/optee_smc.h. */
#include "tee_client.h"

#define SMC_CALL_WITH_ARG 0x32000004u
#define SMC_RETURN_FROM_RPC 0x32000003u
#define SMC_GET_SHM_CONFIG 0xb2000007u
#define SMC_EXCHANGE_CAPABILITIES 0xb2000009u
#define SMC_RPC_MASK 0xffff0000u
#define SMC_UNKNOWN 0xffffffffu
#define CAPABILITY_RESERVED_SHM 1u
#define ERROR_OUT_OF_MEMORY 0xffff000cu
#define ERROR_NOT_IMPLEMENTED 0xffff0009u

enum { RPC_ALLOC = 0, RPC_FREE = 2, RPC_FOREIGN_INTERRUPT = 4, RPC_COMMAND = 5 };
enum { RPC_SHM_ALLOC = 6, RPC_SHM_FREE = 7 };
enum { OPEN_SESSION = 0, INVOKE_COMMAND = 1, CLOSE_SESSION = 2 };
enum { ATTRIBUTE_META = 0x100, MESSAGE_BYTES = 4096, PAGE = 4096 };

struct message_param {
    uint64_t attribute, a, b, c;
};

struct message {
    uint32_t command, function, session, cancel_id, reserved, result, origin, param_count;
    struct message_param params[TEE_PARAMS + 2];
};

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
void secure_call(uint64_t registers[8]);

/* The shared memory: a message, what the core requests, and at its end the caller's chunk. */
static struct {
    uint64_t base, free, end;
    uint32_t origin;
} shared;

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

bool tee_start(void)
{
    uint64_t registers[8] = {SMC_EXCHANGE_CAPABILITIES};
    secure_call(registers);
    if (registers[0] || !(registers[1] & CAPABILITY_RESERVED_SHM))
        return false;
    memset(registers, 0, sizeof registers);
    registers[0] = SMC_GET_SHM_CONFIG;
    secure_call(registers);
    if (registers[0] || registers[2] < 2 * TEE_CHUNK_BYTES)
        return false;
    shared.base = registers[1];
    shared.free = shared.base + MESSAGE_BYTES;
    shared.end = shared.base + registers[2] - TEE_CHUNK_BYTES;
    return true;
}

void *tee_chunk(void)
{
    return at(shared.end);
}

/* Memory that the core requests is not given back: it requests little, and keeps it. 0: there is none. */
static uint64_t allocate(uint64_t bytes)
{
    const uint64_t address = shared.free;
    if (bytes > shared.end - address)
        return 0;
    shared.free += (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    return address;
}

/* As optee_msg.h has it: a page with addresses of pages, and at its end that of the next such page. */
uint64_t tee_pages(const void *memory, uint64_t bytes)
{
    enum { ADDRESSES = PAGE / sizeof(uint64_t) - 1 };
    const uint64_t offset = (uintptr_t)memory % PAGE, start = (uintptr_t)memory - offset,
                   pages = (offset + bytes + PAGE - 1) / PAGE, first = allocate(PAGE);
    uint64_t list = first;
    for (uint64_t i = 0; i < pages && list; i++) {
        uint64_t *const addresses = at(list);
        addresses[i % ADDRESSES] = start + i * PAGE;
        if (i % ADDRESSES == ADDRESSES - 1)
            addresses[ADDRESSES] = list = allocate(PAGE);
    }
    return list ? first + offset : 0;
}

static void serve_command(struct message *message)
{
    message->result = ERROR_NOT_IMPLEMENTED;
    if (message->command == RPC_SHM_FREE)
        message->result = 0;
    if (message->command == RPC_SHM_ALLOC && message->param_count == 1) {
        const uint64_t bytes = message->params[0].b, address = allocate(bytes);
        message->result = address ? 0 : ERROR_OUT_OF_MEMORY;
        message->params[0] = (struct message_param){TEE_MEMREF_OUT, address, bytes, address};
    }
}

static void serve(uint64_t registers[8])
{
    const uint64_t pair = registers[1] << 32 | (uint32_t)registers[2];
    switch (registers[0] & ~SMC_RPC_MASK) {
    case RPC_ALLOC: {
        const uint64_t address = allocate(registers[1]);
        registers[1] = registers[4] = address >> 32;
        registers[2] = registers[5] = (uint32_t)address;
        break;
    }
    case RPC_COMMAND: serve_command(at(pair)); break;
    default: break; /* freed memory, an interrupt: nothing to do */
    }
    registers[0] = SMC_RETURN_FROM_RPC;
}

static uint32_t call(struct message *message)
{
    uint64_t registers[8] = {SMC_CALL_WITH_ARG, shared.base >> 32, (uint32_t)shared.base};
    for (;;) {
        secure_call(registers);
        const uint32_t status = (uint32_t)registers[0];
        if (status == SMC_UNKNOWN || (status & SMC_RPC_MASK) != SMC_RPC_MASK) {
            shared.origin = message->origin;
            return status ? TEE_CALL_FAILED : message->result;
        }
        serve(registers);
    }
}

static struct message *new_message(uint32_t command, uint32_t session)
{
    struct message *message = at(shared.base);
    memset(message, 0, sizeof *message);
    message->command = command;
    message->session = session;
    return message;
}

uint32_t tee_open(const uint8_t uuid[16], uint32_t *session)
{
    struct message *message = new_message(OPEN_SESSION, 0);
    message->param_count = 2; /* the TA's identity, the client's: public */
    message->params[0].attribute = message->params[1].attribute = TEE_VALUE_IN | ATTRIBUTE_META;
    memcpy(&message->params[0].a, uuid, 16);
    const uint32_t result = call(message);
    *session = message->session;
    return result;
}

uint32_t tee_invoke(uint32_t session, uint32_t command, struct tee_param params[TEE_PARAMS])
{
    struct message *message = new_message(INVOKE_COMMAND, session);
    message->function = command;
    message->param_count = TEE_PARAMS;
    for (int i = 0; i < TEE_PARAMS; i++)
        message->params[i] = (struct message_param){params[i].kind, params[i].a, params[i].b, params[i].a};
    const uint32_t result = call(message);
    for (int i = 0; i < TEE_PARAMS; i++) {
        params[i].a = message->params[i].a;
        params[i].b = message->params[i].b;
    }
    return result;
}

uint32_t tee_close(uint32_t session)
{
    return call(new_message(CLOSE_SESSION, session));
}

uint32_t tee_origin(void)
{
    return shared.origin;
}
