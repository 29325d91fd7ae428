"""The service: learns of jobs that ended badly, diagnoses them, records them, and hands out texts for their users.

It needs no privilege beyond seeing the jobs, and nothing on the nodes: with agents there it knows more, and sooner. One
file an idea. Rounds: `ask` (what Slurm says of many jobs at once), `glance` (one look at a job's accounting),
`assemble` (what its nodes sent, by attempt), `patience` (when accounting is believed), `judge` and `pool` (diagnoses),
`round` (some jobs), `sweep` (which jobs), `loop` (rounds until told to stop), `ledger` (what is done, kept over
restarts). Agents: `listener` (the port), `mailroom` and `mailbox` (the shared folder), `answering` (what is said to
whom), `admit`, `of_host`, `gate` and `peers` (who is
believed about what), `intake` (evidence on disk). Users: `policy`,
`publish`, `texts`. And `config`, `notify` (systemd), `metrics` (Prometheus).
"""
