"""Turns a job of the mini cluster into an evidence folder (docs/reference/evidence-folder.md).

What is kept is what an administrator could have collected: accounting as text and as JSON, what slurmctld still
remembers, the lines of the daemons' logs that name the job, the job's output, and the kernel log from the job's start to
its end. `expect.toml` and `submit.txt` are for people and for scoring; the product never reads them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_triage.nodeset import expand
from tests.cluster import witnesses
from tests.cluster.scenarios import Scenario

if TYPE_CHECKING:
    from tests.cluster.machine import Cluster

FIELDS = (
    *("JobIDRaw", "JobID", "JobName", "User", "UID", "Account", "Partition", "QOS", "State", "ExitCode"),
    *("DerivedExitCode", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "Suspended", "TimelimitRaw", "Reason"),
    *("NNodes", "NodeList", "FailedNode", "NTasks", "NCPUS", "ReqMem", "MaxRSS", "MaxRSSTask", "MaxRSSNode", "AveRSS"),
    *("MaxVMSize", "TRESUsageInMax", "Restarts", "Flags", "WorkDir", "StdOut", "StdErr", "SubmitLine", "Comment"),
    *("AdminComment", "SystemComment"),
)
"""Fields of sacct that are asked for where the version has them."""
MARGIN = 2.0
"""Seconds before the start and after the end of a job in which a kernel line may still be about it."""


@dataclass(frozen=True)
class Facts:
    """What is the same for all jobs of one run of the cluster."""

    version: str
    utc_offset: str
    boot_epoch: float
    fields: tuple[str, ...]


def survey(cluster: Cluster) -> Facts:
    """Asks the cluster for its version, offset and boot time, and which fields its sacct knows."""
    version = re.search(r"\d+\.\d+\.\d+", cluster.tell("login", "sacct -V").decode())
    if version is None:
        raise ValueError("sacct -V names no version")
    known = set(cluster.tell("login", "sacct --helpformat").decode().split())
    offset = cluster.tell("login", "date +%:z").decode().strip()
    clocks = "import time; print(repr(time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)))"
    boot = float(cluster.tell("login", f"python3 -c {shlex.quote(clocks)}"))
    return Facts(version[0], offset, round(boot, 2), tuple(f for f in FIELDS if f in known))


def record_cluster(cluster: Cluster, folder: Path) -> None:
    """The configuration in force, for all cases beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, command in {
        "scontrol-config.txt": "scontrol show config",
        "scontrol-partition.txt": "scontrol show partition",
        "sacctmgr-qos.psv": "sacctmgr -P show qos",
        "slurm.conf": "cat /etc/slurm/slurm.conf",
        "cgroup.conf": "cat /etc/slurm/cgroup.conf",
    }.items():
        (folder / name).write_bytes(cluster.tell("ctl", command))


def names_job(ids: Iterable[str]) -> re.Pattern[str]:
    """Matches log lines of slurmctld and slurmd that name one of the jobs.

    The forms are those of Slurm's own log calls: `JobId=1 StepId=1.0 job 1 JOB 1 STEP 1.0 [1.batch] for 1`, and
    `JobId=1_2(3)` of arrays.
    """
    one = "|".join(re.escape(i) for i in sorted(set(ids)))
    return re.compile(rf"(?:(?:JobId|StepId)=|(?:\b[Jj]ob|\bJOB|\bSTEP|\bfor)[ =]|\[|\()(?:{one})(?![\d])")


def lines_of(log: bytes, jobs: re.Pattern[str], nodes: Iterable[str], window: tuple[float, float]) -> bytes:
    """The lines that name a job, and those of the window that name one of the nodes and no job at all."""
    named = sorted(set(nodes))
    node = re.compile(r"(?<![\w.-])(?:" + "|".join(map(re.escape, named)) + r")(?![\w.-])") if named else None

    def wanted(text: str) -> bool:
        of_node = node is not None and node.search(text) and not re.search(r"JobId=|StepId=", text)
        return bool(jobs.search(text) or (of_node and _inside(text, window)))

    return b"".join(line for line in log.splitlines(keepends=True) if wanted(line.decode("utf-8", "replace")))


