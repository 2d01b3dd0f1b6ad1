/* HTTP/1.x requests. RFC 9112. */
#include "net/http/request.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "net/http/token.h"

enum { BAD_REQUEST = 400, NOT_IMPLEMENTED = 501, VERSION_NOT_SUPPORTED = 505 };

/* RFC 9112 §2.2: a line ends with CRLF; a recipient may take a lone LF for it. */
size_t http_request_head_bytes(const uint8_t *text, size_t bytes)
{
    ASSERT(text != NULL || bytes == 0);
    /*@ loop invariant i <= bytes; loop assigns i; loop variant bytes - i; */
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != '\n')
            continue;
        if (bytes - i > 1 && text[i + 1] == '\n')
            return i + 2;
        if (bytes - i > 2 && text[i + 1] == '\r' && text[i + 2] == '\n')
            return i + 3;
    }
    return 0;
}

/* Cuts the next line off, without its end. */
/*@ requires \valid(rest) && \valid(line) && \separated(rest, line) && (rest->data == \null || readable(*rest));
    assigns *rest, *line;
    ensures \result ==> readable(*line) && (rest->data == \null || readable(*rest)); */
static bool line_split(struct bytes *rest, struct bytes *line)
{
    if (!text_split(rest, '\n', line))
        return false;
    if (line->count > 0 && line->data[line->count - 1] == '\r')
        line->count--;
    return true;
}

/*@ assigns \nothing; */
static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? c | 0x20 : c; }

/* Compares names and tokens, which do not mind case. */
/*@ requires readable(s);
    requires terminated: valid_read_string(name);
    assigns \nothing; */
static bool same_name(struct bytes s, const char *name)
{
    if (s.count != strlen(name))
        return false;
    /*@ loop invariant i <= s.count; loop assigns i; loop variant s.count - i; */
    for (size_t i = 0; i < s.count; i++)
        if (lower(s.data[i]) != (uint8_t)name[i])
            return false;
    return true;
}

/* Returns true if the bytes can be a host and a port: letters, digits and
 * -._~%!$&'()*+,;=:[] by RFC 3986 §3.2.2. A reader before us may have taken
 * what follows another byte for a second host, a path or a user. */
/*@ requires readable(s); assigns \nothing; */
static bool is_authority(struct bytes s)
{
    const uint64_t below_64 = UINT64_C(0x2fff7ff200000000), below_128 = UINT64_C(0x47fffffeaffffffe);
    /*@ loop invariant i <= s.count; loop assigns i; loop variant s.count - i; */
    for (size_t i = 0; i < s.count; i++) {
        const uint8_t c = s.data[i];
        if (c >= 128 || ((c < 64 ? below_64 >> c : below_128 >> (c - 64)) & 1) == 0)
            return false;
    }
    return true;
}

/* Takes the target apart. RFC 9112 §3.2.2: the absolute form, too; its authority does not count. RFC 3986 §3.1: a
 * scheme does not mind case. Returns false for an empty host (RFC 9110 §4.2.1), or a faulty one. */
/*@ requires \valid(request) && readable(request->target) && request->query.count == 0;
    assigns request->path, request->query; */
static bool target_split(struct http_request *request)
{
    enum { SCHEME_BYTES = sizeof "http://" - 1 };
    struct bytes rest = request->target;
    if (rest.count >= SCHEME_BYTES && same_name((struct bytes){ rest.data, SCHEME_BYTES }, "http://")) {
        size_t at = 0;
        rest = (struct bytes){ rest.data + SCHEME_BYTES, rest.count - SCHEME_BYTES };
        /*@ loop invariant at <= rest.count; loop assigns at; loop variant rest.count - at; */
        while (at < rest.count && rest.data[at] != '/' && rest.data[at] != '?')
            at++;
        if (at == 0 || rest.data[0] == ':' || !is_authority((struct bytes){ rest.data, at }))
            return false;
        rest = (struct bytes){ rest.data + at, rest.count - at };
    }
    /*@ assert readable(rest) && rest.count <= request->target.count; */
    size_t path_bytes = 0;
    /*@ loop invariant path_bytes <= rest.count; loop assigns path_bytes; loop variant rest.count - path_bytes; */
    while (path_bytes < rest.count && rest.data[path_bytes] != '?')
        path_bytes++;
    request->path = (struct bytes){ rest.data, path_bytes };
    if (path_bytes < rest.count)
        request->query = (struct bytes){ rest.data + path_bytes + 1, rest.count - path_bytes - 1 };
    if (path_bytes == 0 && request->target.count != 0)
        request->path = (struct bytes){ (const uint8_t *)"/", 1 };
    ASSERT(request->path.count + request->query.count <= request->target.count);
    return true;
}

