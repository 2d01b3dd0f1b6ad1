/* Whole connections between two of our stacks: open, transfer both ways, close, with losses and delays. A transfer is
 * held to a time. tests/sim plays games at random, without that. */
#include "tests/lib/simulator.h"
#include "tests/lib/test.h"

#define BEGIN_NS      (1000 * NS_PER_S)
#define AFTERWARDS_NS (200 * NS_PER_S) /* TIME-WAIT, after the longest time-out of a FIN */

enum { BYTES = 1000000 };

static struct simulator sim;

static void open_both(const struct network_faults *faults, const struct tcp_policy *policy)
{
    static const struct half_plan plan = {
        .send_bytes = BYTES,
        .write_bytes_max = 4096,
        .read_bytes_max = 4096,
        .abort_after_bytes = UINT64_MAX,
        .close_after_bytes = UINT64_MAX,
    };
    sim.now_ns = BEGIN_NS;
    for (uint32_t i = 0; i < 2; i++) {
        endpoint_open(&sim.endpoints[i], i, false, policy, i, sim.now_ns);
        sim.endpoints[i].halves[0] = (struct half){ .plan = plan };
    }
    network_init(&sim.network, &sim.endpoints[0].device, &sim.endpoints[1].device, faults, UINT64_MAX, 1);
    for (uint32_t i = 2; i-- > 0;) {
        endpoint_neighbour_fix(&sim.endpoints[i], sim.now_ns);
        endpoint_start(&sim.endpoints[i], 1, 0, sim.now_ns);
    }
}

/* Returns true when both applications have sent and received everything, and have closed. */
static bool is_done(void)
{
    return sim.endpoints[0].halves[0].state == HALF_DONE && sim.endpoints[1].halves[0].state == HALF_DONE;
}

static void transfers_through(struct network_faults faults, uint64_t limit_s, bool sack, bool timestamps)
{
    struct tcp_policy policy;
    tcp_policy_default(&policy);
    policy.sack = sack;
    policy.timestamps = timestamps;
    faults.delay_least_ns = 5 * NS_PER_MS;
    faults.delay_most_ns = (faults.reorder != 0 ? 25 : 5) * NS_PER_MS;
    open_both(&faults, &policy);
    for (simulator_play(&sim); !is_done(); simulator_play(&sim))
        assert_true(simulator_advance(&sim, UINT64_MAX, BEGIN_NS + limit_s * NS_PER_S));
    printf("lost %u, reordered %u in 10,000, sack %d, timestamps %d: %.3f s, %llu frames\n", faults.lose,
           faults.reorder, sack, timestamps, (double)(sim.now_ns - BEGIN_NS) / 1e9,
           (unsigned long long)sim.network.frames);
    for (int i = 0; i < 2; i++) {
        assert_false(sim.endpoints[i].halves[0].broken);
        assert_int_equal(sim.endpoints[i].halves[0].read, BYTES); /* compared byte by byte */
    }
    sim.network.perfect_from_ns = sim.now_ns;
    for (uint64_t end_ns = sim.now_ns + AFTERWARDS_NS; simulator_advance(&sim, UINT64_MAX, end_ns);)
        simulator_play(&sim);
    simulator_play(&sim);
    for (int i = 0; i < 2; i++) {
        assert_null(endpoint_leftover(&sim.endpoints[i]));
        assert_int_equal(net_next_deadline_ns(sim.endpoints[i].stack), UINT64_MAX);
        endpoint_close(&sim.endpoints[i]);
    }
}

TEST(transfers_through_loss_and_reordering)
{
    static const struct {
        struct network_faults faults;
        uint64_t limit_s;
    } cases[] = {
        { { 0 }, 5 },
        { { .lose = 100 }, 20 },
        { { .lose = 500 }, 60 },
        { { .lose = 2000 }, 2000 },
        { { .reorder = 3000 }, 60 },
        { { .lose = 300, .reorder = 1000 }, 60 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        for (int options = 0; options < 4; options++)
            transfers_through(cases[i].faults, cases[i].limit_s, options & 1, options & 2);
}
