"""What rules of a site may ask: lines of named signatures, with their citations, held against the job's nodes and time.

This is the interface that `docs/howto/add-site-knowledge.md` promises; rules of the program ask the topics beside it.
"""

from __future__ import annotations

from slurm_triage.attempts import Attempt
from slurm_triage.facts._kernel import HOW as KERNEL_HOW
from slurm_triage.facts._kernel import Kernel
from slurm_triage.facts._logic import true, unknown
from slurm_triage.facts._place import Place
from slurm_triage.facts.log import Log
from slurm_triage.facts.proof import Proof
from slurm_triage.facts.telling import Telling
from slurm_triage.model import Fact, Sign, Voice
from slurm_triage.sources._catalog import Signature, folders, load

OUTPUT = frozenset({"program", "slurm"})
"""Catalogs of lines of the job's own output: where that was read whole, a line that is not there is false."""
HOW = "read the log that holds such lines: {where}"
DATED = "read the kernel log, and the daemons' logs, with the date and zone of each line"


class Site:
    """Lines of signatures, by id: of the site's own and of the program's."""

    def __init__(
        self, attempt: Attempt, place: Place, log: Log, telling: Telling, kernel: Kernel, proof: Proof
    ) -> None:
        self.attempt = attempt
        self.place = place
        self.log = log
        self.telling = telling
        self.kernel = kernel
        self.proof = proof

    def lines(self, *ids: str) -> tuple[Sign, ...]:
        """Lines of these signatures that belong to the job, in the order of files and lines.

        Lines of the job's output are the job's; those of kernel and daemons are where they name it, or fall into its
        time on its nodes (or where the evidence has no times and nodes of a job at all: an excerpt). Raises `KeyError`
        for an id that no signature has.
        """
        for id in ids:
            _family(id)
        placed = self.kernel.of(*ids)
        kernel = {(w.sign.cite.file, w.sign.cite.line) for w in placed if w.place in ("inside", "alone")}
        return tuple(s for s in self.log.of(*ids) if self._belongs(s, (s.cite.file, s.cite.line) in kernel))

    def _belongs(self, sign: Sign, kernel: bool) -> bool:
        if sign.voice is Voice.KERNEL:
            return kernel
        if sign.job is not None or sign.cite.source not in ("slurmctld_log", "slurmd_log"):
            return True
        return self.place.surely_ours(sign)

    def seen(self, *ids: str) -> Fact:
        """Whether such a line was seen, with the lines. A line of a program may have been survived, or quoted: it is a
        support, never a confirm (`ended_on` may be one).

        False only for lines of the job's output, where that was read whole; else a line that was not seen is unknown.
        Raises `KeyError` for an id that no signature has.
        """
        families = [_family(id) for id in ids]
        says = families[0][1].meaning.rstrip(".") if families else "a line of this site's signatures was seen"
        found = self.lines(*ids)
        if found:
            return true(says, [*found[:3], found[-1]])
        if self.log.of(*ids):
            return unknown(says, "such lines are there, but not surely of this job's nodes and time", DATED)
        catalogs = {folder for folder, _ in families}
        if catalogs <= OUTPUT:
            return self.log.has(says, *ids)
        how = KERNEL_HOW if catalogs == {"kernel"} else HOW.format(where=", ".join(sorted(catalogs)))
        return unknown(says, "no such line was seen", how)

    def last_word(self, *ids: str) -> Fact:
        """As `seen`, and the program named no other error after it: else it outlived the line. A support."""
        seen = self.seen(*ids)
        if not seen.holds:
            return seen
        return self.telling.last_of(f"{seen.says}, and names no other error after it", self.lines(*ids))

    def ended_on(self, *ids: str, died_of: tuple[int, ...] = ()) -> Fact:
        """The job ended on such a line of its output, and nothing that was read speaks against it (decision 12).

        May confirm a cause, for lines that no other cause prints. `died_of`: signals that belong to that end.
        """
        says = f"{self.seen(*ids).says}; the job ended on that, and nothing else speaks"
        return self.proof.ended_on(says, self.lines(*ids), died_of=died_of)

    def value(self, id: str, group: str) -> str | None:
        """The named group of the first such line, None if there is no line or the group took no part."""
        return next((s.fields[group] for s in self.lines(id) if group in s.fields), None)


def _family(id: str) -> tuple[str, Signature]:
    """The catalog and the signature of an id. Raises `KeyError`."""
    for folder in folders():
        for signature in load(folder).signatures:
            if signature.id == id:
                return folder, signature
    raise KeyError(f"no signature has the id {id!r}")
