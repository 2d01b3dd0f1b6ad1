"""The judge of the trading soak finds each kind of order that is outside the limits, and no other."""
import types

import pytest

from tests.exchange.test_orders import cancel, enter, replace
from tests.soak.judge_trade import S_NS, Judge, Limits

LIMITS = Limits(shares=100, notional=100, collar=1, position=150, open=2, rate=4, in_flight=0)
BEGIN_NS, LAST = 36_000 * S_NS, 10_000
CASES = {
    "": [enter(1), replace(1, 2, 100, LAST - 100), cancel(2), enter(3, "S", 100, LAST), enter(4, "B", 100, LAST)],
    "shares": [enter(1, "B", 101, 9_900)],
    "notional": [enter(1, "B", 100, LAST + 1)],
    "collar": [enter(1, "B", 100, LAST - 101)],
    "position": [enter(1), enter(2)],
    "open": [enter(1, "B", 1), enter(2, "B", 1), enter(3, "B", 1)],
    "rate": [request for number in range(1, 6) for request in (enter(number), cancel(number))],
    "repeated": [enter(1), enter(1)],
    "unknown": [replace(1, 2, 100, LAST)],
}


@pytest.mark.parametrize("kind", CASES)
def test_judge_finds_an_order_outside_the_limits(kind):
    options = types.SimpleNamespace(symbols=["ACME"], seed="1", rate=0, orders_max=1, preopen=0, halt=[], kept=1000,
                                    account=[("TRADER", "SECRET")])
    judge = Judge(LIMITS, "SESSION001", BEGIN_NS, options)
    judge.day.step()
    judge.prices["ACME"].append((BEGIN_NS, LAST))
    for request in CASES[kind]:
        judge.take(judge.accounts["trader"], request, BEGIN_NS + S_NS)
    assert dict(judge.problems) == ({kind: 1} if kind else {}), judge.first
    judge.check()
