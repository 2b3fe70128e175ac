/* SPDX-License-Identifier: BSD-2-Clause */
/* From records to a signed trace. */
#include "core.h"
#include "crypto.h"

enum { SECTIONS = 13, MAX_SECTION = 1 << 16 };

struct section {
    uint16_t type, flags;
    uint8_t codec;
    uint64_t raw_bytes;
    size_t at, stored_bytes; /* at: in the trace */
};

static struct section sections[SECTIONS];
static size_t section_count, head_bytes, trace_bytes, used = MAX_FILE; /* used: by the trace before */
static uint8_t raw[MAX_SECTION];

static uint8_t *trace(void)
{
    return scene.file + FILE_HEAD;
}

static uint64_t get(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static void add(uint16_t type, uint16_t flags, size_t bytes)
{
    struct section *s = &sections[section_count];
    const bool packed = scene.numbers[CODECS] >> section_count & 1 && type != GR_SECTION_TYPE_MANIFEST &&
                        type != GR_SECTION_TYPE_CHUNKS && type != GR_SECTION_TYPE_NETWORKS &&
                        type != GR_SECTION_TYPE_ENCRYPTION && type != GR_SECTION_TYPE_PIECES &&
                        type != GR_SECTION_TYPE_STREAM;
    section_count++;
    *s = (struct section){type, flags, packed ? GR_CODEC_LZ4 : GR_CODEC_STORED, bytes, trace_bytes, bytes};
    if (packed)
        s->stored_bytes = pack(trace() + trace_bytes, raw, bytes);
    else
        memcpy(trace() + trace_bytes, raw, bytes);
    const size_t end = trace_bytes + s->stored_bytes;
    trace_bytes = (end + 7) & ~(size_t)7;
    memset(trace() + end, 0, trace_bytes - end);
}

size_t count_of(enum kind kind, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < scene.count; i++)
        count += scene.records[i].kind % KINDS == kind;
    return count < most ? count : most;
}

/* The n-th record of a kind. */
const struct record *record_at(enum kind kind, size_t n)
{
    for (size_t i = 0;; i++)
        if (scene.records[i].kind % KINDS == kind && n-- == 0)
            return &scene.records[i];
}

static void add_slots(void)
{
    const size_t count = count_of(SLOT, 16);
    memset(raw, 0, count * GR_SLOT_BYTES);
    for (size_t i = 0; i < count; i++) {
        const struct record *r = record_at(SLOT, i);
        uint8_t *slot = raw + i * GR_SLOT_BYTES;
        const bool as_it_is = r->how & 1;
        put(slot + GR_SLOT_AT_NAME, 'a' + (as_it_is ? r->data[15] % 4 : i), 1);
        slot[GR_SLOT_AT_KIND] = as_it_is ? r->what : (uint8_t)(1 + r->what % 3);
        slot[GR_SLOT_AT_DTYPE] = as_it_is ? r->more : (uint8_t)(1 + r->more % 8);
        const uint32_t rank = as_it_is ? r->data[0] : 1u + r->data[0] % 3;
        const uint32_t element = gr_dtype_bytes(slot[GR_SLOT_AT_DTYPE]);
        slot[GR_SLOT_AT_RANK] = (uint8_t)rank;
        slot[GR_SLOT_AT_FLAGS] = r->how >> 1 & 1;
        put(slot + GR_SLOT_AT_ADDRESS_SPACE, as_it_is ? r->data[1] : r->data[1] % GR_ADDRESS_SPACES, 2);
        uint64_t address = number_of(r, 2, 4), step = element;
        if (!as_it_is)
            address = address % (scene.numbers[VA_PAGES] * PAGE + 1) / (element ? element : 1) * element;
        put(slot + GR_SLOT_AT_ADDRESS, address, 8);
        for (uint32_t k = rank < GR_MAX_RANK ? rank : GR_MAX_RANK; k--;) {
            const uint32_t size = r->data[6 + k] ? r->data[6 + k] : 1;
            const uint64_t stride = step + (uint64_t)(r->data[9 + k] % 64) * element;
            put(slot + GR_SLOT_AT_DIMS + 4 * k, size, 4);
            put(slot + GR_SLOT_AT_STRIDES + 4 * k, stride, 4);
            step = stride * (r->how & 4 ? 1 : size);
        }
    }
    add(GR_SECTION_TYPE_SLOTS, 0, count * GR_SLOT_BYTES);
}

