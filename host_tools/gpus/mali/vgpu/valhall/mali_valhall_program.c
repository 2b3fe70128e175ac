/* SPDX-License-Identifier: BSD-2-Clause */
/* Valhall programs: where their blocks begin, and from instructions to blocks. Sources: see mali_valhall.h.
 */
#include <stdlib.h>
#include <string.h>

#include "mali_bifrost_integer.h"
#include "mali_valhall_step.h"

enum { FLOW_AT = 59, FLOW_KNOWN = 10, FLOW_END = 15, ALWAYS = 0xc0 };
enum { COMBINE_NONE, COMBINE_LOW, COMBINE_HIGH };
enum { MAX_LEADERS = 4096, MAX_BLOCK = 1024, MAX_WALK = 1 << 16 };

static const struct valhall_row rows[VALHALL_OPERATIONS] = VALHALL_ROWS;

/* Where branches go, ascending. */
struct leaders {
    uint64_t va[MAX_LEADERS];
    uint32_t count;
};

const struct valhall_row *valhall_find(uint64_t word, enum valhall_operation *operation)
{
    for (unsigned i = 0; i < VALHALL_OPERATIONS; i++)
        if ((word & ~rows[i].fields) == rows[i].exact) {
            *operation = (enum valhall_operation)i;
            return &rows[i];
        }
    return NULL;
}

static bool fetch(const struct mali_memory *memory, uint64_t va, uint64_t *word, struct mali_fault *fault)
{
    const uint8_t *at = mali_command(memory, va, VALHALL_INSTRUCTION, MALI_EXECUTE, fault);

    if (at)
        memcpy(word, at, sizeof(*word)); /* little-endian, as the GPU */
    return at != NULL;
}

static uint64_t target_of(uint64_t va, uint64_t word)
{
    return va + VALHALL_INSTRUCTION + (uint64_t)(int64_t)valhall_branch_number(word) * VALHALL_INSTRUCTION;
}

/* ---- leaders ---- */

static uint32_t position(const struct leaders *leaders, uint64_t va)
{
    uint32_t at = 0;

    while (at < leaders->count && leaders->va[at] < va)
        at++;
    return at;
}

static bool is_leader(const struct leaders *leaders, uint64_t va)
{
    uint32_t at = position(leaders, va);

    return at < leaders->count && leaders->va[at] == va;
}

/* True: it was not there before. */
static bool add(struct leaders *leaders, uint64_t va)
{
    uint32_t at = position(leaders, va);

    if (leaders->count == MAX_LEADERS || (at < leaders->count && leaders->va[at] == va))
        return false;
    memmove(&leaders->va[at + 1], &leaders->va[at], (leaders->count - at) * sizeof(leaders->va[0]));
    leaders->va[at] = va;
    leaders->count++;
    return true;
}

/* Find where branches go, from va on; what cannot be read or is not known is found when it is translated. */
static void find_leaders(struct leaders *leaders, const struct mali_memory *memory, uint64_t va,
                         uint64_t *pending)
{
    uint32_t left = 0, walked = 0;

    pending[left++] = va;
    while (left) {
        uint64_t start = pending[--left];
        for (va = start; walked < MAX_WALK && (va == start || !is_leader(leaders, va));
             va += VALHALL_INSTRUCTION, walked++) {
            struct mali_fault fault;
            enum valhall_operation operation;
            uint64_t word;
            if (!fetch(memory, va, &word, &fault) || !valhall_find(word, &operation))
                break;
            if (operation == VALHALL_BRANCHZ && add(leaders, target_of(va, word)))
                pending[left++] = target_of(va, word);
            if (word >> FLOW_AT == FLOW_END)
                break;
        }
    }
}

/* ---- blocks ---- */

/* Source 0 of a branch is a word or a half, which is compared with zero. */
static bool branch(struct valhall_step *step)
{
    struct bifrost_code *code = &step->t->code;
    unsigned part = step->part[0], condition = valhall_eq(step->word) ? BIFROST_EQ : BIFROST_NE;
    uint64_t target = target_of(step->va, step->word);

    step->ends = true;
    if (valhall_conservative(step->word) || part > COMBINE_HIGH)
        return valhall_refuse(step, "a branch on several threads, which is not modelled");
    if ((step->word & 0xff) == ALWAYS && condition == BIFROST_EQ) { /* zero is zero */
        code->next_va = target;
        return true;
    }
    code->branches = true;
    code->target_va = target;
    code->next_va = step->va + VALHALL_INSTRUCTION;
    step->uop.run = part ? bifrost_branch_u16[condition] : bifrost_icmp_u32[condition];
    step->uop.keep[0] = part == COMBINE_HIGH ? 16 : 0;
    step->uop.keep[1] = 0;
    step->uop.detail = ~0u;
    return valhall_emit_to(step, SLOT_TAKEN);
}

static bool translate_one(struct valhall_step *step, const struct mali_memory *memory)
{
    struct bifrost_code *code = &step->t->code;
    unsigned flow;

    if (!fetch(memory, step->va, &step->word, &code->fault)) {
        code->status = MALI_INSTR_INVALID_PC;
        return false;
    }
    step->t->encoding = step->word;
    step->row = valhall_find(step->word, &step->operation);
    if (!step->row)
        return valhall_refuse(step, "an instruction that is not known");
    flow = (unsigned)(step->word >> FLOW_AT);
    if (flow > FLOW_KNOWN && flow != FLOW_END)
        return valhall_refuse(step, "an instruction with a flow that is not modelled");
    if (!valhall_read_sources(step, valhall_is_signed(step->operation)))
        return false;
    bool done = step->operation == VALHALL_BRANCHZ    ? branch(step)
                : valhall_is_message(step->operation) ? valhall_message(step)
                                                      : valhall_compute(step);
    if (!done)
        return false;
    if (flow == FLOW_END) {
        if (step->operation == VALHALL_BRANCHZ)
            return valhall_refuse(step, "a branch that ends the thread");
        step->ends = true;
        code->next_va = 0;
    } else if (!code->branches && step->operation != VALHALL_BRANCHZ) {
        code->next_va = step->va + VALHALL_INSTRUCTION;
    }
    return true;
}

/* An instruction that is refused begins a block of its own, which says where it is. */
static void translate_block(struct bifrost_translation *t, const struct mali_memory *memory)
{
    const struct leaders *leaders = t->context;
    struct bifrost_code *code = &t->code;
    struct valhall_step step = {.t = t, .va = code->va};

    code->first = t->program->uops;
    for (uint16_t count = 0; !step.ends; count++, step.va += VALHALL_INSTRUCTION) {
        struct bifrost_code before = *code;
        uint32_t uops = t->program->uops;

        if (count && (count == MAX_BLOCK || is_leader(leaders, step.va)))
            break;
        if (!translate_one(&step, memory)) {
            if (!count)
                return;
            *code = before;
            t->program->uops = uops;
            break;
        }
        code->slots = code->tuples = (uint16_t)(count + 1);
    }
    code->uops = t->program->uops - code->first;
}

bool valhall_program_build(struct bifrost_program *program, const struct mali_memory *memory, uint64_t va,
                           const struct bifrost_environment *environment, const char **reason)
{
    struct leaders *leaders = calloc(1, sizeof(*leaders));
    uint64_t *pending = malloc((MAX_LEADERS + 1) * sizeof(*pending));
    bool done = leaders && pending;

    *reason = "too little memory of this machine";
    if (done) {
        find_leaders(leaders, memory, va, pending);
        done = bifrost_program_make(program, memory, va, environment, translate_block, leaders, reason);
    }
    free(leaders);
    free(pending);
    return done;
}
