"""Recorded jobs with other ids and other times: what accounting says of them and what their nodes have.

The evidence of a recorded job is taken whole: accounting, the tickets and task records of each node, the kernel log
and the job's output. All its times are moved by the same number of seconds, all its ids are changed alike, so that it
means the same.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from slurm_triage.nodeset import expand
from tests.corpus.load import cases
from tests.service.fake_slurm import Accounted

WITNESSES, RECORDED = "recorded-witnesses", "recorded-24.11"
SAMPLES: Mapping[tuple[str, str], tuple[str, ...]] = {
    (WITNESSES, "slurm-24.11/1002-node_fail"): ("node_fail",),
    (WITNESSES, "slurm-24.11/1007-requeue_then_fails"): ("admin_requeue", "app_error"),
    (WITNESSES, "slurm-24.11/1008-timeout_ignore_term"): ("time_limit",),
    (WITNESSES, "slurm-24.11/1014-oom_one_of_four"): ("memcg_oom",),
    (WITNESSES, "slurm-24.11/1016-oom_worker_survived"): ("memcg_oom_child_only",),
    (WITNESSES, "slurm-24.11/1018-oom_hostile_name"): ("memcg_oom",),
    (WITNESSES, "slurm-24.11/1020-segv_rank_of_four"): ("app_segfault",),
    (WITNESSES, "slurm-24.11/1023-segv_hostile_name"): ("app_segfault",),
    (WITNESSES, "slurm-24.11/1028-preempt_cancel_g8_ignore"): ("preempted",),
    (WITNESSES, "slurm-24.11/1041-exit9"): ("app_error",),
    (WITNESSES, "slurm-24.11/1042-step_fail_exit0"): ("accounting_state_wrong",),
    (WITNESSES, "slurm-24.11/1049-scancel_owner"): ("cancelled_by_user",),
    (WITNESSES, "slurm-24.11/1055-kill9_step"): ("external_signal",),
    (RECORDED, "1017-node_fail_requeue"): ("node_fail", "no_failure"),
    (RECORDED, "1052-exit127"): ("command_not_found",),
    (RECORDED, "1060-memoryerror_ulimit"): ("malloc_failure",),
    (RECORDED, "1094-workdir_missing"): ("chdir_failed",),
    (RECORDED, "1131-pp_requeue_g0"): ("preempted", "no_failure"),
    (RECORDED, "1141-scancel_pending"): ("cancelled_by_user",),
    (RECORDED, "1145-srun_only_segv"): ("app_segfault",),
}
"""Corpus and id of a case, and the cause of each of its attempts: the label's, as whoever recorded it provoked it."""
NO_FILE = frozenset(("1049-scancel_owner", "1141-scancel_pending", "1145-srun_only_segv"))
"""Of these users know already: their own scancel, a job without a batch script."""
ARRAY = "1041-exit9"
"""What the tasks of an array are made of."""
SETTINGS = ("scontrol-config.txt", "scontrol-partition.txt", "sacctmgr-qos.psv")

_EPOCH = re.compile(rb"(?<![0-9])179[0-9]{7}(?![0-9])")
"""What can be nothing but a time in the recordings."""
_STAMP = re.compile(rb"(?<![0-9])20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?![0-9])")
_ENV = re.compile(r"env\.epilog\.(?:attempt\d+\.)?([a-z]+\d*)\.(?:\d+\.)?txt")
_TASKS = re.compile(r"tasks\.([a-z]+\d*)\.(?:\d+\.)?txt")
_LAST_STAMP = re.compile(rb"^([0-9]+\.[0-9]+) node=", re.MULTILINE)


@dataclass(frozen=True)
class Paper:
    """A record of a node's spool: kind, content, and the epoch of its last write."""

    kind: str
    data: bytes
    at: float


