"""Labelled jobs: five archives of evidence folders, read by `tests.corpus.load`."""
