#include "app/page_request.h"

#include <string.h>

#include "app/span.h"

/* RFC 9112 §2.2: a line ends with CRLF; a recipient may take a lone LF for it. */
size_t page_request_end(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != '\n')
            continue;
        if (i + 1 < bytes && text[i + 1] == '\n')
            return i + 2;
        if (i + 2 < bytes && text[i + 1] == '\r' && text[i + 2] == '\n')
            return i + 3;
    }
    return 0;
}

/* The next line without its end. */
static bool line_split(struct span *rest, struct span *line)
{
    if (!span_split(rest, '\n', line))
        return false;
    if (line->bytes > 0 && line->at[line->bytes - 1] == '\r')
        line->bytes--;
    return true;
}

static bool starts(struct span s, const char *text)
{
    return s.bytes >= strlen(text) && memcmp(s.at, text, strlen(text)) == 0;
}

/* RFC 9112 §3.2: of the absolute form only the path counts, and never the query. */
static struct span path_of(struct span target)
{
    if (starts(target, "http://")) {
        size_t at = strlen("http://");
        while (at < target.bytes && target.at[at] != '/' && target.at[at] != '?')
            at++;
        target = (struct span){ target.at + at, target.bytes - at };
        if (target.bytes == 0 || target.at[0] == '?')
            return (struct span){ "/", 1 };
    }
    for (size_t i = 0; i < target.bytes; i++)
        if (target.at[i] == '?')
            target.bytes = i;
    return target;
}

static bool field_is_host(struct span line)
{
    static const char host[] = "host:";
    if (line.bytes < sizeof host - 1)
        return false;
    for (size_t i = 0; i < sizeof host - 1; i++)
        if ((line.at[i] | 0x20) != (host[i] | 0x20))
            return false;
    return true;
}

/* RFC 9112 §3.2: exactly one Host field in 1.1. §5: no white space before a colon, and §5.2: no folding. */
static bool fields_are_good(struct span rest, bool host_needed)
{
    struct span line;
    unsigned hosts = 0;
    while (line_split(&rest, &line) && line.bytes > 0) {
        size_t colon = 0;
        while (colon < line.bytes && line.at[colon] != ':')
            colon++;
        if (colon == 0 || colon == line.bytes || line.at[0] == ' ' || line.at[0] == '\t' || line.at[colon - 1] == ' ')
            return false;
        hosts += field_is_host(line);
    }
    return hosts == 1 || (hosts == 0 && !host_needed);
}

struct page_request page_request_parse(const char *text, size_t bytes)
{
    struct page_request request = { .status = 400 };
    struct span rest = { text, bytes }, line, method, target;
    /* RFC 9112 §2.2: an empty line before the request is passed over. */
    if (!line_split(&rest, &line) || (line.bytes == 0 && !line_split(&rest, &line)))
        return request;
    if (!span_split(&line, ' ', &method) || !span_split(&line, ' ', &target) || !line.at
        || method.bytes == 0)
        return request;
    if (line.bytes != 8 || !starts(line, "HTTP/") || !span_digit_is(line.at[5]) || line.at[6] != '.'
        || !span_digit_is(line.at[7]))
        return request;
    request.chunked = line.at[7] != '0';
    if (line.at[5] != '1') {
        request.status = 505;
        return request;
    }
    if (!fields_are_good(rest, request.chunked))
        return request;
    request.head_only = span_is(method, "HEAD");
    if (!request.head_only && !span_is(method, "GET")) {
        request.status = 405;
        return request;
    }
    struct span path = path_of(target);
    request.page = span_is(path, "/metrics") ? PAGE_METRICS : PAGE_PLAIN;
    request.status = request.page == PAGE_METRICS || span_is(path, "/") ? 200 : 404;
    return request;
}
