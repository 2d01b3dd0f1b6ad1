#include "app/survey/echo.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/time.h"

enum { RETRY_NS = NS_PER_MS }; /* after the transport took none: no address yet, or no ARP answer */

static struct {
    struct survey_echo_config config;
    bool on_its_way;
    uint64_t number; /* the last datagram's */
    uint64_t sent_ns, next_ns, pause_ns;
} echo;

struct survey_echo_counters survey_echo_counters;
const struct counter_group survey_echo_counter_group = COUNTER_GROUP("survey.echo_", "The survey", SURVEY_ECHO_COUNTERS,
                                                                     survey_echo_counters);

bool survey_echo_init(const struct survey_echo_config *config)
{
    ASSERT(config->port != 0 && config->now_ns != NULL);
    memset(&echo, 0, sizeof echo);
    memset(&survey_echo_counters, 0, sizeof survey_echo_counters);
    echo.config = *config;
    return transport_udp_bind(config->port);
}

void survey_echo_begin(uint64_t pause_ns, uint64_t now_ns)
{
    ASSERT(echo.config.to.address != 0);
    echo.on_its_way = false;
    echo.pause_ns = pause_ns;
    echo.next_ns = now_ns;
}

void survey_echo_poll(uint64_t now_ns)
{
    uint8_t datagram[SURVEY_ECHO_BYTES] = { 0 };
    if (now_ns < echo.next_ns)
        return;
    survey_echo_counters.lost += echo.on_its_way;
    echo.on_its_way = false;
    echo.number++;
    memcpy(datagram, &echo.number, sizeof echo.number);
    echo.sent_ns = echo.config.now_ns();
    ASSERT(echo.sent_ns >= now_ns);
    if (!transport_udp_send(echo.config.port, echo.config.to.address, echo.config.to.port, datagram, sizeof datagram,
                            now_ns)) {
        echo.next_ns = now_ns + RETRY_NS;
        return;
    }
    survey_echo_counters.sent++;
    echo.on_its_way = true;
    echo.next_ns = now_ns + SURVEY_ECHO_LOST_MS * NS_PER_MS;
}

uint64_t survey_echo_datagram(const struct transport_event *event, uint64_t now_ns)
{
    uint64_t number = 0;
    ASSERT(event->kind == TRANSPORT_DATAGRAM && event->port == echo.config.port);
    if (event->payload.count == SURVEY_ECHO_BYTES)
        memcpy(&number, event->payload.data, sizeof number);
    if (!echo.on_its_way || number != echo.number || event->address != echo.config.to.address
        || event->peer_port != echo.config.to.port) {
        survey_echo_counters.foreign++;
        return 0;
    }
    echo.on_its_way = false;
    echo.next_ns = now_ns + echo.pause_ns;
    survey_echo_counters.answered++;
    return now_ns > echo.sent_ns ? now_ns - echo.sent_ns : 1;
}

uint64_t survey_echo_next_deadline_ns(void) { return echo.next_ns; }