/*@ assigns \nothing; */
static bool is_blank(uint8_t c) { return c == ' ' || c == '\t'; }

/*@ requires readable(s); assigns \nothing; ensures readable(\result); */
static struct bytes trimmed(struct bytes s)
{
    /*@ loop invariant readable(s); loop assigns s; loop variant s.count; */
    while (s.count > 0 && is_blank(s.data[0]))
        s = (struct bytes){ s.data + 1, s.count - 1 };
    /*@ loop invariant readable(s); loop assigns s.count; loop variant s.count; */
    while (s.count > 0 && is_blank(s.data[s.count - 1]))
        s.count--;
    return s;
}

/* Returns the bytes of the token at the beginning. */
/*@ requires readable(s); assigns \nothing; ensures \result <= s.count; */
static size_t token_bytes(struct bytes s)
{
    size_t at = 0;
    /*@ loop invariant at <= s.count; loop assigns at; loop variant s.count - at; */
    while (at < s.count && http_is_token(s.data[at]))
        at++;
    return at;
}

/* The fields that decide how the request is read. */
struct framing {
    unsigned hosts, codings;
    bool bad_host, bad_length, says_close, says_keep_alive;
};

/* RFC 9112 §6.3: a length that is repeated must be the same. */
/*@ requires \valid(request) && \valid(framing) && \separated(request, framing) && readable(value);
    assigns request->has_length, request->length, framing->bad_length; */
static void length_take(struct http_request *request, struct framing *framing, struct bytes value)
{
    uint64_t length;
    if (!text_number(value, 0, INT64_MAX, &length) || (request->has_length && length != request->length))
        framing->bad_length = true;
    request->has_length = true;
    request->length = framing->bad_length ? 0 : length;
    ASSERT(!framing->bad_length || request->length == 0);
}

/*@ requires \valid(framing) && readable(value); assigns framing->says_close, framing->says_keep_alive; */
static void connection_take(struct framing *framing, struct bytes value)
{
    struct bytes token;
    /*@ loop invariant value.data == \null || readable(value);
        loop assigns value, token, framing->says_close, framing->says_keep_alive; */
    while (text_split(&value, ',', &token)) {
        framing->says_close = framing->says_close || same_name(trimmed(token), "close");
        framing->says_keep_alive = framing->says_keep_alive || same_name(trimmed(token), "keep-alive");
    }
}

/*@ requires \valid(request) && \valid(framing) && \separated(request, framing);
    requires readable(name) && name.count > 0 && readable(value);
    assigns request->has_length, request->length, request->chunked, request->expects_continue, *framing; */
static void field_take(struct http_request *request, struct framing *framing, struct bytes name, struct bytes value)
{
    ASSERT(name.count != 0);
    if (same_name(name, "host")) {
        framing->hosts++;
        framing->bad_host = framing->bad_host || !is_authority(value);
    } else if (same_name(name, "content-length")) {
        length_take(request, framing, value);
    } else if (same_name(name, "transfer-encoding")) {
        framing->codings++;
        request->chunked = same_name(value, "chunked");
    } else if (same_name(name, "expect")) {
        request->expects_continue = same_name(value, "100-continue");
    } else if (same_name(name, "connection")) {
        connection_take(framing, value);
    }
}

/* Takes the fields. False: one is malformed. RFC 9110 §5.1: a name is a token, so RFC 9112 §5.1: no white space stands
 * before the colon, and §5.2: no line is folded. */
/*@ requires \valid(request) && \valid(framing) && \separated(request, framing);
    requires rest.data == \null || readable(rest);
    assigns request->has_length, request->length, request->chunked, request->expects_continue, *framing; */
static bool fields_take(struct http_request *request, struct framing *framing, struct bytes rest)
{
    struct bytes line;
    /*@ loop invariant rest.data == \null || readable(rest);
        loop assigns rest, line, request->has_length, request->length, request->chunked, request->expects_continue,
            *framing; */
    while (line_split(&rest, &line) && line.count > 0) {
        size_t colon = token_bytes(line);
        if (colon == 0 || colon == line.count || line.data[colon] != ':')
            return false;
        ASSERT(colon < line.count);
        struct bytes name = { line.data, colon }, value = { line.data + colon + 1, line.count - colon - 1 };
        field_take(request, framing, name, trimmed(value));
    }
    return true;
}

