"""The command `slurm-triage`. Exit status: 0 a diagnosis was made, 2 bad usage or unreadable input, 3 no evidence."""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_triage import __version__

# All else is imported where it is used: people wait for a diagnosis, and most of the time would be spent with imports.
if TYPE_CHECKING:
    from slurm_triage.case import EvidenceFile
    from slurm_triage.engine import Study
    from slurm_triage.live import Gathered
    from slurm_triage.model import Coverage, Diagnosis
    from slurm_triage.sources._finder import Found

OK, UNREADABLE, NO_EVIDENCE = 0, 2, 3
SELDOM = 50_000
"""New objects between two searches for garbage: imports and rules make many objects, which all stay."""
SHOW_PROGRESS_FROM = 20
"""Folders from which a counter is shown on a terminal."""


def _parser(verb: str = "") -> argparse.ArgumentParser:
    """The parser of the whole command; when one of `_VERBS` was typed, of these alone."""
    parser = argparse.ArgumentParser(prog="slurm-triage", description="Why did this Slurm job die, and who has to act?")
    parser.add_argument("--version", action="version", version=f"slurm-triage {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    diagnose = verbs.add_parser(
        "diagnose",
        help="diagnose a job of this cluster, or one whose evidence lies in a folder, in files or in pasted text",
        description="Diagnose a job of this cluster by its id, one job from files and pasted text, or jobs from "
        "folders of evidence. Exit status: 0 a diagnosis was made (also 'unknown'), 2 bad usage, Slurm could not be "
        "asked, or a file, folder or target that cannot be used, 3 no such job or no evidence in what was given.",
    )
    diagnose.add_argument(
        "what",
        metavar="JOBID|FILE|-",
        nargs="*",
        help="a job: 123, 123_4 (array task) or 123+1 (het component); or files with anything that tells of one job: "
        "its output, dmesg, tables of sacct, a copied terminal (- is standard input)",
    )
    diagnose.add_argument("--evidence", metavar="DIR", nargs="+", action="extend", default=[], type=Path)
    diagnose.add_argument(
        "--save",
        metavar="DIR",
        type=Path,
        help="with JOBID: keep what was gathered as an evidence folder, new or empty",
    )
    diagnose.add_argument(
        "--format",
        choices=("text", "json", "brief"),
        default="text",
        help="text: a page for people; json: the whole diagnosis (one object, with several folders one a line); "
        "brief: one line a job",
    )
    diagnose.add_argument("--explain", action="store_true", help="show every rule that was considered and why")
    diagnose.add_argument("--record", action="store_true", help="put the diagnosis into the history")
    diagnose.add_argument(
        "--db",
        metavar="FILE",
        type=Path,
        default=Path(os.environ.get("SDIAG_HISTORY") or "/var/lib/slurm-triage/history.sqlite"),
        help="history file of --record (default: $SDIAG_HISTORY, else %(default)s)",
    )
    diagnose.add_argument(
        "--knowledge",
        metavar="DIR",
        help="folder of what this site adds: signatures, causes and rules; none: only what slurm-triage knows itself "
        "(default: $SLURM_TRIAGE_KNOWLEDGE, else /etc/slurm-triage/knowledge.d)",
    )
    diagnose.add_argument("--output-dir", metavar="DIR", type=Path, help="write <jobid>.diagnosis.txt into DIR")
    explain_verb = verbs.add_parser(
        "explain",
        help="say what a cause, exit code, signal, state or message number means",
        description="Say what a word means: a cause (memcg_oom), an exit code (137, -9, 0:125, 9:0), a signal "
        "(SIGBUS), a state (PREEMPTED), a term (CONSTRAINT_NONE, KillWait), a signature (slurm_time_limit), 'xid 79', "
        "'sxid 12028'. Exit status: 0 all words are known, 2 one is not.",
    )
    explain_verb.add_argument("words", metavar="WORD", nargs="+")
    explain_verb.add_argument("--json", action="store_true", help="print JSON")
    bundle = verbs.add_parser(
        "bundle",
        help="put the evidence of a job into one file for a bug report",
        description="Put the evidence of one job, its diagnosis and a list of contents into one .tar.gz. Exit status: "
        "0 the bundle was written, 2 bad usage, evidence that cannot be read or a file that cannot be written, 3 no "
        "such job or no evidence.",
    )
    bundle.add_argument("job", metavar="JOBID", nargs="?", help="a job of this cluster: 123, 123_4 or 123+1")
    bundle.add_argument("--evidence", metavar="DIR", type=Path, help="a folder of evidence instead")
    bundle.add_argument(
        "--redact",
        action="store_true",
        help="replace users, groups, accounts, job names, hosts, paths, addresses, numbers of users and secrets",
    )
    bundle.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="new file to write (default: slurm-triage-<jobid>.tar.gz in the current folder)",
    )
    if verb not in _VERBS:
        for name in _OTHERS.values():
            importlib.import_module(name).add_verb(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    if argv is None:
        gc.set_threshold(SELDOM)
    words = sys.argv[1:] if argv is None else argv
    options = _parser(words[0] if words else "").parse_args(words)
    try:
        status = _run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def _run(options: argparse.Namespace) -> int:
    if options.verb in _VERBS:
        return _VERBS[options.verb](options)
    status: int = importlib.import_module(_OTHERS[options.verb]).run(options, _complain)
    return status


def _diagnose(options: argparse.Namespace) -> int:
    jobs, files = _jobs_and_files(options.what)
    folders: list[Path] = options.evidence
    if not jobs and not files and not folders:
        _complain("diagnose: name a JOBID, a FILE (- for standard input), or a folder with --evidence DIR.")
        return UNREADABLE
    if options.save is not None and len(jobs) != 1:
        _complain("diagnose: --save keeps what was gathered about one JOBID.")
        return UNREADABLE
    if not _know(options.knowledge):
        return UNREADABLE
    total = len(jobs) + bool(files) + len(folders)
    looks: list[Callable[[], tuple[Study | None, int]]] = [partial(_of_job, job, options.save) for job in jobs]
    looks += [partial(_of_files, files)] if files else []
    looks += [partial(_of_folder, folder) for folder in folders]
    failed, made = False, 0
    for count, look in enumerate(looks, 1):
        _progress(count, total)
        found, status = _one_of(look, several=total > 1)
        failed |= status == UNREADABLE
        if found is None:
            continue
        made += 1
        _print(found, options, several=total > 1)
        failed |= not _keep(found, options)
    if failed:
        return UNREADABLE
    return OK if made else NO_EVIDENCE


def _one_of(look: Callable[[], tuple[Study | None, int]], *, several: bool) -> tuple[Study | None, int]:
    """One of the things to look at. A fault of ours in one of several must not cost the others; alone it is shown."""
    try:
        return look()
    except Exception as error:
        if not several:
            raise
        name = getattr(look, "args", ("?",))[0]
        _complain(
            f"{name}: a fault in slurm-triage ({type(error).__name__}: {error}); the others go on. "
            "Please report it with `slurm-triage bundle --redact`."
        )
        return None, UNREADABLE


def _know(named: str | None) -> bool:
    """Puts the site's knowledge in force. False, and said, where somebody named a folder that cannot be used."""
    from slurm_triage import site

    found = site.use(named)
    whole = [problem for problem in found.problems if not problem.file] if found else []
    if whole and named:
        _complain(f"--knowledge: {whole[0].what}.")
    return not (whole and named)


def _jobs_and_files(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """What was named, each once. Whatever exists is a file; a job id that is no file is a job."""
    if not words:
        return [], []
    from slurm_triage import live

    jobs = [word for word in dict.fromkeys(words) if live.job_id(word) is not None and not Path(word).exists()]
    return jobs, [word for word in dict.fromkeys(words) if word not in jobs]


def _of_files(names: Sequence[str]) -> tuple[Study | None, int]:
    """The study of all files together, as of one job, and the exit status that it stands for."""
    from slurm_triage import paste
    from slurm_triage.case import EvidenceFile

    files: list[EvidenceFile] = []
    for name in names:
        path = Path(name)
        if name == "-":
            files.append(EvidenceFile("-", data=sys.stdin.buffer.read(paste.TEXT_LIMIT + 1)))
        elif path.is_dir():
            _complain(f"{name}: is a folder. For a folder of evidence use --evidence {name}.")
            return None, UNREADABLE
        elif path.is_file():
            files.append(EvidenceFile(name, path))
        else:
            _complain(f"{name}: neither a file nor a job id (123, 123_4 or 123+1).")
            return None, UNREADABLE
    try:
        found = paste.diagnose(files, _scan)
    except OSError as error:
        _complain(f"{error.filename or 'a file'}: cannot be read: {error.strerror or error}.")
        return None, UNREADABLE
    return _with_evidence(found, f"{', '.join(names)}: nothing in it")


def _of_folder(folder: Path) -> tuple[Study | None, int]:
    """The study of an evidence folder, and the exit status that it stands for."""
    from slurm_triage.case import read
    from slurm_triage.engine import study

    try:
        found = study(read(folder), _scan)
    except OSError as error:
        _complain(f"{folder}: cannot be read: {error.strerror or error}. Name a folder that holds evidence files.")
        return None, UNREADABLE
    return _with_evidence(found, f"{folder}: no file in it")


def _scan(file: EvidenceFile, literals: Sequence[bytes]) -> Iterator[Found]:
    from slurm_triage import grep

    return grep.scan(file, literals)


def _with_evidence(found: Study, nothing: str) -> tuple[Study | None, int]:
    """The study, unless nothing was recognised: then a complaint that starts with `nothing`."""
    if found.evidence_found:
        return found, OK
    _complain(
        f"{nothing} was recognised as evidence. "
        "The kinds that are understood are listed in docs/reference/evidence-folder.md."
    )
    return None, NO_EVIDENCE


def _of_job(job: str, save: Path | None) -> tuple[Study | None, int]:
    """The study of a job of this cluster, and the exit status that it stands for."""
    gathered, status = _gathered(job)
    if gathered is None:
        return None, status
    if save is not None:
        try:
            gathered.save(save)
        except OSError as error:
            _complain(f"{save}: the evidence could not be kept: {error.strerror or error}.")
            status = UNREADABLE
    from slurm_triage.engine import study_events

    events, coverage = gathered.parse()
    return study_events(events, coverage, gathered.case()), status


def _gathered(job: str) -> tuple[Gathered | None, int]:
    """What this cluster shows of a job, and the exit status that it stands for."""
    from slurm_triage import live

    if live.job_id(job) is None:
        _complain(f"{job}: not a job id. Job ids are 123, 123_4 (task of an array) and 123+1 (component of a het job).")
        return None, UNREADABLE
    try:
        return live.gather(job), OK
    except live.NotFound as error:
        _complain(f"job {job}: Slurm shows no such job: {error}.")
        return None, NO_EVIDENCE
    except live.CannotLook as error:
        _complain(f"job {job}: Slurm could not be asked: {error}.")
        return None, UNREADABLE


def _explain(options: argparse.Namespace) -> int:
    from slurm_triage import explain as words

    _know(None)
    found, unknown = words.ask(options.words)
    if options.json:
        print(json.dumps(words.document(found, unknown), ensure_ascii=True, indent=2))
    elif found:
        print(words.render(found), end="")
    for word in unknown:
        near = words.suggest(word)
        _complain(
            f"{word[: words.WORD_LIMIT]}: not known here." + (f" Did you mean {' or '.join(near)}?" if near else "")
        )
    return UNREADABLE if unknown else OK


def _bundle(options: argparse.Namespace) -> int:
    from slurm_triage import bundle

    if (options.job is None) == (options.evidence is None):
        _complain("bundle: name either a JOBID or a folder with --evidence DIR.")
        return UNREADABLE
    notes: tuple[Coverage, ...] = ()
    missing: list[tuple[str, str]] = []
    if options.job is not None:
        gathered, status = _gathered(options.job)
        if gathered is None:
            return status
        files: Mapping[str, bytes] = gathered.files
        notes = gathered.notes
    else:
        try:
            files, missing = bundle.files_of(options.evidence)
        except OSError as error:
            _complain(f"{options.evidence}: cannot be read: {error.strerror or error}.")
            return UNREADABLE
    if not files:
        _complain(f"{options.evidence or options.job}: there is no evidence to put into a bundle.")
        return NO_EVIDENCE
    made = bundle.make(files, redacted=options.redact, missing=missing, notes=notes)
    path: Path = options.output or Path(made.name)
    try:
        bundle.write(made, path)
    except OSError as error:
        _complain(f"{path}: cannot be written: {error.strerror or error}. Name another file with -o.")
        return UNREADABLE
    for kind, count in made.contents["replaced"].items():
        print(f"{kind}: {count['distinct']} replaced, in {count['times']} places")
    for problem in made.problems:
        _complain(problem)
    print(f"{path}: {len(made.contents['files'])} files, {len(made.data)} bytes")
    return OK


def _print(found: Study, options: argparse.Namespace, *, several: bool) -> None:
    diagnosis = found.diagnosis
    if options.format == "json":
        from slurm_triage.report.document import document

        text = json.dumps(document(diagnosis), ensure_ascii=True, indent=None if several else 2)
    elif options.format == "brief":
        from slurm_triage.report.brief import brief

        text = brief(diagnosis)
    else:
        from slurm_triage.report.text import render

        text = render(diagnosis).rstrip("\n")
    if options.explain and options.format != "json":
        from slurm_triage.report.explain import explain

        text += "\n\n" + "\n".join(explain(part).rstrip("\n") for part in diagnosis.parts or (diagnosis,))
    print(text + ("\n" if several and options.format == "text" else ""))


def _keep(found: Study, options: argparse.Namespace) -> bool:
    """Record and deliver as asked; False when something could not be kept (said on stderr)."""
    good = True
    if options.record:
        good = _record(found, options.db)
    if options.output_dir is not None:
        from slurm_triage.engine import ended_badly

        parts = found.diagnosis.parts or (found.diagnosis,)
        for part in (p for p in parts if ended_badly(p)):
            good = _deliver(part, options.output_dir) and good
    return good


def _record(found: Study, path: Path) -> bool:
    from slurm_triage.history.database import HistoryError
    from slurm_triage.history.store import History
    from slurm_triage.recording import record

    try:
        with History.open(path) as history:
            if record(history, found) == 0:
                _complain("not recorded: the evidence names no job id.")
    except HistoryError as error:
        _complain(str(error))
        return False
    return True


def _deliver(part: Diagnosis, directory: Path) -> bool:
    from slurm_triage.report.delivery import Refused, deliver
    from slurm_triage.report.text import render

    try:
        deliver(directory, part, render(part))
    except Refused as error:
        _complain(f"not written: {error}")
        return False
    except OSError as error:
        _complain(f"{directory}: the diagnosis could not be written: {error.strerror or error}.")
        return False
    return True


def _progress(count: int, total: int) -> None:
    if total >= SHOW_PROGRESS_FROM and sys.stderr.isatty():
        print(f"\r{count}/{total} ", end="\n" if count == total else "", file=sys.stderr, flush=True)


def _complain(text: str) -> None:
    printable = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    print(f"slurm-triage: {printable}", file=sys.stderr)


_VERBS = {"diagnose": _diagnose, "explain": _explain, "bundle": _bundle}
_OTHERS = {
    "check-rules": "slurm_triage.check_rules_cli",
    "spool": "slurm_triage.spool_cli",
    "service": "slurm_triage.service_cli",
    "agent": "slurm_triage.node.cli",
    "doctor": "slurm_triage.doctor_cli",
    "install": "slurm_triage.install_cli",
}
"""Verbs that stand in modules of their own, each with `add_verb` and `run`."""
