/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A part of gramophone_pta.c, in a pseudo-TA that takes joint traces.
 *
 * Each network of the loaded trace is one session's, from CHOOSE until that session ends or unloads. Nobody
 * else reads or writes its slots, nor asks for replays of it. With a queue there are as many sessions as
 * networks, and whoever waits for a replay has pieces of all run, in the queue's order: each call is one
 * piece, and the normal world decides whether another follows.
 */
#ifdef GRAMOPHONE_SCHEDULE
enum { CLIENTS = GR_NETWORKS };
#else
enum { CLIENTS = 1 };
#endif

struct client {
    struct gr_report report; /* of its last load or replay */
    uint32_t network;        /* that its commands are about */
    bool is_open;
};

/* A network of the loaded trace. */
struct shared_network {
    const struct client *owner; /* NULL: nobody has chosen it */
    uint32_t id;                /* of its request, which waits or is under way; 0: there is none */
    bool is_over;               /* its last request is, and nobody has been told yet */
    bool computed;
};

static struct {
    struct client clients[CLIENTS];
    struct client *caller;       /* whose command runs */
    const struct client *sender; /* who has begun to send a trace */
    struct shared_network networks[GR_NETWORKS];
    bool is_yielded; /* the normal world has the GPU meanwhile */
} sharing;

/* The network that the caller has chosen; NULL: none. */
static struct shared_network *chosen(void)
{
    struct shared_network *network = &sharing.networks[sharing.caller->network];
    return device.loaded && network->owner == sharing.caller ? network : NULL;
}

/* The network that a slot belongs to; NULL: there is no such slot. */
static struct shared_network *network_of(uint32_t slot)
{
    struct gr_network_info info;
    for (uint32_t i = 0; gr_network_info(&device.replayer, i, &info); i++) {
        if (slot - info.first_slot < info.slot_count)
            return &sharing.networks[i];
    }
    return NULL;
}

/* Whether a network has a request of which its session has not been told that it is over. That is when the TA
 * counts the trace's version: nothing of the replay goes out before. */
static bool waits(const struct shared_network *network)
{
    return network->id || network->is_over;
}

/* Whether the caller may use a slot's data now. */
static TEE_Result check_slot(uint32_t slot)
{
    const struct shared_network *network = network_of(slot);
    if (!network)
        return TEE_ERROR_ITEM_NOT_FOUND;
    if (network->owner != sharing.caller)
        return TEE_ERROR_ACCESS_DENIED;
    return waits(network) ? TEE_ERROR_BAD_STATE : TEE_SUCCESS;
}

static bool has_computed(uint32_t slot)
{
    const struct shared_network *network = network_of(slot);
    return network && network->computed;
}

/* Whether a session other than the caller's has chosen a network. */
static bool is_shared(void)
{
    for (uint32_t i = 0; i < GR_NETWORKS; i++) {
        if (sharing.networks[i].owner && sharing.networks[i].owner != sharing.caller)
            return true;
    }
    return false;
}

/* The GPU is the secure world's again. Its first piece of work is a reset: gr_yield has seen to that. */
static void take_back(void)
{
    if (sharing.is_yielded)
        gr_optee_take();
    sharing.is_yielded = false;
}

/* A network is nobody's: its data is gone, and so is what it has computed; nothing of its working memory is
 * used again. */
static TEE_Result release(uint32_t network)
{
    struct gr_network_info info;
    const uint64_t staged = device.staged_bytes;
#ifdef GRAMOPHONE_SCHEDULE
    if (sharing.networks[network].id)
        gr_withdraw(&device.replayer, sharing.networks[network].id);
#endif
    sharing.networks[network] = (struct shared_network){};
    if (!gr_network_info(&device.replayer, network, &info))
        return TEE_SUCCESS;
    gr_select(&device.replayer, network);
    gr_restart(&device.replayer);
    for (uint32_t i = info.first_slot; i < info.first_slot + info.slot_count; i++) {
        struct gr_slot_info slot;
        uint8_t *data = NULL;
        if (find_slot(i, &slot, &data) == TEE_SUCCESS)
            memset(data, 0, slot.bytes);
    }
    const TEE_Result result = place_slots(info.first_slot, info.first_slot + info.slot_count);
    device.staged_bytes = staged; /* others' lie behind */
    return result;
}

