"""`python -m slurm_triage` is `slurm-triage`."""

import sys

from slurm_triage.cli import main

sys.exit(main())
