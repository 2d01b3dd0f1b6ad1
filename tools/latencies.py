"""Quantiles and histograms of latencies, for boards and measurements."""
import math

BINS_A_DECADE = 8           # web/page/live.js draws them
DECADES = (1, 7)            # 10 us to 10 s


def quantile(ordered, share):
    """Returns the smallest value that at least this share of the values, in percent, does not exceed."""
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)] if ordered else 0


def histogram(latencies_us):
    """Shares of the latencies in bins of equal width on a log axis, in percent."""
    low, high = DECADES
    counts = [0] * ((high - low) * BINS_A_DECADE)
    for us in latencies_us:
        place = int((math.log10(max(us, 1)) - low) * BINS_A_DECADE)
        counts[min(max(place, 0), len(counts) - 1)] += 1
    total = max(len(latencies_us), 1)
    return [round(100 * count / total, 2) for count in counts]
