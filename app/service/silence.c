#include "app/service/silence.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"
#include "net/transport_path.h"

enum { ASKED_COUNT_MIN = 4 }; /* unanswered questions: one or two may be lost on the way */

static struct {
    uint64_t heard_count, heard_ns; /* the newest frame */
    uint64_t arp_count, next_ask_ns;
    uint32_t asked_count; /* since that frame */
    bool must_answer;
} silence;

struct silence_counters silence_counters;
const struct counter_group silence_counter_group = COUNTER_GROUP("network.", "Silence of the network", SILENCE_COUNTERS,
                                                                 silence_counters);

void silence_init(bool gateway_may_be_mute)
{
    memset(&silence, 0, sizeof silence);
    memset(&silence_counters, 0, sizeof silence_counters);
    silence.heard_count = UINT64_MAX; /* the first poll is the beginning */
    silence.must_answer = !gateway_may_be_mute;
    silence.arp_count = transport_network()->arp_count;
}

bool silence_poll(uint64_t timeout_ns, bool stood_still, uint64_t now_ns)
{
    const struct transport_network *network = transport_network();
    ASSERT(silence.heard_ns <= now_ns);
    if (network->arp_count != silence.arp_count && silence_counters.asked != 0)
        silence.must_answer = true;
    silence.arp_count = network->arp_count;
    if (!network->up || network->heard_count != silence.heard_count || stood_still) {
        silence.heard_count = network->heard_count;
        silence.heard_ns = now_ns;
        silence.asked_count = 0;
        if (silence.must_answer)
            silence.next_ask_ns = now_ns + timeout_ns / 2;
    }
    if (timeout_ns != 0 && network->up && now_ns >= silence.next_ask_ns) {
        silence.next_ask_ns = now_ns + timeout_ns / (2 * ASKED_COUNT_MIN);
        if (transport_ask_neighbour()) {
            silence.asked_count++;
            silence_counters.asked++;
        }
    }
    const uint64_t silence_ns = now_ns - silence.heard_ns;
    silence_counters.silence_ns = silence.asked_count != 0 ? silence_ns : 0;
    if (!silence.must_answer || silence.asked_count < ASKED_COUNT_MIN || silence_ns < timeout_ns)
        return false;
    log_line(
        "network: no frame for %llu ms, nor an answer to %u ARP requests; the card takes nothing, or the wire is dead",
        (unsigned long long)(silence_ns / NS_PER_MS), silence.asked_count);
    return true;
}
