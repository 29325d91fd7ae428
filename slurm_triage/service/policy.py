"""Of which attempts users get a file: not of what they know already, and not where the site or the user says no."""

from __future__ import annotations

from slurm_triage.service.config import Settings
from slurm_triage.service.judge import AttemptText


def why_no_file(attempt: AttemptText, settings: Settings) -> str:
    """Why no file is written of the attempt; empty if one is."""
    reasons = (
        (not settings.files, "this site writes no files (files = false)"),
        (not attempt.bad, "nothing went wrong"),
        (attempt.own_scancel and not settings.file_own_scancel, "its owner cancelled it"),
        (attempt.interactive and not settings.file_interactive, "it had no batch script: its owner saw its end"),
        (attempt.cause in settings.no_file_causes, f"this site writes none of {attempt.cause}"),
        (attempt.user in settings.no_file_users and attempt.user != "", f"user {attempt.user} gets none"),
        (
            bool(settings.opt_out) and settings.opt_out in attempt.comment.split(),
            f"its comment says {settings.opt_out}",
        ),
    )
    return next((why for holds, why in reasons if holds), "")