/* An action brought to where it means something: a register that the trace may use, pages that are there. */
static void mend(uint8_t *action, const struct record *r, const struct part *own)
{
    static const uint8_t ops[] = {
        GR_OP_REG_READ_ONCE,  GR_OP_REG_READ_WAIT,   GR_OP_REG_WRITE,   GR_OP_REG_READ_KEEP,
        GR_OP_REG_WRITE_KEPT, GR_OP_SET_GPU_PGTABLE, GR_OP_MAP_GPU_MEM, GR_OP_UNMAP_GPU_MEM,
        GR_OP_UPLOAD,         GR_OP_CLEAR,           GR_OP_COPY_TO_GPU, GR_OP_COPY_FROM_GPU,
        GR_OP_WAIT_IRQ,       GR_OP_IRQ_ENTER,       GR_OP_INTERVAL,    GR_OP_REPLAY_START,
    };
    const uint64_t carveout = scene.numbers[CARVEOUT_PAGES], va = scene.numbers[VA_PAGES],
                   image = scene.numbers[IMAGE_BYTES], image_end = (image + PAGE - 1) / PAGE,
                   pages = own->end_page - own->first_page; /* of working memory */
    const uint32_t slots = own->end_slot - own->first_slot;
    const uint8_t op = ops[r->what % sizeof ops];
    uint32_t arg = (uint32_t)number_of(r, 2, 2), value = (uint32_t)number_of(r, 4, 4),
             a = (uint32_t)number_of(r, 8, 4), b = (uint32_t)number_of(r, 12, 4);
    uint8_t flags = 0;
    const struct fuzz_register *reg = &fuzz_registers[arg % FUZZ_REGISTERS];
    switch (op) {
    case GR_OP_REG_WRITE:
        for (uint32_t i = 0; i < FUZZ_REGISTERS && !reg->writable; i++)
            reg = &fuzz_registers[(arg + i) % FUZZ_REGISTERS];
        a = r->how & 2 ? a : UINT32_MAX;
        value = (value & reg->bits) | reg->set;
        arg = reg->offset / 4;
        b = 0;
        break;
    case GR_OP_REG_READ_ONCE:
        arg = reg->offset / 4;
        flags = r->how >> 1 & 1;
        a = flags ? 0 : a;
        b = 0;
        break;
    case GR_OP_REG_READ_WAIT: arg = reg->offset / 4; break;
    case GR_OP_REG_READ_KEEP:
    case GR_OP_REG_WRITE_KEPT:
        for (uint32_t i = 0; i < FUZZ_REGISTERS && op == GR_OP_REG_WRITE_KEPT && !reg->writable; i++)
            reg = &fuzz_registers[(arg + i) % FUZZ_REGISTERS];
        arg = reg->offset / 4;
        value = a = 0;
        b %= GR_KEEP_SLOTS;
        break;
    case GR_OP_SET_GPU_PGTABLE:
        arg %= GR_ADDRESS_SPACES;
        value = a = b = 0;
        break;
    case GR_OP_MAP_GPU_MEM:
    case GR_OP_UNMAP_GPU_MEM:
        arg %= GR_ADDRESS_SPACES;
        a = (uint32_t)(a % (va ? va : 1));
        b = (uint32_t)(b % (carveout ? carveout : 1));
        if (scene.has_section && b >= image_end)
            b = (uint32_t)(own->first_page + b % (pages ? pages : 1));
        value = 1 + (r->how & 8 ? value % 1024 : value % 8);
        flags = op == GR_OP_MAP_GPU_MEM ? (r->more & 3) | 1 : 0;
        if (flags & GR_MAP_GPU_MEM_WRITE && b < image_end)
            b = (uint32_t)own->first_page;
        if (r->more & 4 && op == GR_OP_MAP_GPU_MEM && !(flags & GR_MAP_GPU_MEM_WRITE)) {
            flags |= GR_MAP_GPU_MEM_EXECUTE;
            b = image_end ? b % (uint32_t)image_end : 0;
        }
        if (op == GR_OP_UNMAP_GPU_MEM)
            b = 0;
        break;
    case GR_OP_UPLOAD:
    case GR_OP_CLEAR:
        a = (uint32_t)(own->first_page * PAGE + a % ((scene.has_section ? pages : carveout) * PAGE + 1));
        b = op == GR_OP_UPLOAD && image ? (uint32_t)(b % image) : 0;
        value = 1 + value % 300;
        break;
    case GR_OP_COPY_TO_GPU:
    case GR_OP_COPY_FROM_GPU:
        arg = own->first_slot + arg % (slots + 1);
        value = a = b = 0;
        break;
    case GR_OP_WAIT_IRQ:
    case GR_OP_IRQ_ENTER:
        arg %= GR_INTERRUPT_LINES;
        value = op == GR_OP_WAIT_IRQ ? value | 1 : 0;
        a = b = 0;
        break;
    case GR_OP_INTERVAL: arg = a = b = 0; break;
    default: arg = value = a = b = 0;
    }
    action[GR_ACTION_AT_OP] = op;
    action[GR_ACTION_AT_FLAGS] = flags;
    put(action + GR_ACTION_AT_ARG, arg, 2);
    put(action + GR_ACTION_AT_VALUE, value, 4);
    put(action + GR_ACTION_AT_A, a, 4);
    put(action + GR_ACTION_AT_B, b, 4);
}

