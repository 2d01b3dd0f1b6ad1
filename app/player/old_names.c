#include "app/player/old_names.h"

#include "app/player/answer_set.h"
#include "app/player/circuit_breaker.h"
#include "app/player/input_stream.h"
#include "app/player/player.h"
#include "app/player/session.h"
#include "app/player/stream_merger.h"
#include "app/service/service.h"
#include "app/service/status_page.h"
#include "base/bytes.h"

static const struct counter table[] = {
    COUNTER("feed.", input_stream_counters, requests),
    COUNTER("feed.", input_stream_counters, responses),
    COUNTER("feed.", input_stream_counters, digits),
    COUNTER("feed.", input_stream_counters, bytes_skipped_line_ends),
    COUNTER("feed.", input_stream_counters, bytes_skipped_other),
    COUNTER("feed.", input_stream_counters, bad_http),
    COUNTER("feed.", input_stream_counters, bad_status),
    COUNTER("feed.", input_stream_counters, streams_ended),
    COUNTER("feed.", input_stream_counters, streams_cut),
    COUNTER("feed.", input_stream_counters, silent),
    COUNTER("weave.", stream_merger_counters, repeated),
    COUNTER("weave.", stream_merger_counters, unplaced),
    COUNTER("weave.", stream_merger_counters, placed),
    COUNTER("weave.", stream_merger_counters, ambiguous),
    COUNTER("weave.", stream_merger_counters, disagreed),
    COUNTER("weave.", stream_merger_counters, gaps),
    COUNTER("ledger.", answer_set_counters, entered),
    COUNTER("ledger.", answer_set_counters, repeated),
    COUNTER("ledger.", answer_set_counters, forgotten),
    COUNTER("link.", session_counters, attempts),
    COUNTER("link.", session_counters, connected),
    COUNTER("link.", session_counters, lost_closed),
    COUNTER("link.", session_counters, lost_refused),
    COUNTER("link.", session_counters, lost_reset),
    COUNTER("link.", session_counters, lost_timed_out),
    COUNTER("link.", session_counters, lost_unreachable),
    COUNTER("link.", session_counters, left),
    COUNTER("link.", session_counters, left_reset),
    COUNTER("page.", status_page_counters, accepted),
    COUNTER("page.", status_page_counters, refused_busy),
    COUNTER("page.", status_page_counters, requests),
    COUNTER("page.", status_page_counters, responses_200),
    COUNTER("page.", status_page_counters, responses_refused),
    COUNTER("page.", status_page_counters, given_up),
    COUNTER("breaker.", circuit_breaker_counters, open),
    COUNTER("breaker.", circuit_breaker_counters, refused_in_window),
    COUNTER("breaker.", circuit_breaker_counters, others_in_window),
    { "pool.outbox_bytes_used", &player_levels.send_queue_bytes_used },
    { "pool.outbox_bytes", &player_levels.send_queue_bytes },
    { "pool.ledger_answers_used", &player_levels.answer_set_answers_used },
    { "pool.ledger_answers", &player_levels.answer_set_answers },
    COUNTER("player.", service_counters, uptime_ns),
};
const struct counter_group player_old_names_group = { table, ARRAY_COUNT(table) };
