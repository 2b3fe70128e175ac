/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A normal world with a session for each network of a joint trace. At random it asks for replays, with other
 * inputs and deadlines each, has pieces of them run, takes outputs and compares them with those expected; in
 * between it tries to reach other sessions' slots, and gives the GPU back. What to do stands at SCENE_AT
 * (struct scene, then inputs and expected outputs); the outcome after the mailbox's response (struct answer),
 * for test_sharing.py.
 */
#include "heap.h"
#include "program.h"

#define SCENE_AT UINT64_C(0x1000000)
enum { NETWORKS = 8, GPU_IDENT1 = 0x0b00000c };

struct scene {
    uint32_t requests, networks, samples, seed;
    uint32_t yield_every; /* pieces; 0: never */
    uint32_t walk;        /* not the above: commands out of turn, each result noted */
    struct {
        uint32_t input, input_bytes, output, output_bytes; /* slots */
        uint64_t inputs_at, outputs_at;                    /* of all samples, from the mailbox */
    } networks_[NETWORKS];
};

static struct {
    struct mailbox_response mailbox;
    uint32_t result, origin;   /* of what must succeed */
    uint32_t asked, different; /* requests; outputs that are not those expected */
    uint32_t pieces, kept_out, yields, ident;
    uint32_t longest_piece, longest_yield; /* calls, in ticks of the counter */
    struct heap before, after;             /* the core's, with all sessions open */
    uint32_t count, results[56];
} answer;

static struct scene scene;
static uint32_t sessions[NETWORKS], sample[NETWORKS];
static bool waits[NETWORKS];

/* Numerical Recipes' generator; its high bits. */
static uint32_t random_below(uint32_t bound)
{
    scene.seed = scene.seed * 1664525u + 1013904223u;
    return (scene.seed >> 8) % bound;
}

static void note(uint32_t result)
{
    answer.results[answer.count++] = result;
}

static bool is_same(const uint8_t *a, const uint8_t *b, uint32_t bytes)
{
    uint32_t i = 0;
    while (i < bytes && a[i] == b[i])
        i++;
    return i == bytes;
}

static uint32_t set_input(uint32_t session, uint32_t network, uint32_t which)
{
    const uint32_t bytes = scene.networks_[network].input_bytes;
    memcpy(tee_chunk(), mailbox(scene.networks_[network].inputs_at + (uint64_t)which * bytes), bytes);
    return INVOKE(session, GRAMOPHONE_SET_INPUT, {TEE_VALUE_IN, scene.networks_[network].input, 0},
                  {TEE_MEMREF_IN, (uintptr_t)tee_chunk(), bytes});
}

static uint32_t get_output(uint32_t session, uint32_t network)
{
    return INVOKE(session, GRAMOPHONE_GET_OUTPUT, {TEE_VALUE_IN, scene.networks_[network].output, 0},
                  {TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), scene.networks_[network].output_bytes});
}

/* `within_us`: all ones: whenever there is time. */
static uint32_t submit(uint32_t session, uint64_t within_us)
{
    return INVOKE(session, GRAMOPHONE_SUBMIT, {TEE_VALUE_IN, (uint32_t)within_us, within_us >> 32});
}

static uint32_t step(uint32_t session, bool *is_waiting)
{
    struct tee_param params[TEE_PARAMS] = {{TEE_VALUE_OUT, 0, 0}};
    const uint32_t result = tee_invoke(session, GRAMOPHONE_STEP, params);
    *is_waiting = !result && params[0].a;
    return result;
}

static uint32_t ask(uint32_t network)
{
    static const uint64_t later = UINT64_C(1) << 40;
    const uint64_t within = random_below(2) ? UINT64_MAX : later + ((uint64_t)random_below(1000) << 30);
    sample[network] = random_below(scene.samples);
    uint32_t result = set_input(sessions[network], network, sample[network]);
    if (!result)
        result = submit(sessions[network], within);
    waits[network] = true;
    answer.asked++;
    return result;
}

static uint64_t ticks(void)
{
    uint64_t now;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(now));
    return now;
}

/* Keep the time since `start` if it is the longest. */
static void measure(uint32_t *longest, uint64_t start)
{
    const uint64_t took = ticks() - start;
    if (took > *longest)
        *longest = (uint32_t)took;
}

/* A piece; if the session's own replay is over by it, or was, its output. */
static uint32_t go_on(uint32_t network)
{
    const uint32_t bytes = scene.networks_[network].output_bytes;
    const uint64_t start = ticks();
    uint32_t result = step(sessions[network], &waits[network]);
    measure(&answer.longest_piece, start);
    answer.pieces++;
    if (result || waits[network])
        return result;
    result = get_output(sessions[network], network);
    answer.different += !is_same(
        tee_chunk(), mailbox(scene.networks_[network].outputs_at + (uint64_t)sample[network] * bytes), bytes);
    return result;
}

/* Nobody gets at another's slots. */
static void intrude(uint32_t network)
{
    const uint32_t other = (network + 1) % scene.networks;
    answer.kept_out += set_input(sessions[network], other, 0) == 0xffff0001u &&
                       get_output(sessions[network], other) == 0xffff0001u;
}

