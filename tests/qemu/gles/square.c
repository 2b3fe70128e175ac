/* SPDX-License-Identifier: BSD-2-Clause */
/* y = x * x + 1 on the GPU, by a compute shader of OpenGL ES 3.1 without any surface: a program to record.
 *
 *     square IN OUT
 *
 * IN and OUT are files of float32 values. Exit status: 0; 2 when something on the way failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GLES3/gl31.h>

#include "../program.h"

#define MAX_COUNT 65536u
#define GROUP_SIZE 64u /* local_size_x below */

static const char *const SOURCE = "#version 310 es\n"
                                  "layout(local_size_x = 64) in;\n"
                                  "layout(std430, binding = 0) readonly buffer In { float x[]; };\n"
                                  "layout(std430, binding = 1) writeonly buffer Out { float y[]; };\n"
                                  "void main() {\n"
                                  "    uint i = gl_GlobalInvocationID.x;\n"
                                  "    if (i < uint(x.length())) y[i] = x[i] * x[i] + 1.0;\n"
                                  "}\n";

static void open_gpu(void)
{
    static const EGLint attributes[] = {EGL_CONTEXT_MAJOR_VERSION, 3, EGL_CONTEXT_MINOR_VERSION, 1, EGL_NONE};
    EGLDisplay display = eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, NULL);
    EGLContext context;

    if (display == EGL_NO_DISPLAY || !eglInitialize(display, NULL, NULL))
        fail("no EGL display: error %#x", (unsigned)eglGetError());
    eglBindAPI(EGL_OPENGL_ES_API);
    context = eglCreateContext(display, EGL_NO_CONFIG_KHR, EGL_NO_CONTEXT, attributes);
    if (context == EGL_NO_CONTEXT || !eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context))
        fail("no context for OpenGL ES 3.1: error %#x", (unsigned)eglGetError());
    printf("device: %s\n", (const char *)glGetString(GL_RENDERER));
}

static GLuint make_program(void)
{
    GLuint shader = glCreateShader(GL_COMPUTE_SHADER), program = glCreateProgram();
    GLint linked = 0;
    char log[512] = "";

    glShaderSource(shader, 1, &SOURCE, NULL);
    glCompileShader(shader);
    glAttachShader(program, shader);
    glLinkProgram(program);
    glGetProgramiv(program, GL_LINK_STATUS, &linked);
    glGetShaderInfoLog(shader, sizeof log, NULL, log);
    if (!linked)
        fail("the shader is not taken: %s", log);
    return program;
}

static GLuint make_buffer(GLuint binding, GLsizeiptr bytes, const void *data)
{
    GLuint buffer;

    glGenBuffers(1, &buffer);
    glBindBuffer(GL_SHADER_STORAGE_BUFFER, buffer);
    glBufferData(GL_SHADER_STORAGE_BUFFER, bytes, data, GL_DYNAMIC_READ);
    glBindBufferBase(GL_SHADER_STORAGE_BUFFER, binding, buffer);
    return buffer;
}

static size_t read_values(const char *path, float *values)
{
    FILE *file = fopen(path, "rb");
    size_t count;

    if (!file)
        fail("%s: cannot be opened", path);
    count = fread(values, sizeof *values, MAX_COUNT, file);
    fclose(file);
    if (count == 0)
        fail("%s: no values", path);
    return count;
}

static void write_values(const char *path, const void *values, size_t count)
{
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(values, sizeof(float), count, file) != count || fclose(file))
        fail("%s: cannot be written", path);
}

int main(int argc, char **argv)
{
    static float values[MAX_COUNT];
    GLsizeiptr bytes;
    const void *result;
    size_t count;

    if (argc != 3)
        fail("usage: square IN OUT");
    count = read_values(argv[1], values);
    bytes = (GLsizeiptr)(count * sizeof *values);
    open_gpu();
    glUseProgram(make_program());
    make_buffer(0, bytes, values);
    make_buffer(1, bytes, NULL);
    glDispatchCompute((GLuint)(count + GROUP_SIZE - 1) / GROUP_SIZE, 1, 1);
    glMemoryBarrier(GL_BUFFER_UPDATE_BARRIER_BIT);
    result = glMapBufferRange(GL_SHADER_STORAGE_BUFFER, 0, bytes, GL_MAP_READ_BIT);
    if (!result)
        fail("the result cannot be mapped: error %#x", (unsigned)glGetError());
    write_values(argv[2], result, count);
    return 0;
}
