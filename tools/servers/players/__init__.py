"""Sample players."""
