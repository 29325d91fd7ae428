"""The shared history of diagnoses: one SQLite file, written by the service or by hand, read with `sdiag-history`.

`store` writes, `queries` reads, `database` opens the file and keeps its schema, `cli` is the command. The schema is
explained in docs/reference/history-schema.md. This file imports nothing: `sdiag-history list` has to be quick.
"""
