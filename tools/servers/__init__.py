"""The other side of a program: the contest's server, the exchange, sample players, and the live pages of both."""