/* All networks of the caller. With the last one the trace goes, too. */
static void let_go(void)
{
    if (sharing.sender && sharing.sender != sharing.caller)
        return; /* nothing is loaded */
    sharing.sender = NULL;
    if (!is_shared()) {
        unload();
        memset(sharing.networks, 0, sizeof sharing.networks);
        return;
    }
    for (uint32_t i = 0; i < GR_NETWORKS; i++) {
        if (sharing.networks[i].owner == sharing.caller)
            (void)release(i); /* what has been placed once is placed again */
    }
}

/* Whether the caller may send a trace. Nobody's networks are taken away, nor a trace that is being sent. */
static TEE_Result begin_sending(void)
{
    if (is_shared() || (sharing.sender && sharing.sender != sharing.caller))
        return TEE_ERROR_BUSY;
    memset(sharing.networks, 0, sizeof sharing.networks); /* with the trace, which goes now */
    sharing.sender = sharing.caller;
    return TEE_SUCCESS;
}

static bool is_senders(void)
{
    return sharing.sender == sharing.caller;
}

/* A trace has been loaded, or refused. Its first network is who loaded it's. */
static void end_sending(void)
{
    sharing.sender = NULL;
    sharing.caller->report = device.replayer.report;
    sharing.caller->network = 0;
    if (device.loaded)
        sharing.networks[0].owner = sharing.caller;
}

static TEE_Result choose(TEE_Param params[TEE_NUM_PARAMS])
{
    const uint32_t network = params[0].value.a;
    if (!device.loaded)
        return TEE_ERROR_BAD_STATE;
    if (params[0].value.b)
        return TEE_ERROR_BAD_PARAMETERS;
    if (network >= gr_network_count(&device.replayer))
        return TEE_ERROR_ITEM_NOT_FOUND;
    if (sharing.networks[network].owner && sharing.networks[network].owner != sharing.caller)
        return TEE_ERROR_BUSY;
    sharing.networks[network].owner = sharing.caller;
    sharing.caller->network = network;
    return TEE_SUCCESS;
}

static TEE_Result describe_network(TEE_Param params[TEE_NUM_PARAMS])
{
    struct gr_network_info info;
    struct gramophone_network network = {};
    if (!device.loaded)
        return TEE_ERROR_BAD_STATE;
    if (params[0].value.b)
        return TEE_ERROR_BAD_PARAMETERS;
    if (!gr_network_info(&device.replayer, params[0].value.a, &info))
        return TEE_ERROR_ITEM_NOT_FOUND;
    memcpy(network.name, info.name, sizeof info.name);
    network.first_slot = info.first_slot;
    network.slot_count = info.slot_count;
    network.predicted_us = info.predicted_us;
    network.longest_job_us = info.longest_job_us;
    network.period_us = info.period_us;
    network.priority = info.priority;
    return answer(&params[1], &network, sizeof network);
}

#ifdef GRAMOPHONE_SCHEDULE
/* Ask for a replay of the caller's network; the status is in its report, too. */
static enum gr_status ask(struct shared_network *network, uint64_t due_us)
{
    const enum gr_status status =
        gr_submit(&device.replayer, sharing.caller->network, due_us, NULL, 0, &network->id);
    network->computed = network->is_over = false;
    sharing.caller->report = (struct gr_report){.status = status};
    return status;
}

/* Run a piece of the request that is first, whosever it is. */
static void run_piece(void)
{
    const uint32_t id = gr_schedule_step(&device.replayer);
    for (uint32_t i = 0; id && i < GR_NETWORKS; i++) {
        struct shared_network *network = &sharing.networks[i];
        if (network->id != id)
            continue;
        struct client *owner = &sharing.clients[network->owner - sharing.clients];
        owner->report = device.replayer.report;
        network->id = 0;
        network->is_over = true;
        network->computed = owner->report.status == GR_STATUS_OK;
    }
}