/* `what` from 0xf0 on is a job marker, numbered as it must be; an odd one says that it can be repeated. */
static void add_actions(void)
{
    const size_t count = count_of(ACTION, MAX_RECORDS);
    uint32_t jobs = 0;
    memset(raw, 0, count * GR_ACTION_BYTES);
    for (size_t i = 0; i < count; i++) {
        const struct record *r = record_at(ACTION, i);
        uint8_t *action = raw + i * GR_ACTION_BYTES;
        if (r->what >= 0xf0) {
            action[GR_ACTION_AT_OP] = GR_OP_JOB;
            action[GR_ACTION_AT_FLAGS] = r->what & GR_JOB_REPEAT;
            put(action + GR_ACTION_AT_VALUE, jobs++, 4);
        } else if (r->how & 1) {
            memcpy(action, r->data, GR_ACTION_BYTES);
        } else {
            size_t part = 0;
            while (part + 1 < scene.part_count && i >= scene.parts[part].end_action)
                part++;
            mend(action, r, &scene.parts[part]);
        }
    }
    add(GR_SECTION_TYPE_ACTIONS, 0, count * GR_ACTION_BYTES);
    put(trace() + sections[0].at + GR_MANIFEST_AT_ACTION_COUNT, count, 4);
    put(trace() + sections[0].at + GR_MANIFEST_AT_JOB_COUNT, jobs, 4);
}

static void add_manifest(void)
{
    const uint64_t *n = scene.numbers;
    const struct {
        uint32_t at, bytes;
        uint64_t value;
    } fields[] = {
        {GR_MANIFEST_AT_SECURITY_VERSION, 4, n[SECURITY_VERSION]},
        {GR_MANIFEST_AT_GPU, 4, GR_TARGET_GPU},
        {GR_MANIFEST_AT_GPU_ID, 4, GR_ID_VALUE},
        {GR_MANIFEST_AT_GPU_ID_MASK, 4, GR_ID_MASK},
        {GR_MANIFEST_AT_REVISION_MAX, 4, UINT32_MAX},
        {GR_MANIFEST_AT_CORE_MASK, 8, n[CORE_MASK]},
        {GR_MANIFEST_AT_PROFILE_ID, 8, GR_PROFILE_ID},
        {GR_MANIFEST_AT_CARVEOUT_BYTES, 8, n[CARVEOUT_PAGES] * PAGE},
        {GR_MANIFEST_AT_IMAGE_BYTES, 8, n[IMAGE_BYTES]},
        {GR_MANIFEST_AT_VA_BYTES, 8, n[VA_PAGES] * PAGE},
        {GR_MANIFEST_AT_TIME_BUDGET_US, 8, n[TIME_BUDGET]},
        {GR_MANIFEST_AT_RETRY_LIMIT, 4, n[RETRIES]},
        {GR_MANIFEST_AT_SLOT_COUNT, 4, count_of(SLOT, 16)},
    };
    memset(raw, 0, GR_MANIFEST_BYTES);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        put(raw + fields[i].at, fields[i].value, fields[i].bytes);
    memcpy(raw, "fuzz", 4);
    add(GR_SECTION_TYPE_MANIFEST, 0, GR_MANIFEST_BYTES);
}

