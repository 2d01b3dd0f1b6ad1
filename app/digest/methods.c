/* The table of methods. */
#include "app/digest/method.h"

#include "base/assert.h"
#include "base/text.h"

#define METHOD_ADDRESS(name, keys) &digest_method_##name,
const struct method *const digest_methods[METHOD_COUNT] = { DIGEST_METHODS(METHOD_ADDRESS) };

const struct method *digest_method_of(struct bytes path, size_t *index)
{
#define METHOD_PATH(name, keys) "/" #name,
    static const char *const paths[METHOD_COUNT] = { DIGEST_METHODS(METHOD_PATH) };
    ASSERT(path.data != NULL);
    for (*index = 0; *index < METHOD_COUNT; ++*index)
        if (text_is(path, paths[*index]))
            return digest_methods[*index];
    return NULL;
}
