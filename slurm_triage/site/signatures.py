"""What a signature of a site has to be before it may look at lines. Whether it is a good one, `check-rules` says."""

from __future__ import annotations

import re
from importlib import resources

from slurm_triage.model import Voice
from slurm_triage.site.causes import Bad
from slurm_triage.site.lines import line_of, line_with
from slurm_triage.sources._catalog import Signature, folders

BY_VOICE = {
    Voice.KERNEL: "kernel",
    Voice.SLURM: "slurm",
    Voice.PROGRAM: "program",
    Voice.KUBERNETES: "kubernetes",
}
"""The catalog of a signature that lies in no folder of its own."""
_VOICES = {"slurmctld": Voice.SLURM, "slurmd": Voice.SLURM} | {name: voice for voice, name in BY_VOICE.items()}
SHORTEST_HINT = 3


def own_ids() -> set[str]:
    """The ids of the program's own signatures, which are the names of their files."""
    root = resources.files("slurm_triage.sources").joinpath("catalog")
    files = (entry.name for name in folders() for entry in root.joinpath(name).iterdir())
    return {name.removesuffix(".toml") for name in files if name.endswith(".toml")}


def checked(signature: Signature, text: str, stem: str, folder: str) -> None:
    """Raises `Bad` for a signature that cannot be used."""
    if signature.id != stem or not re.fullmatch(r"[a-z][a-z0-9_]{2,79}", signature.id):
        raise Bad(
            f"the id {signature.id!r} has to be the name of the file without .toml, of small letters, digits and _",
            line_of(text, "id"),
        )
    if _VOICES[folder] is not signature.voice:
        raise Bad(f"the voice of {folder} is {_VOICES[folder].value}", line_of(text, "voice"))
    for hint in signature.hints:
        if len(hint) < SHORTEST_HINT or not re.search(r"[^\s\d]", hint):
            why = "a hint has three characters or more, and one that is no digit and no blank"
            raise Bad(f"the hint {hint!r} filters nothing: {why}", line_of(text, "hints"))
    for number, form in enumerate(signature.forms, 1):
        try:
            form.pattern  # noqa: B018 (compiles it)
        except (re.error, RecursionError, OverflowError) as error:
            raise Bad(f"form {number}: not a regular expression: {error}", line_with(text, form.regex)) from error