static void add_body(void)
{
    add_actions();
    const uint64_t parts = scene.numbers[IMAGE_PARTS], image = scene.numbers[IMAGE_BYTES];
    for (uint64_t i = 0, done = 0; i < parts; i++) {
        const uint64_t bytes = i + 1 == parts ? image - done : image / parts;
        for (uint64_t k = 0; k < bytes; k++) /* some of it repeats */
            raw[k] = (done + k) / 512 & 1 ? 7 : (uint8_t)((done + k) * 167 >> 3);
        add(GR_SECTION_TYPE_IMAGE, 0, bytes);
        done += bytes;
    }
#ifdef GRAMOPHONE_STREAMING
    if (scene.is_streamed)
        add(GR_SECTION_TYPE_STREAM, 0, put_stream(raw));
#endif
    for (uint64_t i = 0; i < scene.numbers[OPTIONAL_PARTS]; i++) {
        memset(raw, '{', 24);
        add((uint16_t)(GR_SECTION_TYPE_NOTES + i), GR_SECTION_FLAG_OPTIONAL, 21 + i);
    }
}

/* A place that EDIT records name, and its size. */
static uint8_t *place(uint32_t which, size_t *bytes)
{
    const size_t entries = section_count * GR_SECTION_BYTES;
    *bytes = GR_HEADER_BYTES;
    if (which == 0)
        return trace();
    if (which == 1) {
        *bytes = entries ? entries : 1;
        return trace() + GR_HEADER_BYTES;
    }
    if (which == 2) {
        *bytes = FILE_HEAD;
        return scene.file;
    }
    const struct section *s = &sections[(which - 3) % section_count];
    *bytes = s->stored_bytes ? s->stored_bytes : 1;
    return trace() + s->at;
}

static void edit(bool after_hashing)
{
    for (size_t i = 0; i < count_of(EDIT, MAX_RECORDS); i++) {
        const struct record *r = record_at(EDIT, i);
        size_t bytes;
        uint8_t *at = place(r->what % 12, &bytes) + number_of(r, 0, 4) % 0x10000;
        if ((r->how >> 1 & 1) != after_hashing)
            continue;
        at = place(r->what % 12, &bytes);
        at += number_of(r, 0, 4) % bytes;
        const size_t width = (size_t)1 << (r->more & 3);
        if (at + width > scene.file + MAX_FILE)
            continue;
        uint64_t value = number_of(r, 8, 8);
        if (r->more & 4)
            value += get(at, width);
        if (r->more & 8)
            value ^= get(at, width);
        put(at, value, width);
    }
}

/* As a signer would, who does not look at what he signs. */
static void hash_chunks(void)
{
    const uint64_t chunk = get(trace() + GR_HEADER_AT_CHUNK_BYTES, 4),
                   head = get(trace() + GR_HEADER_AT_HEAD_BYTES, 4);
    uint8_t *hash = trace() + sections[2].at;
    const uint8_t *end = hash + sections[2].stored_bytes;
    for (uint64_t at = head; at < trace_bytes && chunk && hash < end; at += chunk, hash += 32)
        (void)gr_sha256(trace() + at, trace_bytes - at < chunk ? trace_bytes - at : chunk, hash);
}

