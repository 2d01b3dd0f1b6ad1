"""The share of one address in the contest: wrong passwords, and names where anybody may come. Knows no sockets."""
import collections
import logging
import time

LOG = logging.getLogger("contest")
WRONG_MAX = 20              # passwords at once; one more each second
GUESS_S = 1                 # between passwords of a connection whose address has none left
NAMES_MAX = 100             # names of one address; contest/judge.py has the bound of all
ADDRESSES_MAX = 10_000      # are remembered; the one that was wrong longest ago is forgotten first
LOG_S = 60                  # between two lines about an address


class Addresses:
    def __init__(self, contest):
        self.contest = contest
        self.wrong = collections.OrderedDict()      # place -> (passwords that are left, monotonic s)
        self.logged = collections.OrderedDict()     # address -> monotonic s of the latest line

    def may_guess(self, connection, name):
        """Returns false if this connection has to wait with a password for this name: for GUESS_S at most."""
        return (self._left(self._place(connection.ip, name)) >= 1 or
                time.monotonic() - connection.guessed_at >= GUESS_S)

    def note_wrong(self, connection, name):
        place = self._place(connection.ip, name)
        connection.guessed_at = time.monotonic()
        self.wrong[place] = max(self._left(place) - 1, 0), connection.guessed_at
        self.wrong.move_to_end(place)
        if len(self.wrong) > ADDRESSES_MAX:
            self.wrong.popitem(last=False)
        if self._left(place) < 1:
            self._log(connection.ip, "%s sent more than %d wrong passwords; a connection has one more a second",
                      WRONG_MAX)

    def _place(self, ip, name):
        """Returns who counts: the address, or a name that has been in the contest from there, for itself."""
        user = self.contest.users.get(name)
        return (ip, name) if user and ip in user.ips else ip

    def may_begin_name(self, ip):
        """Returns false if this address has as many names as it may have."""
        if sum(ip in user.ips for user in self.contest.users.values()) < NAMES_MAX:
            return True
        self._log(ip, "%s has %d names; it gets no more", NAMES_MAX)
        return False

    def _left(self, place):
        left, at = self.wrong.get(place, (WRONG_MAX, 0))
        return min(left + time.monotonic() - at, WRONG_MAX)

    def _log(self, ip, text, count):
        now = time.monotonic()
        if now - self.logged.get(ip, -LOG_S) >= LOG_S:
            LOG.warning(text, ip, count)
            self.logged[ip] = now
            self.logged.move_to_end(ip)
            if len(self.logged) > ADDRESSES_MAX:
                self.logged.popitem(last=False)
