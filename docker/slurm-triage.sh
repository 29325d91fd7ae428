#!/bin/sh
# The checkout of the project is mounted at /opt/slurm-triage: what is edited there is what runs here.
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt/slurm-triage exec python3 -m slurm_triage "$@"
