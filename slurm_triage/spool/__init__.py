"""The reader's side of the spool of docs/reference/spool.md: takes what the witnesses of a job's end wrote.

Standard library only, and Python 3.9 is enough: the agent on a node imports nothing else of this project. Nothing here
follows a symbolic link, reads what is not a plain file of the spool's owner, or overwrites anything.
"""

from slurm_triage.spool._folders import PLACES, NoSpool, SpoolError, usual_owner
from slurm_triage.spool._limits import Limits, Trimmed
from slurm_triage.spool._reader import Recovered, Spool
from slurm_triage.spool._records import KINDS, Record, variables
from slurm_triage.spool._state import Folder, State

__all__ = [
    "KINDS",
    "PLACES",
    "Folder",
    "Limits",
    "NoSpool",
    "Record",
    "Recovered",
    "Spool",
    "SpoolError",
    "State",
    "Trimmed",
    "usual_owner",
    "variables",
]