/* Decides how the body is framed, if the fields agree. RFC 9112 §6.1, §6.3: two framings at once are an attack. */
/*@ requires \valid(request) && \valid_read(framing) && \separated(request, framing);
    assigns request->keep_alive;
    ensures \result == 0 || \result >= BAD_REQUEST; */
static uint16_t framing_refused(struct http_request *request, const struct framing *framing)
{
    bool host_needed = request->version_minor != 0; /* §3.2: exactly one in 1.1, and a valid one */
    if (framing->bad_host || (framing->hosts != 1 && (framing->hosts != 0 || host_needed)))
        return BAD_REQUEST;
    if (framing->bad_length || (framing->codings != 0 && (request->has_length || request->version_minor == 0)))
        return BAD_REQUEST;
    if (framing->codings > 1 || (framing->codings == 1 && !request->chunked))
        return NOT_IMPLEMENTED;
    request->keep_alive = !framing->says_close && (request->version_minor != 0 || framing->says_keep_alive);
    ASSERT(framing->codings == 0 || !request->has_length);
    ASSERT(!(request->keep_alive && framing->says_close));
    return 0;
}

/* Takes "HTTP/1.1". Returns the status that refuses it, or 0. */
/*@ requires \valid(request) && readable(version);
    assigns request->version_minor;
    ensures \result == 0 || \result >= BAD_REQUEST; */
static uint16_t version_take(struct http_request *request, struct bytes version)
{
    if (version.count != 8 || !text_starts(version, "HTTP/") || !text_digit_is(version.data[5])
        || version.data[6] != '.' || !text_digit_is(version.data[7]))
        return BAD_REQUEST;
    request->version_minor = (uint8_t)(version.data[7] - '0');
    ASSERT(request->version_minor <= 9);
    return version.data[5] == '1' ? 0 : VERSION_NOT_SUPPORTED;
}

/* RFC 9112 §2.2, RFC 9110 §5.5: Returns true if a control character stands in the head, except HTAB, LF, and CR before
 * LF. A reader before us may have taken it for the end of a line, or passed it over. */
/*@ requires \valid_read(text + (0 .. bytes - 1)); assigns \nothing; */
static bool has_control(const uint8_t *text, size_t bytes)
{
    /*@ loop invariant i <= bytes; loop assigns i; loop variant bytes - i; */
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t c = text[i];
        bool ends_line = c == '\n' || (c == '\r' && bytes - i > 1 && text[i + 1] == '\n');
        if ((c < ' ' && c != '\t' && !ends_line) || c == 0x7f)
            return true;
    }
    return false;
}

/* RFC 9112 §3.2: Returns true if a target has no HTAB, the one control character that has passed. */
/*@ requires readable(target); assigns \nothing; */
static bool has_no_tab(struct bytes target)
{
    /*@ loop invariant i <= target.count; loop assigns i; loop variant target.count - i; */
    for (size_t i = 0; i < target.count; i++)
        if (target.data[i] == '\t')
            return false;
    return true;
}

struct http_request http_request_parse(const uint8_t *text, size_t bytes)
{
    struct http_request request = { .refused = BAD_REQUEST };
    struct framing framing = { 0 };
    struct bytes rest = { text, bytes }, line;
    if (has_control(text, bytes))
        return request;
    /* RFC 9112 §2.2: an empty line before the request is passed over. */
    if (!line_split(&rest, &line) || (line.count == 0 && !line_split(&rest, &line)))
        return request;
    if (!text_split(&line, ' ', &request.method) || !text_split(&line, ' ', &request.target) || line.data == NULL
        || request.method.count == 0 || request.target.count == 0
        || token_bytes(request.method) != request.method.count /* RFC 9110 §9.1 */
        || !has_no_tab(request.target))
        return request;
    uint16_t refused = version_take(&request, line);
    if (refused == 0) {
        bool is_good = target_split(&request) && fields_take(&request, &framing, rest);
        refused = is_good ? framing_refused(&request, &framing) : BAD_REQUEST;
    }
    ASSERT(request.method.count != 0);
    ASSERT(refused == 0 || refused >= BAD_REQUEST);
    request.refused = refused;
    return request;
}

const char *http_reason_phrase(unsigned status)
{
    switch (status) {
    case 200:
        return "OK";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 408:
        return "Request Timeout";
    case 411:
        return "Length Required";
    case 413:
        return "Content Too Large";
    case 431:
        return "Request Header Fields Too Large";
    case 501:
        return "Not Implemented";
    case 503:
        return "Service Unavailable";
    case 505:
        return "HTTP Version Not Supported";
    default:
        ASSERT(status == 400);
        return "Bad Request";
    }
}
