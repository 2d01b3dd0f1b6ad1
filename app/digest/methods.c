/* The table of methods. */
#include "app/digest/method.h"

#include "base/assert.h"
#include "base/text.h"

const struct method *const digest_methods[METHOD_COUNT] = { &digest_method_sha256, &digest_method_nabhash,
                                                            &digest_method_mercha, &digest_method_base64 };

const struct method *digest_method_of(struct bytes path, size_t *index)
{
    ASSERT(path.data != NULL);
    for (*index = 0; *index < METHOD_COUNT; ++*index)
        if (text_is(path, digest_methods[*index]->path))
            return digest_methods[*index];
    return NULL;
}
