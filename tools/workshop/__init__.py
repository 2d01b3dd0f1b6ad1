"""Builds, checks and measures the tree. Its machines play against the servers and answer the operator's commands."""