void build_file(void)
{
    memset(scene.file, 0, used);
    memcpy(scene.file, fuzz_envelope, sizeof fuzz_envelope);
    section_count = 0;
    scene.parts[0] = (struct part){0,
                                   (uint32_t)count_of(ACTION, MAX_RECORDS),
                                   0,
                                   (uint32_t)count_of(SLOT, 16),
                                   (scene.numbers[IMAGE_BYTES] + PAGE - 1) / PAGE,
                                   scene.numbers[CARVEOUT_PAGES]};
    scene.part_count = 1;
#ifdef GRAMOPHONE_NETWORKS
    plan_parts();
#endif
#ifdef GRAMOPHONE_ENCRYPTION
    scene.is_encrypted = scene.numbers[ENCRYPTED] && !scene.has_section;
#endif
#ifdef GRAMOPHONE_STREAMING
    scene.is_streamed = count_of(PIECE, 1);
#endif
    const size_t table = 5 + scene.numbers[IMAGE_PARTS] - 1 + scene.numbers[OPTIONAL_PARTS] +
                         scene.has_section + scene.is_encrypted + 2 * scene.is_streamed;
    const size_t chunk = (size_t)1 << scene.numbers[CHUNK_BITS];
    trace_bytes = GR_HEADER_BYTES + table * GR_SECTION_BYTES;
    add_manifest();
    add_slots();
    /* How many chunks there are is known when the body is: it is laid out twice. */
    const size_t before = trace_bytes;
    size_t chunks = 0;
    for (int pass = 0; pass < 2; pass++) {
        trace_bytes = before;
        section_count = 2;
        memset(raw, 0, chunks * 32);
        add(GR_SECTION_TYPE_CHUNKS, 0, chunks * 32);
#ifdef GRAMOPHONE_NETWORKS
        if (scene.has_section)
            add(GR_SECTION_TYPE_NETWORKS, 0, put_networks(raw));
#endif
#ifdef GRAMOPHONE_STREAMING
        if (scene.is_streamed)
            add(GR_SECTION_TYPE_PIECES, 0, put_pieces(raw));
#endif
        if (scene.is_encrypted) {
            memcpy(raw, fuzz_message, sizeof fuzz_message);
            add(GR_SECTION_TYPE_ENCRYPTION, 0, sizeof fuzz_message);
        }
        head_bytes = trace_bytes;
        add_body();
        chunks = (trace_bytes - head_bytes + chunk - 1) / chunk;
    }
    for (size_t i = 0; i < section_count; i++) {
        uint8_t *s = trace() + GR_HEADER_BYTES + i * GR_SECTION_BYTES;
        put(s + GR_SECTION_AT_TYPE, sections[i].type, 2);
        put(s + GR_SECTION_AT_FLAGS, sections[i].flags, 2);
        s[GR_SECTION_AT_CODEC] = sections[i].codec;
        put(s + GR_SECTION_AT_OFFSET, sections[i].at, 8);
        put(s + GR_SECTION_AT_STORED_BYTES, sections[i].stored_bytes, 8);
        put(s + GR_SECTION_AT_RAW_BYTES, sections[i].raw_bytes, 8);
    }
    static const uint8_t magic[] = {
        0x89, 'G', 'T', 'R', '\r', '\n', 0x1a, '\n', GR_VERSION_MAJOR, 0, GR_VERSION_MINOR};
    memcpy(trace(), magic, sizeof magic);
    put(trace() + GR_HEADER_AT_HEADER_BYTES, GR_HEADER_BYTES, 4);
    put(trace() + GR_HEADER_AT_TRACE_BYTES, trace_bytes, 8);
    put(trace() + GR_HEADER_AT_HEAD_BYTES, head_bytes, 4);
    put(trace() + GR_HEADER_AT_CHUNK_BYTES, chunk, 4);
    put(trace() + GR_HEADER_AT_CHUNK_COUNT, chunks, 4);
    put(trace() + GR_HEADER_AT_SECTION_COUNT, section_count, 2);
    if (scene.has_section)
        put(trace() + GR_HEADER_AT_FLAGS, GR_HEADER_FLAG_JOINT, 2);
    if (scene.is_encrypted)
        put(trace() + GR_HEADER_AT_FLAGS, GR_HEADER_FLAG_ENCRYPTED, 2);
    if (scene.is_streamed)
        put(trace() + GR_HEADER_AT_FLAGS, GR_HEADER_FLAG_STREAMED, 2);
    put(scene.file + GR_SIGNED_HEADER_AT_TRACE_BYTES, trace_bytes, 8);
    scene.file_bytes = FILE_HEAD + trace_bytes + scene.numbers[EXTRA_BYTES];
    edit(false);
    hash_chunks();
    edit(true);
    const uint8_t *m = trace() + sections[0].at;
    scene.carveout_bytes = get(m + GR_MANIFEST_AT_CARVEOUT_BYTES, 8);
    scene.image_end = (get(m + GR_MANIFEST_AT_IMAGE_BYTES, 8) + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    scene.action_count = (uint32_t)get(m + GR_MANIFEST_AT_ACTION_COUNT, 4);
    scene.job_count = (uint32_t)get(m + GR_MANIFEST_AT_JOB_COUNT, 4);
#ifdef GRAMOPHONE_NETWORKS
    if (scene.has_section)
        read_parts(trace() + sections[3].at);
#endif
    scene.read_only_end = scene.image_end;
#ifdef GRAMOPHONE_STREAMING
    if (scene.is_streamed)
        read_pieces(trace() + sections[3].at, sections[3].stored_bytes / GR_PIECE_BYTES);
#endif
    if (!scene.has_section)
        scene.parts[0] = (struct part){0,
                                       scene.action_count,
                                       0,
                                       (uint32_t)get(m + GR_MANIFEST_AT_SLOT_COUNT, 4),
                                       scene.image_end / PAGE,
                                       scene.carveout_bytes / PAGE};
}
