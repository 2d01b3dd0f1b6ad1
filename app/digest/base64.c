/* /base64: the body in base64, sent while the body comes. */
#include "app/digest/base64_ops.h"
#include "app/digest/method.h"
#include "base/assert.h"

METHOD_VARIANTS(base64, &digest_base64_scalar, &digest_base64_avx2, &digest_base64_avx512)

static const char *base64_begin(union method_job *job, const struct method_request *request)
{
    (void)request;
    job->base64 = (struct base64_job){ .rest_bytes = 0 };
    return NULL;
}

static size_t base64_take(union method_job *job, const uint8_t *data, size_t bytes, uint8_t *out)
{
    struct base64_job *text = &job->base64;
    const uint8_t *const begin = out;
    ASSERT(text->rest_bytes < 3);
    if (text->rest_bytes > 0) {
        size_t part = min_size(bytes, 3 - text->rest_bytes);
        memcpy(text->rest + text->rest_bytes, data, part);
        text->rest_bytes += (uint32_t)part;
        data += part;
        bytes -= part;
        if (text->rest_bytes < 3)
            return 0;
        digest_base64_scalar.encode(out, text->rest, 1);
        out += 4;
    }
    ops->encode(out, data, bytes / 3);
    out += bytes / 3 * 4;
    text->rest_bytes = (uint32_t)(bytes % 3);
    memcpy(text->rest, data + bytes / 3 * 3, text->rest_bytes);
    return (size_t)(out - begin);
}

/* RFC 4648 §4: one or two bytes that are left become two or three characters, and "=" fills up. */
static enum method_end base64_end(union method_job *job, struct method_result *result)
{
    struct base64_job *text = &job->base64;
    ASSERT(text->rest_bytes < 3);
    result->bytes = 0;
    if (text->rest_bytes > 0) {
        memset(text->rest + text->rest_bytes, 0, 3 - text->rest_bytes);
        digest_base64_scalar.encode(result->text, text->rest, 1);
        memset(result->text + 1 + text->rest_bytes, '=', 3 - text->rest_bytes);
        result->bytes = 4;
    }
    return METHOD_ENDED;
}

const struct method digest_method_base64 = {
    .streams = true, .use = base64_use, .begin = base64_begin, .take = base64_take, .end = base64_end
};
