"""Patterns over many jobs: pure statistics, no SQL and no text for people."""
