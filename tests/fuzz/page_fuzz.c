/* Fuzzes app/page_request.c: whatever is asked, there is one of the known answers, and nothing is read beyond the head. */
#include <stdlib.h>
#include <string.h>

#include "app/page_request.h"
#include "kernel/base/assert.h"

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    (void)file, (void)line, (void)condition;
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size ? size : 1);           /* exact, for the sanitizer */
    memcpy(text, data, size);
    size_t end = page_request_end(text, size);
    ASSERT(end <= size);
    char *head = malloc(end ? end : 1);
    memcpy(head, text, end);
    struct page_request request = page_request_parse(head, end);
    ASSERT(request.status == 200 || request.status == 400 || request.status == 404 || request.status == 405
           || request.status == 505);
    if (request.status == 200) {
        ASSERT(end >= sizeof "GET / HTTP/1.0\n\n" - 1);
        size_t line = head[0] == '\n' ? 1 : head[0] == '\r' ? 2 : 0;     /* behind an empty one */
        ASSERT(head[line] == (request.head_only ? 'H' : 'G'));
    }
    free(head);
    free(text);
    return 0;
}
