"""Knowledge of a site: signatures, causes and rules that its administrators put into a folder.

    signatures/<id>.toml            as slurm_triage/sources/catalog, the folder of the catalog by its `voice`
    signatures/<catalog>/<id>.toml  the same, for slurmctld and slurmd
    causes.toml                     as slurm_triage/causes.toml
    rules/<cause>.py                as slurm_triage/rules
    cases/<name>/                   evidence and `case.toml` with what must be said of it: their tests

`use` puts a folder in force for this process. Rules are Python and run with the rights of whoever judges, so a file is
read only if nobody but root and the running user can change it (`safe`). A file that cannot be used stops no other one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_triage import extension

if TYPE_CHECKING:
    from slurm_triage.site.load import Knowledge

DEFAULT = Path("/etc/slurm-triage/knowledge.d")
"""The folder that is looked into if none is named; it may be missing."""
VARIABLE = "SLURM_TRIAGE_KNOWLEDGE"
NONE = "none"
"""Named instead of a folder: the program's own knowledge only."""


def folder_of(named: str | None) -> Path | None:
    """The folder to use: the one that is named, else that of the environment, else the default; None for `none`."""
    word = named or os.environ.get(VARIABLE) or str(DEFAULT)
    return None if word == NONE else Path(word)


def use(named: str | None = None) -> Knowledge | None:
    """Puts the knowledge of a folder in force; returns what was read, None if there is none.

    Never raises: what cannot be used is among the problems. A default folder that is missing is no problem.
    """
    folder = folder_of(named)
    missing = folder == DEFAULT and not os.path.lexists(folder)
    if folder is None or missing:
        if extension.current() != extension.Extension():
            extension.use(extension.Extension())
        return None
    from slurm_triage.site.load import load  # reading and compiling costs nothing where there is nothing to read

    found = load(folder)
    extension.use(found.extension)
    return found
