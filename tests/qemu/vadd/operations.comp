// SPDX-License-Identifier: BSD-2-Clause
// Operations of a GPU's arithmetic, each by itself, of three words that lie one array after the other; the results
// follow them, an array for each "put" of main, in their order (tests/qemu/test_second_source.py reads them here).
// operations.spv is this file, compiled by
//     glslangValidator -V --target-env vulkan1.0 operations.comp -o operations.spv
// (Debian package glslang-tools).
#version 450

layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) buffer Arrays { uint x[]; };

const uint OPERATIONS = 98u;

uint n, item, place;

void put(uint value)
{
    x[place] = value;
    place += n;
}

void put(int value) { put(uint(value)); }
void put(float value) { put(floatBitsToUint(value)); }
void put(bool value) { put(value ? 1u : 0u); }

void main()
{
    n = uint(x.length()) / (3u + OPERATIONS);
    item = gl_GlobalInvocationID.x;
    if (item >= n)
        return;
    place = 3u * n + item;

    uint u = x[item], v = x[n + item], w = x[2u * n + item];
    int i = int(u), j = int(v), k = int(w);
    float a = uintBitsToFloat(u), b = uintBitsToFloat(v), c = uintBitsToFloat(w);
    uint high, low;
    int ihigh, ilow;

    put(a + b);
    put(a - b);
    put(a * b);
    put(fma(a, b, c));
    put(min(a, b));
    put(max(a, b));
    put(clamp(a, 0.0, 1.0));
    put(abs(a) + b);
    put(-a * b);
    put(sign(a));
    put(floor(a));
    put(ceil(a));
    put(trunc(a));
    put(roundEven(a));
    put(fract(a));
    put(step(a, b));
    put(a < b);
    put(a <= b);
    put(a == b);
    put(a != b);
    put(a > b ? c : a);
    put(1.0 / a);
    put(a / b);
    put(sqrt(abs(a)));
    put(inversesqrt(abs(a)));
    put(exp2(clamp(a, -20.0, 20.0)));
    put(log2(abs(a)));
    put(exp(clamp(a, -20.0, 20.0)));
    put(log(abs(a)));
    put(tanh(clamp(a, -8.0, 8.0)));
    put(pow(abs(b) + 0.5, clamp(c, -2.0, 2.0)));
    put(int(clamp(a, -1e9, 1e9)));
    put(uint(clamp(a, 0.0, 2e9)));
    put(float(i));
    put(float(u));
    put(i + j);
    put(i - j);
    put(i * j);
    put(-i);
    put(abs(i));
    put(min(i, j));
    put(max(i, j));
    put(min(u, v));
    put(max(u, v));
    put(sign(i));
    put(clamp(i, j & 0xff, (k & 0xff) + 0x100));
    put(u & v);
    put(u | v);
    put(u ^ v);
    put(~u);
    put(u & ~v);
    put(u | ~v);
    put(u << (v & 31u));
    put(u >> (v & 31u));
    put(i >> (v & 31u));
    put(i < j);
    put(i >= j);
    put(u < v);
    put(u >= v);
    put(i == j);
    put(i != j);
    put(u < v ? w : u);
    put(bitfieldExtract(u, int(v & 15u), int(w & 15u)));
    put(bitfieldExtract(i, int(v & 15u), int(w & 15u)));
    put(bitfieldInsert(u, v, int(w & 15u), 9));
    put(uaddCarry(u, v, low));
    put(low);
    put(usubBorrow(u, v, low));
    put(low);
    umulExtended(u, v, high, low);
    put(high);
    imulExtended(i, j, ihigh, ilow);
    put(ihigh);
    put(u / (v | 1u));
    put(u % (v | 1u));
    put(i / (j | 1));
    put((i & 0x7fffffff) % ((j & 0x7fffffff) | 1));
    put((u & 255u) * (v & 255u) + w);
    put((u << 3) + v);
    put(isnan(a) || isinf(b));
    put(sin(clamp(a, -8.0, 8.0)));
    put(cos(clamp(a, -8.0, 8.0)));
    put(ldexp(a, j & 15));
    put(packHalf2x16(vec2(a, b)));
    put(unpackHalf2x16(u & 0xbbffbbffu).x);
    put(unpackHalf2x16(u & 0xbbffbbffu).y);
    put(bitfieldReverse(u));
    put(bitCount(u));
    put(findMSB(u));
    put(findMSB(i));
    put(findLSB(u));
    put(float(u & 255u));
    put(float(u >> 8 & 255u));
    put(float(u & 0xffffu));
    put(float(u >> 16));
    put(float(i << 24 >> 24));
    put(float(i << 8 >> 24));
    put(float(i << 16 >> 16));
    put(float(i >> 16));
    put(i << 16 >> 16);
}
