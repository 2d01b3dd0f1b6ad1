/* See igmp.h. */
#include "tests/wire/igmp.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum { QUERIER = 0x0a0000fe, ALL_SYSTEMS = (int)0xe0000001 };

uint32_t wire_igmp_address(struct script *s)
{
    char word[32];
    struct in_addr address;
    script_word(s, word, sizeof word);
    if (inet_pton(AF_INET, word, &address) != 1)
        script_fault(s, "an address is missing");
    return ntohl(address.s_addr);
}

void wire_igmp_read(struct script *s, struct igmp_packet *message)
{
    bool query = script_take(s, "query");
    *message = (struct igmp_packet){ .type = IGMP_QUERY, .source = QUERIER };
    if (!query && !script_take(s, "report"))
        script_fault(s, "query or report is missing");
    message->version = (int)script_number(s);
    message->no_alert = message->version == 1; /* older than the option */
    message->group = wire_igmp_address(s);
    message->destination = message->group != 0 ? message->group : (uint32_t)ALL_SYSTEMS;
    if (query)
        message->max_response = (uint8_t)script_number(s);
    else
        message->type = message->version == 1 ? IGMP_REPORT_V1 : IGMP_REPORT_V2;
    while (!script_at_end(s) && message->source_count < IGMP_PACKET_SOURCES_MAX)
        message->sources[message->source_count++] = wire_igmp_address(s);
}

void wire_igmp_text(struct script *s, char *text, size_t text_bytes)
{
    size_t at = 0;
    text[0] = 0;
    while (!script_at_end(s) && at < text_bytes) {
        char word[32];
        script_word(s, word, sizeof word);
        at += (size_t)snprintf(text + at, text_bytes - at, "%s%s", at != 0 ? " " : "", word);
    }
}
