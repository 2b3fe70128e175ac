// SPDX-License-Identifier: BSD-2-Clause
// What threads keep and share: arrays of a thread, memory of a workgroup, atomic operations, bytes of words. As
// operations.comp. storage.spv is this file, compiled by
//     glslangValidator -V --target-env vulkan1.0 storage.comp -o storage.spv
// (Debian package glslang-tools).
#version 450

layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) buffer Arrays { uint x[]; };

const uint OPERATIONS = 47u;

shared uint words[64];
shared uint total, least, most, every, any, different;
shared int lowest, highest;

uint n, item, place;

void put(uint value)
{
    x[place] = value;
    place += n;
}

void put(int value) { put(uint(value)); }
void put(float value) { put(floatBitsToUint(value)); }

void main()
{
    n = uint(x.length()) / (3u + OPERATIONS);
    item = gl_GlobalInvocationID.x;
    place = 3u * n + item;

    uint u = x[item], v = x[n + item], w = x[2u * n + item], own = gl_LocalInvocationID.x;
    int i = int(u);
    float a = uintBitsToFloat(u);
    float unit = float(u & 0xffffu) / 32768.0 - 1.0, other = float(v & 0xffffu) / 65536.0;
    uint kept[100];
    vec4 rows[20];
    uint few[4];

    for (uint k = 0u; k < 100u; k++)
        kept[k] = u + k * v;
    for (uint k = 0u; k < 20u; k++)
        rows[k] = vec4(unit, other, unit + other, float(k));
    for (uint k = 0u; k < 4u; k++)
        few[(k + u) & 3u] = v * k;
    put(kept[w % 100u]);
    kept[v % 100u] = w;
    put(kept[(w ^ v) % 100u]);
    put(rows[w % 20u].x);
    put(rows[v % 20u].w);
    rows[u % 20u].y = 3.0;
    put(rows[w % 20u].y);
    put(few[w & 3u]);

    words[own] = u;
    if (own == 0u) {
        total = 0u;
        least = every = 0xffffffffu;
        most = any = different = 0u;
        lowest = 0x7fffffff;
        highest = -0x7fffffff - 1;
    }
    barrier();
    put(words[63u - own]);
    put(words[(own + v) & 63u]);
    atomicAdd(total, v);
    atomicMin(least, u);
    atomicMax(most, u);
    atomicAnd(every, u | 0xff00u);
    atomicOr(any, u & 0xffu);
    atomicXor(different, w);
    atomicMin(lowest, i);
    atomicMax(highest, i);
    barrier();
    put(total);
    put(least);
    put(most);
    put(every);
    put(any);
    put(different);
    put(lowest);
    put(highest);

    put(u);
    put(atomicAdd(x[place - n], v));
    put(u);
    put(atomicAdd(x[place - n], 1u));
    put(u);
    put(atomicMin(x[place - n], v));
    put(u);
    put(atomicMax(x[place - n], v));
    put(u);
    put(atomicAnd(x[place - n], v));
    put(u);
    put(atomicOr(x[place - n], v));
    put(u);
    put(atomicXor(x[place - n], v));
    put(u);
    put(atomicExchange(x[place - n], v));
    put(u);
    put(atomicCompSwap(x[place - n], (v & 1u) == 0u ? u : w, v));

    put(unpackUnorm4x8(u).x);
    put(unpackUnorm4x8(u).w);
    put(unpackSnorm4x8(u).y);
    put(unpackUnorm2x16(u).y);
    put(unpackSnorm2x16(u).x);
    put(packUnorm4x8(vec4(unit, other, 0.25, 1.0)));
    put(packSnorm4x8(vec4(unit, other, -0.25, -1.0)));
    put(packUnorm2x16(vec2(unit, other)));
    put(packSnorm2x16(vec2(unit, other)));
    put(u << 24 >> 24 | v >> 24 << 8);
    put(u >> 16 | v << 16);
    put((i << 16 >> 16) * (i >> 16));
    put(u * 0x01010101u & 0x7f7f7f7fu);
}