def _inside(text: str, window: tuple[float, float]) -> bool:
    stamp = re.match(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", text)
    if stamp is None:
        return False
    at = datetime.fromisoformat(stamp[1]).replace(tzinfo=timezone.utc).timestamp()
    return window[0] <= at <= window[1]


def kernel_lines(dmesg: bytes, boot_epoch: float, window: tuple[float, float]) -> bytes:
    """The lines of dmesg in a window of epochs."""
    kept = []
    for line in dmesg.splitlines(keepends=True):
        stamp = re.match(rb"\[ *(\d+\.\d+)\]", line)
        if stamp and window[0] <= boot_epoch + float(stamp[1]) <= window[1]:
            kept.append(line)
    return b"".join(kept)


def rows(psv: str) -> list[dict[str, str]]:
    """The records of `sacct -P`, without those that a newline in a name has broken."""
    lines = psv.splitlines()
    header = lines[0].split("|") if lines else []
    split = (line.split("|") for line in lines[1:])
    return [dict(zip(header, words, strict=True)) for words in split if len(words) == len(header)]


def span(records: Sequence[Mapping[str, str]], utc_offset: str) -> tuple[float, float]:
    """First submit and last end of the records, in epochs."""

    def epochs(key: str) -> list[float]:
        texts = [r.get(key, "") for r in records]
        return [datetime.fromisoformat(t + utc_offset).timestamp() for t in texts if re.match(r"\d{4}-", t)]

    starts = epochs("Start") or epochs("Submit")
    ends = epochs("End") or starts
    return min(starts), max(ends)


@dataclass(frozen=True)
class Answers:
    """What the tools and logs said about one job, whole; `write` takes from the logs what concerns the job.

    `slurmd_logs` is by node; `outputs` by name of the file; `kept` are files that are evidence as they are; `left` is what
    the witnesses left in the spools.
    """

    psv: bytes
    json: bytes
    scontrol: bytes
    slurmctld_log: bytes
    slurmd_logs: Mapping[str, bytes]
    dmesg: bytes
    outputs: Mapping[str, bytes]
    client: bytes = b""
    kept: Mapping[str, bytes] = field(default_factory=dict)
    left: Sequence[witnesses.Left] = ()


def collect(
    cluster: Cluster, facts: Facts, scenario: Scenario, job: str, *, client: bytes, kept: Mapping[str, bytes]
) -> Answers:
    """Asks the cluster about a job that has ended."""
    psv = cluster.tell("login", f"sacct -D -P -j {job} -o {','.join(facts.fields)}")
    records = rows(psv.decode("utf-8", "replace"))
    status, scontrol, _ = cluster.ask("login", f"scontrol show job -d {job}")
    # Nobody can read the log of a node that lies dead.
    nodes = [n for n in nodes_of(records) if n in cluster.nodes and cluster.alive(n)]
    return Answers(
        psv,
        cluster.tell("login", f"sacct -D -j {job} --json"),
        b"" if status else scontrol,
        cluster.tell("ctl", "cat /var/log/slurm/slurmctld.log"),
        {node: cluster.tell(node, "cat /var/log/slurm/slurmd.log") for node in nodes},
        cluster.tell("login", "dmesg"),
        _outputs(cluster, scenario, [r for r in records if "." not in r["JobID"]]),
        client,
        kept,
        _left(cluster, {r["JobIDRaw"] for r in records}, nodes),
    )


def _left(cluster: Cluster, ids: set[str], nodes: Sequence[str]) -> list[witnesses.Left]:
    """What lies in the spools about jobs. A node without a spool has no witnesses."""
    found = []
    for host in (*nodes, witnesses.CONTROLLER):
        spool = witnesses.CTLD_SPOOL if host == witnesses.CONTROLLER else witnesses.NODE_SPOOL
        found += witnesses.unpack(host, cluster.tell(host, witnesses.pack_command(spool)))
    return [left for left in found if left.job in ids]


def nodes_of(records: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """Names of all nodes of a job's records."""
    return tuple(sorted({n for r in records for n in expand(r["NodeList"]) or () if r["NodeList"] != "None assigned"}))


def write(out: Path, facts: Facts, scenario: Scenario, job: str, answers: Answers) -> Path:
    """Writes the evidence of a job into `out/<job>-<scenario>` and returns that folder. Raises `ValueError` for none."""
    records = rows(answers.psv.decode("utf-8", "replace"))
    if not records:
        raise ValueError(f"sacct knows no job {job}")
    folder = out / f"{job}-{scenario.name}"
    folder.mkdir(parents=True)
    raw = sorted({r["JobIDRaw"] for r in records if "." not in r["JobID"]}, key=int)
    start, end = span(records, facts.utc_offset)
    window = (start - MARGIN, end + MARGIN)
    pattern = names_job([*raw, job])

    (folder / "sacct.psv").write_bytes(answers.psv)
    whole = json.loads(answers.json)
    (folder / "sacct.json").write_text(json.dumps(whole, separators=(",", ":"), ensure_ascii=False), "utf-8")
    files = {
        "scontrol_show_job_final.txt": answers.scontrol,
        "slurmctld.log": lines_of(answers.slurmctld_log, pattern, nodes_of(records), window),
        "kmsg.txt": kernel_lines(answers.dmesg, facts.boot_epoch, window),
        "client.out": answers.client,
        **{f"slurmd.{node}.log": lines_of(log, pattern, (), window) for node, log in answers.slurmd_logs.items()},
    }
    several = len(answers.outputs) > 1
    outputs = {f"out/{name}" if several else "job.out": data for name, data in answers.outputs.items()}
    for name, data in {**files, **answers.kept, **witnesses.evidence(answers.left)}.items():
        if data.strip():
            (folder / name).write_bytes(data)
    for name, data in outputs.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    _notes(folder, facts, scenario, raw, window)
    return folder


def _outputs(cluster: Cluster, scenario: Scenario, jobs: Sequence[Mapping[str, str]]) -> dict[str, bytes]:
    """The files that the job's output went to, by name; the terminal of a client is no file."""
    found = {}
    for job in jobs:
        array, _, task = job["JobID"].partition("_")
        path = scenario.output.replace("%j", job["JobIDRaw"]).replace("%A", array).replace("%a", task)
        data = None if scenario.client else cluster.read("login", shlex.quote(path))
        if data is not None:
            found[path.rsplit("/", 1)[-1]] = data
    return found


def _notes(folder: Path, facts: Facts, scenario: Scenario, ids: Sequence[str], window: tuple[float, float]) -> None:
    (folder / "manifest.toml").write_text(
        f'slurm = "{facts.version}"\n'
        'cluster = "mini"\n'
        'cluster_dir = "../cluster"\n'
        f'utc_offset = "{facts.utc_offset}"\n'
        f"boot_epoch = {facts.boot_epoch}\n"
        "# kmsg.txt holds every line that the kernel log had in this time (epochs); without the file it had none.\n"
        f"kernel_log_window = [{window[0]}, {window[1]}]\n"
    )
    expect = scenario.expect
    (folder / "expect.toml").write_text(
        f'scenario = "{scenario.name}"\n'
        f'cause = "{expect.cause}"\n'
        f"also = {json.dumps(expect.accept)}\n"
        f'owner = "{expect.owner[0]}"\n'
        f"owner_accept = {json.dumps(expect.owner)}\n"
        f"key_evidence = {json.dumps(expect.cite, ensure_ascii=False)}\n"
        f'slurm = "{facts.version[: facts.version.rindex(".")]}"\n'
        f"job_ids = [{', '.join(ids)}]\n"
        f"notes = {json.dumps(scenario.notes)}\n"
    )
    lines = [scenario.client or f"sbatch {scenario.options}\n--- script\n{scenario.script}"]
    lines += [f"--- {a.when}, after {a.after:g} s: {a.docker or f'{a.user}@{a.on}: {a.run}'}" for a in scenario.actions]
    (folder / "submit.txt").write_text("\n".join(lines) + "\n")
