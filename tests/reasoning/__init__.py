"""Whole cases, made by hand, for the reasoning: what must be said, and what must not be."""
