"""The agent on compute nodes and on the controller's host: brings evidence to the service and diagnoses to users.

Standard library only, and Python 3.9 is enough. Of this project it imports `spool`, `transport`, `sections` and a few
small modules (tests/test_architecture.py lists them), nothing else. One file an idea: `records` (what this node's own
records say of a job), `collect` (one file for each kind of evidence), `gather` (from the spool to the outbox),
`evidence` (what is handed over), `drawer` (files that survive the agent), `target` (where a diagnosis goes), `exchange`
(the talk with the service), `as_user` (a child that becomes the user for good), `deliver` (the file beside the job's
output), `agent` (one activation), `gentle` (it steps back for jobs), `config`, `cli`.
"""
