"""Commands of Slurm that know many jobs and answer fast: for a real service over accounting that tests write.

The folder is the database: `jobs/<shown id>.rows` and `.json` are what accounting says of a job, `ended` lists the
attempts that have ended. While a file `down` exists, slurmdbd does not answer. `calls` gets a line for each call.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.live.accounting import COLUMNS
from slurm_triage.service.ask import ENDED_FIELDS
from tests.bench.service import VERSION

BETWEEN = b"\x1f"
"""Between two fields of a row on disk: nothing that a recorded field holds."""

_SACCT = """#!{python} -SEs
import sys
root = {root!r}
words = sys.argv[1:]
with open(root + "/calls", "a") as calls:
    calls.write("sacct " + " ".join(words)[:200].replace("\\n", " ") + "\\n")
def after(name):
    return words[words.index(name) + 1]
out = sys.stdout.buffer
if "--version" in words:
    print("slurm {version}")
elif "--helpformat" in words:
    print("{columns}")
else:
    try:
        open(root + "/down").close()
        print("sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection", file=sys.stderr)
        print("sacct: error: Sending PersistInit msg: Connection refused", file=sys.stderr)
        sys.exit(1)
    except FileNotFoundError:
        pass
    separator = ([word for word in words if word.startswith("--delimiter=")] or ["="])[0].partition("=")[2].encode()
    if "-X" in words:
        first, last = after("-S"), after("-E")
        with open(root + "/ended", "rb") as listed:
            for line in listed:
                end, _, row = line.decode().partition(" ")
                if first <= end <= last and row.endswith("\\n"):
                    out.write(row.encode().replace({between!r}, separator))
    else:
        found = []
        for job in after("-j").split(","):
            try:
                with open(root + "/jobs/" + job + (".json" if "--json" in words else ".rows"), "rb") as stream:
                    found.append(stream.read())
            except FileNotFoundError:
                continue
        if "--json" in words:
            with open(root + "/tail", "rb") as tail:
                out.write(b'{{"jobs":[' + b",".join(found) + b"]," + tail.read())
        else:
            out.write(separator.join(name.encode() for name in after("-o").split(",")) + b"\\n")
            for rows in found:
                out.write(rows.replace({between!r}, separator))
"""


@dataclass(frozen=True)
class Accounted:
    """What accounting says of a job: rows of cells by column, and the JSON objects of its attempts."""

    raw: str
    shown: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    document: bytes


class FakeSlurm:
    """The commands below `root/bin`, which goes first on PATH."""

    def __init__(self, root: Path, settings: Mapping[str, bytes], columns: Sequence[str], tail: bytes) -> None:
        self.root = root
        self.columns = (*(name for name in COLUMNS if name in columns and name != "State"), "State")
        for folder in ("bin", "jobs"):
            (root / folder).mkdir(parents=True)
        (root / "ended").touch()
        (root / "tail").write_bytes(tail)
        for name, data in settings.items():
            (root / name).write_bytes(data)
        self._command(
            "sacct",
            _SACCT.format(
                python=sys.executable, root=str(root), version=VERSION, columns=" ".join(self.columns), between=BETWEEN
            ),
        )
        show = "\n".join(
            f'"{what}") exec /bin/cat "{root / name}";;'
            for what, name in (("config", "scontrol-config.txt"), ("partition", "scontrol-partition.txt"))
        )
        self._command(
            "scontrol",
            f'#!/bin/sh\necho "scontrol $*" >>"{root}/calls"\ncase "$2" in\n{show}\nesac\n'
            'echo "slurm_load_jobs error: Invalid job id specified" >&2\nexit 1\n',
        )
        self._command(
            "sacctmgr", f'#!/bin/sh\necho "sacctmgr $*" >>"{root}/calls"\nexec /bin/cat "{root}/sacctmgr-qos.psv"\n'
        )

    def _command(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(text, "utf-8")
        path.chmod(0o755)

    @property
    def path(self) -> str:
        """The value of PATH with these commands."""
        return f"{self.root / 'bin'}:{os.environ.get('PATH', '/usr/bin:/bin')}"

    @property
    def calls(self) -> list[str]:
        """What was called, in order."""
        file = self.root / "calls"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    # -------------------------------------------------------------------------------------------- accounting

    def account(self, jobs: Iterable[Accounted]) -> None:
        """Accounting has these jobs from now on, as they are said to be; what it said of them before is gone."""
        ended = []
        between = BETWEEN.decode()
        for job in jobs:
            place = {name: index for index, name in enumerate(job.columns)}
            rows = b"".join(
                BETWEEN.join(row[place[name]].encode() for name in self.columns) + b"\n" for row in job.rows
            )
            self._put(f"jobs/{job.shown}.rows", rows)
            self._put(f"jobs/{job.shown}.json", job.document)
            for row in job.rows:
                said = {name: row[at] for name, at in place.items()}
                if "." not in said["JobIDRaw"] and said["End"][:1].isdigit():
                    ended.append(f"{said['End']} {between.join(said.get(name, '') for name in ENDED_FIELDS)}\n")
        with (self.root / "ended").open("ab") as listed:
            listed.write("".join(ended).encode())

    def _put(self, name: str, data: bytes) -> None:
        partial = self.root / f"{name}.new"
        partial.write_bytes(data)
        partial.replace(self.root / name)

    def down(self, down: bool = True) -> None:
        """slurmdbd does not answer, or does again."""
        if down:
            (self.root / "down").touch()
        else:
            (self.root / "down").unlink(missing_ok=True)

    @property
    def is_down(self) -> bool:
        """Whether slurmdbd does not answer."""
        return (self.root / "down").exists()
