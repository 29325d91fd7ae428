"""Tests of slurm-triage; also the labelled corpus (`tests.corpus`), the scoring and the benchmarks run from here."""