static uint32_t share(void)
{
    uint32_t result = 0, waiting = 0;
    for (uint32_t turn = 0; !result && (answer.asked < scene.requests || waiting); turn++) {
        const uint32_t network = random_below(scene.networks);
        if (waits[network])
            result = go_on(network);
        else if (answer.asked < scene.requests)
            result = ask(network);
        if (turn % 64 == 0)
            intrude(network);
        if (!result && scene.yield_every && turn % scene.yield_every == 0) {
            const uint64_t start = ticks();
            result = INVOKE(sessions[network], GRAMOPHONE_YIELD, {0});
            measure(&answer.longest_yield, start);
            if (!result)
                answer.ident = *at(GPU_IDENT1);
            answer.yields++;
        }
        waiting = 0;
        for (uint32_t i = 0; i < scene.networks; i++)
            waiting += waits[i];
    }
    return result;
}

static uint32_t open_all(const struct mailbox_request *request)
{
    uint32_t result = 0;
    for (uint32_t i = 0; !result && i < scene.networks; i++)
        result = open_session(&sessions[i]);
    if (!result)
        result = send_trace(sessions[0], request);
    if (!result)
        result = INVOKE(sessions[0], GRAMOPHONE_LOAD, {0});
    for (uint32_t i = 1; !result && i < scene.networks; i++)
        result = INVOKE(sessions[i], GRAMOPHONE_CHOOSE, {TEE_VALUE_IN, i, 0});
    return result;
}

/* Two sessions, in and out of turn. */
static void walk(const struct mailbox_request *request)
{
    bool is_waiting = false;
    uint32_t a, b, c;
    note(open_session(&a));
    note(INVOKE(a, GRAMOPHONE_CHOOSE, {TEE_VALUE_IN, 0, 0}));
    note(submit(a, UINT64_MAX));
    note(step(a, &is_waiting));
    note(open_session(&b));
    note(open_session(&c));
    note(send_trace(a, request));
    note(INVOKE(b, GRAMOPHONE_LOAD_BEGIN, {TEE_VALUE_IN, 8, 0}));
    note(INVOKE(b, GRAMOPHONE_LOAD_DATA, {TEE_MEMREF_IN, (uintptr_t)tee_chunk(), 8}));
    note(INVOKE(b, GRAMOPHONE_LOAD, {0}));
    note(INVOKE(b, GRAMOPHONE_UNLOAD, {0}));
    note(INVOKE(a, GRAMOPHONE_LOAD, {0}));
    note(INVOKE(b, GRAMOPHONE_RUN, {0}));
    note(INVOKE(b, GRAMOPHONE_FORGET, {0}));
    note(INVOKE(b, GRAMOPHONE_GET_LOG, {TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), sizeof(struct gr_report)}));
    note(INVOKE(b, GRAMOPHONE_CHOOSE, {TEE_VALUE_IN, 0, 0}));
    note(INVOKE(b, GRAMOPHONE_CHOOSE, {TEE_VALUE_IN, 9, 0}));
    note(INVOKE(b, GRAMOPHONE_CHOOSE, {TEE_VALUE_IN, 1, 1}));
    note(set_input(b, 1, 0));
    note(INVOKE(b, GRAMOPHONE_CHOOSE, {TEE_VALUE_IN, 1, 0}));
    note(INVOKE(b, GRAMOPHONE_DESCRIBE_NETWORK, {TEE_VALUE_IN, 1, 0},
                {TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), sizeof(struct gramophone_network)}));
    note(((const struct gramophone_network *)tee_chunk())->first_slot);
    note(INVOKE(b, GRAMOPHONE_DESCRIBE_NETWORK, {TEE_VALUE_IN, 2, 0},
                {TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), sizeof(struct gramophone_network)}));
    note(INVOKE(a, GRAMOPHONE_LOAD_BEGIN, {TEE_VALUE_IN, 8, 0}));
    note(set_input(b, 0, 0));
    note(get_output(b, 1));
    note(step(b, &is_waiting));
    note(set_input(b, 1, 0));
    note(submit(b, 0));
    note(submit(b, UINT64_MAX));
    note(submit(b, UINT64_MAX));
    note(set_input(b, 1, 0));
    note(INVOKE(b, GRAMOPHONE_RUN, {0}));
    note(set_input(a, 0, 0));
    note(INVOKE(a, GRAMOPHONE_RUN, {0})); /* and b's with it, which came first */
    note(get_output(a, 0));
    note(get_output(b, 1)); /* nobody has been told */
    note(step(b, &is_waiting));
    note(is_waiting);
    note(get_output(b, 1));
    note(step(b, &is_waiting));
    note(submit(b, UINT64_MAX));
    note(step(b, &is_waiting));
    note(is_waiting);
    note(tee_close(b)); /* in the middle */
    note(INVOKE(a, GRAMOPHONE_CHOOSE, {TEE_VALUE_IN, 1, 0}));
    note(get_output(a, 1));
    note(INVOKE(a, GRAMOPHONE_YIELD, {0}));
    note(tee_close(a));
}

int normal_world(void)
{
    struct mailbox_request request;
    memcpy(&request, mailbox(0), sizeof request);
    memcpy(&scene, mailbox(SCENE_AT), sizeof scene);
    answer.result = tee_start() ? 0 : TEE_CALL_FAILED;
    if (!answer.result && scene.walk) {
        walk(&request);
    } else if (!answer.result) {
        answer.result = open_all(&request);
        if (!answer.result)
            answer.result = read_heap(&answer.before);
        if (!answer.result)
            answer.result = share();
        if (!answer.result)
            answer.result = read_heap(&answer.after);
        answer.origin = tee_origin();
        for (uint32_t i = 0; !answer.result && i < scene.networks; i++)
            answer.result = tee_close(sessions[i]);
    }
    leave(&answer, sizeof answer);
    return 0;
}

LEAVE_ON_EXCEPTION(answer)
