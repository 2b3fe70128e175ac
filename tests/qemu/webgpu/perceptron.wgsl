// SPDX-License-Identifier: BSD-2-Clause
// A step of gradient descent for a perceptron of two layers: h = max(x w1, 0), y = h w2, loss = |y - t|^2 / 2 a sample.
const SAMPLES = 8u;
const INPUTS = 16u;
const HIDDEN = 32u;
const OUTPUTS = 4u;
const RATE = 0.05; // of learning

@group(0) @binding(0) var<storage, read_write> x: array<f32>; // SAMPLES x INPUTS
@group(0) @binding(1) var<storage, read_write> t: array<f32>; // SAMPLES x OUTPUTS
@group(0) @binding(2) var<storage, read_write> w1: array<f32>; // INPUTS x HIDDEN
@group(0) @binding(3) var<storage, read_write> w2: array<f32>; // HIDDEN x OUTPUTS
@group(0) @binding(4) var<storage, read_write> h: array<f32>; // SAMPLES x HIDDEN
@group(0) @binding(5) var<storage, read_write> d: array<f32>; // SAMPLES x OUTPUTS: y - t
@group(0) @binding(6) var<storage, read_write> g: array<f32>; // SAMPLES x HIDDEN: the loss by what h is the maximum of

@compute @workgroup_size(64)
fn hidden(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= SAMPLES * HIDDEN) { return; }
    let sample = id.x / HIDDEN;
    var sum = 0.0;
    for (var i = 0u; i < INPUTS; i++) {
        sum += x[sample * INPUTS + i] * w1[i * HIDDEN + id.x % HIDDEN];
    }
    h[id.x] = max(sum, 0.0);
}

@compute @workgroup_size(64)
fn output(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= SAMPLES * OUTPUTS) { return; }
    let sample = id.x / OUTPUTS;
    var sum = 0.0;
    for (var i = 0u; i < HIDDEN; i++) {
        sum += h[sample * HIDDEN + i] * w2[i * OUTPUTS + id.x % OUTPUTS];
    }
    d[id.x] = sum - t[id.x];
}

@compute @workgroup_size(64)
fn gradient(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= SAMPLES * HIDDEN) { return; }
    let sample = id.x / HIDDEN;
    var sum = 0.0;
    for (var i = 0u; i < OUTPUTS; i++) {
        sum += d[sample * OUTPUTS + i] * w2[id.x % HIDDEN * OUTPUTS + i];
    }
    g[id.x] = select(0.0, sum, h[id.x] > 0.0);
}

@compute @workgroup_size(64)
fn learn1(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= INPUTS * HIDDEN) { return; }
    var sum = 0.0;
    for (var i = 0u; i < SAMPLES; i++) {
        sum += x[i * INPUTS + id.x / HIDDEN] * g[i * HIDDEN + id.x % HIDDEN];
    }
    w1[id.x] -= RATE / f32(SAMPLES) * sum;
}

@compute @workgroup_size(64)
fn learn2(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= HIDDEN * OUTPUTS) { return; }
    var sum = 0.0;
    for (var i = 0u; i < SAMPLES; i++) {
        sum += h[i * HIDDEN + id.x / OUTPUTS] * d[i * OUTPUTS + id.x % OUTPUTS];
    }
    w2[id.x] -= RATE / f32(SAMPLES) * sum;
}