@dataclass
class Model:
    """A recorded job. `end` is the epoch of its last end; `records` are by node; `boot` the epoch of kernel time 0."""

    name: str
    raw: str
    causes: tuple[str, ...]
    columns: tuple[str, ...]
    rows: list[list[str]]
    documents: list[dict[str, Any]]
    end: float
    records: dict[str, list[Paper]]
    files: dict[str, bytes]
    boot: float | None


@dataclass
class Job:
    """A job of the storm; `starts` are epochs of its attempts, None of one that never started; `nodes` theirs."""

    raw: str
    shown: str
    array: str
    causes: tuple[str, ...]
    wants_file: bool
    accounted: Accounted
    starts: tuple[float | None, ...]
    nodes: tuple[tuple[str, ...], ...]
    end: float
    records: dict[str, list[Paper]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    boot: float | None = None


@dataclass
class Recordings:
    """All models, and what is the same for all jobs."""

    models: list[Model]
    settings: dict[str, bytes]
    tail: bytes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of accounting."""
        return self.models[0].columns

    def model(self, name: str) -> Model:
        """The model whose case is called so."""
        return next(model for model in self.models if model.name == name)


def recordings() -> Recordings:
    """The samples."""
    models: list[Model] = []
    settings: dict[str, bytes] = {}
    tail = b""
    for corpus in (WITNESSES, RECORDED):
        for name, files, label in cases(corpus):
            causes = SAMPLES.get((corpus, name))
            if causes is None:
                continue
            assert label["cause"] in causes
            document = json.loads(files["sacct.json"])
            documents = document.pop("jobs")
            tail = tail or json.dumps(document)[1:].encode()
            models.append(_model(name.rpartition("/")[2], files, causes, documents))
            for file, data in files.items():
                if (base := file.rpartition("/")[2]) in SETTINGS:
                    settings.setdefault(base, data)
    assert len(models) == len(SAMPLES)
    return Recordings(models, settings, tail)


def _model(name: str, files: Mapping[str, bytes], causes: tuple[str, ...], documents: list[dict[str, Any]]) -> Model:
    header, *rows = files["sacct.psv"].decode().splitlines()
    columns = tuple(header.split("|"))
    cells = [row.split("|") for row in rows]
    assert all(len(row) == len(columns) for row in cells)
    at = columns.index("End")
    boot = re.search(rb"^boot_epoch = ([0-9.]+)", files["manifest.toml"], re.MULTILINE)
    records: dict[str, list[Paper]] = {}
    for file, data in sorted(files.items()):
        if match := _ENV.fullmatch(file):
            records.setdefault(match[1], []).append(_ticket(data))
        elif match := _TASKS.fullmatch(file):
            written = max(float(stamp) for stamp in _LAST_STAMP.findall(data))
            records.setdefault(match[1], []).append(Paper("tasks", data, written))
    return Model(
        name, name.partition("-")[0], causes, columns, cells, documents,
        max(_epoch(row[at]) for row in cells if row[at][:1] == "2"), records,
        {file: files[file] for file in ("kmsg.txt", "job.out") if file in files},
        float(boot[1]) if boot else None,
    )  # fmt: skip


def _ticket(data: bytes) -> Paper:
    whole = data if b"\0" in data else data.rstrip(b"\n").replace(b"\n", b"\0") + b"\0"
    values = dict(piece.split(b"=", 1) for piece in whole.split(b"\0") if b"=" in piece)
    if b"SLURM_TRIAGE_TIME" in values:
        return Paper("spank", whole, float(values[b"SLURM_TRIAGE_TIME"]))
    return Paper("epilog", whole, float(values[b"SLURM_JOB_END_TIME"]) + 1.0)


def _epoch(stamp: str) -> float:
    return datetime.fromisoformat(stamp).replace(tzinfo=timezone.utc).timestamp()


# ------------------------------------------------------------------------------------------------ other ids and times


def job(model: Model, raw: int, end: float, array: tuple[int, int] | None = None) -> Job:
    """The job of a model under another id, which ended at an epoch; of an array with this id it is that task."""
    shift = round(end - model.end)
    shown = f"{array[0]}_{array[1]}" if array else str(raw)
    change = _changer(model.raw, str(raw), shift)
    place = {name: at for at, name in enumerate(model.columns)}
    rows = []
    for row in model.rows:
        moved = [change(cell.encode()).decode() for cell in row]
        moved[place["JobID"]] = moved[place["JobID"]].replace(str(raw), shown, 1)
        rows.append(moved)
    attempts = [row for row in rows if "." not in row[place["JobIDRaw"]]]
    documents = [json.loads(change(json.dumps(one).encode())) for one in model.documents]
    if array:
        for one in documents:
            one["array"] |= {"job_id": array[0], "task_id": {"set": True, "infinite": False, "number": array[1]}}
    records = {
        node: [Paper(p.kind, _with_array(change(p.data), p.kind, array), p.at + shift) for p in papers]
        for node, papers in model.records.items()
    }
    starts = tuple(_epoch(row[place["Start"]]) if row[place["Start"]][:1] == "2" else None for row in attempts)
    return Job(
        raw=str(raw), shown=shown, array=str(array[0]) if array else "", causes=model.causes,
        wants_file=model.name not in NO_FILE,
        accounted=Accounted(str(raw), shown, model.columns, rows, b",".join(json.dumps(d).encode() for d in documents)),
        starts=starts, nodes=tuple(_nodes(row[place["NodeList"]]) for row in attempts),
        end=model.end + shift, records=records,
        files={name: change(data) for name, data in model.files.items()},
        boot=None if model.boot is None else model.boot + shift,
    )  # fmt: skip


def _nodes(folded: str) -> tuple[str, ...]:
    return () if folded == "None assigned" else tuple(expand(folded) or ())


def _with_array(data: bytes, kind: str, array: tuple[int, int] | None) -> bytes:
    """A ticket of a task, as the controller's hook has it. Task records say it in their own way."""
    if array is None:
        return data
    if kind == "tasks":
        return re.sub(rb"(?<= slurm=24\.11\.5)$", b" array=%d_%d" % array, data, flags=re.MULTILINE)
    return data + b"SLURM_ARRAY_JOB_ID=%d\0SLURM_ARRAY_TASK_ID=%d\0" % array


def _changer(old: str, new: str, shift: int) -> Any:
    ids = re.compile(rb"(?<![0-9])%s(?![0-9])" % old.encode())
    move = timedelta(seconds=shift)

    def change(data: bytes) -> bytes:
        data = ids.sub(new.encode(), data)
        data = _EPOCH.sub(lambda match: b"%d" % (int(match[0]) + shift), data)
        return _STAMP.sub(lambda match: (datetime.fromisoformat(match[0].decode()) + move).isoformat().encode(), data)

    return change


def rewritten(accounted: Accounted) -> Accounted:
    """What accounting says of a cancelled job after a restart of slurmctld: no longer who cancelled it."""
    at = accounted.columns.index("State")
    rows = [["CANCELLED" if i == at and cell.startswith("CANCELLED by ") else cell for i, cell in enumerate(row)]
            for row in accounted.rows]  # fmt: skip
    documents = json.loads(b"[" + accounted.document + b"]")
    for one in documents:
        one["kill_request_user"] = ""
    return Accounted(
        accounted.raw, accounted.shown, accounted.columns, rows, b",".join(json.dumps(d).encode() for d in documents)
    )


def attempts_with_target(one: Job) -> Sequence[int]:
    """Indices of the attempts that a node of the job has a ticket of, so that root can write a file about them there."""
    found: list[int] = []
    if os.geteuid() != 0:
        return found
    for index, start in enumerate(one.starts):
        tickets = [p.data for node in one.nodes[index] for p in one.records.get(node, ()) if p.kind != "tasks"]
        if start is not None and any(
            b"SLURM_JOB_START_TIME=%d\0" % (start + off) in data for data in tickets for off in (-1, 0, 1)
        ):
            found.append(index)
    return found
