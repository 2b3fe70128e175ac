// SPDX-License-Identifier: BSD-2-Clause
// sum[i] = a[i] + b[i], the three arrays one after the other in one buffer. vadd.spv is this file, compiled by
//     glslangValidator -V --target-env vulkan1.0 vadd.comp -o vadd.spv
// (Debian package glslang-tools).
#version 450

layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) buffer Arrays { float x[]; };

void main()
{
    uint n = uint(x.length()) / 3u;
    uint i = gl_GlobalInvocationID.x;
    if (i < n)
        x[2u * n + i] = x[i] + x[n + i];
}
