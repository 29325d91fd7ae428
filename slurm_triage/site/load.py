"""The folder of a site's knowledge, read: what can be used, and a problem for each file that cannot."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slurm_triage import extension
from slurm_triage.causes import Cause
from slurm_triage.extension import Extension
from slurm_triage.model import Coverage
from slurm_triage.rules import Rule
from slurm_triage.site import safe
from slurm_triage.site.causes import Bad, causes_of
from slurm_triage.site.lines import line_of
from slurm_triage.site.rules import forget, rules_in
from slurm_triage.site.signatures import BY_VOICE, checked, own_ids
from slurm_triage.site.stop import TookTooLong, stopped_after
from slurm_triage.sources._catalog import CatalogError, Signature, folders, signature_of

SIGNATURES, RULES, CAUSES, CASES = "signatures", "rules", "causes.toml", "cases"
SECONDS = 10.0
"""What reading one file may take; a rule's file is run."""
MOST_PROBLEMS = 20
"""Problems that each diagnosis names; `check-rules` names all."""
STEM = re.compile(r"_?[a-z][a-z0-9_]{0,79}")


@dataclass(frozen=True)
class Problem:
    """Why a file, or a part of it, is not used. `file` is below the folder, empty for the folder; `line` None if the
    file as a whole is meant."""

    file: str
    what: str
    line: int | None = None

    @property
    def place(self) -> str:
        """`rules/x.py:12`."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Knowledge:
    """What was read. `texts` are by file, below the folder; `of` says which file a signature or cause is from."""

    folder: Path
    extension: Extension
    problems: tuple[Problem, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    of: Mapping[str, str] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """What is in force, in a few words."""
        signatures = sum(map(len, self.extension.signatures.values()))
        return f"{signatures} signatures, {len(self.extension.causes)} causes, {len(self.extension.rules)} rules"


def load(folder: Path) -> Knowledge:
    """What can be used of a folder. Never raises: everything else is a problem. Nothing is put in force."""
    return _Reader(folder).knowledge()


class _Reader:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.signatures: dict[str, list[Signature]] = {}
        self.causes: dict[str, Cause] = {}
        self.rules: list[Rule] = []
        self.of: dict[str, str] = {}
        self.own = own_ids()

    def knowledge(self) -> Knowledge:
        """Reads and sorts; files first, so that a name that clashes is found whatever comes first."""
        forget()
        self._read()
        for file in sorted(name for name in self.texts if name.startswith(f"{SIGNATURES}/")):
            self._guarded(file, self._signature)
        if CAUSES in self.texts:
            self._guarded(CAUSES, self._causes)
        for file in sorted(name for name in self.texts if name.startswith(f"{RULES}/")):
            self._guarded(file, self._rules)
        signatures = {name: tuple(found) for name, found in self.signatures.items()}
        told = tuple(_coverage(problem) for problem in self.problems[:MOST_PROBLEMS])
        made = Extension(signatures, self.causes, tuple(self.rules), told)
        return Knowledge(self.folder, made, tuple(self.problems), self.texts, self.of)

    # -------------------------------------------------------------------------------------------- files

    def _read(self) -> None:
        try:
            real = safe.check_way(self.folder)
            with safe.opened(real, str(self.folder)) as top:
                for name in safe.names(top, str(self.folder)):
                    if name == CAUSES:
                        self._file(name, name, top)
                    elif name == RULES:
                        self._folder(name, name, top, ".py")
                    elif name == SIGNATURES:
                        self._folder(name, name, top, ".toml", deeper=True)
        except FileNotFoundError:
            self._bad("", f"{self.folder}: there is no such folder")
        except (safe.Unsafe, OSError) as error:
            self._bad("", str(error))

    def _folder(self, name: str, shown: str, above: int, suffix: str, *, deeper: bool = False) -> None:
        try:
            with safe.opened(name, shown, above) as folder:
                for entry in safe.names(folder, shown):
                    if entry.endswith(suffix):
                        self._file(entry, f"{shown}/{entry}", folder)
                    elif deeper and entry in folders():
                        self._folder(entry, f"{shown}/{entry}", folder, suffix)
                    else:
                        self._bad(f"{shown}/{entry}", f"is not used: files here end in {suffix}")
        except (safe.Unsafe, OSError) as error:
            self._bad(shown, str(error))

    def _file(self, name: str, shown: str, folder: int) -> None:
        try:
            self.texts[shown] = safe.read(name, shown, folder)
        except safe.Unsafe as error:
            self._bad(shown, str(error))

    def _bad(self, file: str, what: str, line: int | None = None) -> None:
        self.problems.append(Problem(file, what, line))

    def _guarded(self, file: str, work: Callable[[str, str], None]) -> None:
        """One file: whatever it does wrong is its own problem."""
        try:
            with stopped_after(SECONDS, waiting=True):
                work(file, self.texts[file])
        except TookTooLong as error:
            here = str(self.folder / file)
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == here]
            what = f"was stopped after {SECONDS:g} s: running the file has to define rules and no more"
            self._bad(file, what, lines[-1] if lines else None)
        except Bad as error:
            self._bad(file, str(error), error.line)
        except (Exception, SystemExit) as error:
            self._bad(file, f"{type(error).__name__}: {error}")

    # -------------------------------------------------------------------------------------------- contents

    def _signature(self, file: str, text: str) -> None:
        try:
            signature = signature_of(text, file)
        except CatalogError as error:
            what = str(error).removeprefix(f"{file}: ")
            raise Bad(what, line_of(text, what)) from error
        parts = file.split("/")
        folder = parts[1] if len(parts) == 3 else BY_VOICE[signature.voice]
        checked(signature, text, Path(file).stem, folder)
        if signature.id in self.own:
            raise Bad(f"the id {signature.id} is one of the program's own signatures", line_of(text, "id"))
        if signature.id in self.of:
            raise Bad(f"the id {signature.id} is that of {self.of[signature.id]}, too", line_of(text, "id"))
        self.of[signature.id] = file
        self.signatures.setdefault(folder, []).append(signature)

    def _causes(self, file: str, text: str) -> None:
        for found in causes_of(text):
            if isinstance(found, Bad):
                self._bad(file, str(found), found.line)
            else:
                self.causes[found.id] = found

    def _rules(self, file: str, text: str) -> None:
        if not STEM.fullmatch(Path(file).stem):
            raise Bad("the name of a rule's file is made of small letters, digits and _")
        for found in rules_in(file, str(self.folder / file), text, self.causes):
            if isinstance(found, Bad):
                self._bad(file, str(found), found.line)
            else:
                self.rules.append(found)


def _coverage(problem: Problem) -> Coverage:
    return Coverage(f"{extension.PREFIX}{problem.place}".rstrip(": "), None, note=f"not used: {problem.what}"[:300])


def told(problems: Iterable[Problem]) -> list[str]:
    """Each problem as a sentence with its place."""
    return [f"{problem.place}: {problem.what}" if problem.file else problem.what for problem in problems]