static TEE_Result submit(TEE_Param params[TEE_NUM_PARAMS])
{
    struct shared_network *network = chosen();
    const uint64_t within = reg_pair_to_64(params[0].value.b, params[0].value.a), now = gr_port_now_us();
    if (!network || waits(network))
        return TEE_ERROR_BAD_STATE;
    return result_of(ask(network, within < GR_NO_DEADLINE - now ? now + within : GR_NO_DEADLINE));
}

static TEE_Result step(TEE_Param params[TEE_NUM_PARAMS])
{
    struct shared_network *network = chosen();
    params[0].value.a = params[0].value.b = 0;
    if (!network || !waits(network))
        return TEE_ERROR_BAD_STATE;
    if (network->id) {
        take_back();
        run_piece();
    }
    if (network->id) {
        params[0].value.a = 1;
        return TEE_SUCCESS;
    }
    network->is_over = false;
    return result_of(sharing.caller->report.status);
}

/* A replay without a deadline, and all that goes before it. */
static TEE_Result run(TEE_Param params[TEE_NUM_PARAMS] __unused)
{
    struct shared_network *network = chosen();
    if (!network || waits(network))
        return TEE_ERROR_BAD_STATE;
    take_back();
    if (ask(network, GR_NO_DEADLINE) == GR_STATUS_OK) {
        while (network->id) /* each request has a time budget, and no other comes */
            run_piece();
        network->is_over = false;
    }
    return result_of(sharing.caller->report.status);
}

static TEE_Result yield(TEE_Param params[TEE_NUM_PARAMS] __unused)
{
    if (!SHARED_GPU)
        return TEE_ERROR_NOT_SUPPORTED;
    if (!chosen())
        return TEE_ERROR_BAD_STATE;
    if (sharing.is_yielded)
        return TEE_SUCCESS;
    if (!gr_yield(&device.replayer))
        return TEE_ERROR_GENERIC;
    gr_optee_give_back();
    sharing.is_yielded = true;
    return TEE_SUCCESS;
}
#else
static TEE_Result run(TEE_Param params[TEE_NUM_PARAMS] __unused)
{
    struct shared_network *network = chosen();
    if (!network)
        return TEE_ERROR_BAD_STATE;
    gr_select(&device.replayer, sharing.caller->network);
    network->computed = gr_run(&device.replayer) == GR_STATUS_OK;
    sharing.caller->report = device.replayer.report;
    return result_of(sharing.caller->report.status);
}
#endif

/* For all networks of the caller, which it keeps. */
static TEE_Result forget(TEE_Param params[TEE_NUM_PARAMS] __unused)
{
    TEE_Result result = chosen() ? TEE_SUCCESS : TEE_ERROR_BAD_STATE;
    for (uint32_t i = 0; result == TEE_SUCCESS && i < GR_NETWORKS; i++) {
        if (sharing.networks[i].owner != sharing.caller)
            continue;
        result = release(i);
        sharing.networks[i].owner = sharing.caller;
    }
    return result;
}

static TEE_Result unload_command(TEE_Param params[TEE_NUM_PARAMS] __unused)
{
    let_go();
    return TEE_SUCCESS;
}

static const struct gr_report *last_report(void)
{
    return &sharing.caller->report;
}

/* A place for a session; NULL: there is none. `is_first`: nobody else has one. */
static struct client *find_place(bool *is_first)
{
    struct client *place = NULL;
    *is_first = true;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (sharing.clients[i].is_open)
            *is_first = false;
        else if (!place)
            place = &sharing.clients[i];
    }
    return place;
}

/* A session's place is free again. Whether it was the last one. */
static bool leave(struct client *client)
{
    bool is_last = true;
    sharing.caller = client;
    let_go();
    *client = (struct client){};
    (void)find_place(&is_last);
    return is_last;
}
