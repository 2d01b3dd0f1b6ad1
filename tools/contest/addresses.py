"""The share of one address in the contest: wrong passwords, and names where anybody may come. Knows no sockets."""
import collections
import logging
import time

LOG = logging.getLogger("contest")
WRONG_MAX = 20              # passwords at once; one more each second
NAMES_MAX = 100             # names of one address; contest/judge.py has the bound of all
ADDRESSES_MAX = 10_000      # are remembered; the one that was wrong longest ago is forgotten first
LOG_S = 60                  # between two lines about an address


class Addresses:
    def __init__(self, contest):
        self.contest = contest
        self.wrong = collections.OrderedDict()      # address -> (passwords that are left, monotonic s)
        self.logged = collections.OrderedDict()     # address -> monotonic s of the latest line

    def may_guess(self, ip):
        """Returns false if this address has to wait with its next password."""
        return self._left(ip) >= 1

    def note_wrong(self, ip):
        self.wrong[ip] = self._left(ip) - 1, time.monotonic()
        self.wrong.move_to_end(ip)
        if len(self.wrong) > ADDRESSES_MAX:
            self.wrong.popitem(last=False)
        if not self.may_guess(ip):
            self._log(ip, "%s sent more than %d wrong passwords; it has one more each second", WRONG_MAX)

    def may_begin_name(self, ip):
        """Returns false if this address has as many names as it may have."""
        if sum(ip in user.ips for user in self.contest.users.values()) < NAMES_MAX:
            return True
        self._log(ip, "%s has %d names; it gets no more", NAMES_MAX)
        return False

    def _left(self, ip):
        left, at = self.wrong.get(ip, (WRONG_MAX, 0))
        return min(left + time.monotonic() - at, WRONG_MAX)

    def _log(self, ip, text, count):
        now = time.monotonic()
        if now - self.logged.get(ip, -LOG_S) >= LOG_S:
            LOG.warning(text, ip, count)
            self.logged[ip] = now
            self.logged.move_to_end(ip)
            if len(self.logged) > ADDRESSES_MAX:
                self.logged.popitem(last=False)
