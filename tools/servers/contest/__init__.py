"""The contest of the real rounds, as a library: stream, exact oracle, scoring, board, servers."""
