"""The service: sweeps accounting for jobs that ended badly, diagnoses them and records them in the history.

It needs nothing on the nodes and no privilege beyond seeing the jobs. One file an idea: `config` (settings), `ask`
(what Slurm says of many jobs at once), `judge` (one job), `ledger` (what is done, kept over restarts), `sweep` (one
round), `loop` (rounds until told to stop), `log`, `notify` (systemd) and `metrics` (Prometheus).
"""
