"""slurm-triage: why did this Slurm job die, and who has to act?"""

__version__ = "0.1.0"
