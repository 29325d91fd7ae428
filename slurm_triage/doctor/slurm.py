"""Slurm itself: whether it answers, and what it keeps of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurm_triage.doctor.finding import Finding, bad, ok, unknown, warn
from slurm_triage.doctor.host import Host, Role

SERVICE_USER = "slurm-triage"


def answers(host: Host) -> Iterator[Finding]:
    """slurmctld answers."""
    if host.config.problem:
        missing = "command not found" in host.config.problem
        yield bad(
            "slurm",
            f"Slurm does not answer: {host.config.problem}",
            "install Slurm's commands on this host, or put their folder into PATH"
            if missing
            else "try `scontrol ping`; nothing can be diagnosed until slurmctld answers this host",
        )
        return
    yield ok("slurm", f"Slurm {host.setting('SLURM_VERSION')} answers, cluster {host.setting('ClusterName')}")
    for line in host.config.output.decode("utf-8", "replace").splitlines():
        if line.startswith("Slurmctld(") and line.endswith("DOWN"):
            yield warn("slurm", line, "see why that slurmctld is down")


def accounting(host: Host) -> Iterator[Finding]:
    """Jobs are kept in a database, and it answers."""
    if host.config.problem:
        return
    kind = host.setting("AccountingStorageType")
    if kind != "accounting_storage/slurmdbd":
        yield bad(
            "accounting",
            f"there is no accounting: AccountingStorageType={kind or 'none'}",
            "set up slurmdbd and AccountingStorageType=accounting_storage/slurmdbd (slurm.conf(5))",
        )
        return
    if not host.has_role(Role.SERVICE, Role.CONTROLLER):
        return
    reply = host.run("sacct", "-n", "-X", "-P", "-S", "now-1minutes", "-o", "JobIDRaw")
    if reply.problem:
        yield bad("accounting", f"accounting does not answer: {reply.problem}", "see slurmdbd and its log")
    else:
        yield ok("accounting", "accounting is on and answers")


def gathering(host: Host) -> Iterator[Finding]:
    """Memory of jobs is measured."""
    if host.config.problem:
        return
    kind = host.setting("JobAcctGatherType")
    if kind in ("", "jobacct_gather/none"):
        yield warn(
            "gathering",
            "memory of jobs is not measured: JobAcctGatherType is none, so diagnoses cannot say how much a job used",
            "JobAcctGatherType=jobacct_gather/cgroup in slurm.conf, then restart slurmctld and slurmd",
        )
    else:
        yield ok("gathering", f"memory of jobs is measured ({kind})")


def private(host: Host) -> Iterator[Finding]:
    """The service's user sees all jobs."""
    if host.config.problem or not host.has_role(Role.SERVICE):
        return
    hidden = host.setting("PrivateData").replace(" ", "").split(",")
    if "jobs" not in hidden:
        yield ok("private", "every user sees all jobs (as far as slurm.conf says: slurmdbd.conf has one, too)")
        return
    reply = host.run("sacctmgr", "-n", "-P", "show", "user", SERVICE_USER, "format=AdminLevel")
    if reply.problem:
        yield unknown("private", f"whether the service sees all jobs could not be asked: {reply.problem}")
    elif reply.output.decode("ascii", "replace").strip() in ("Operator", "Administrator"):
        yield ok("private", f"PrivateData=jobs, and {SERVICE_USER} is allowed to see all jobs")
    else:
        yield bad(
            "private",
            f"PrivateData=jobs hides all jobs from the service's user {SERVICE_USER}",
            f"sacctmgr add user {SERVICE_USER} account=root adminlevel=operator",
        )


def times(host: Host) -> Iterator[Finding]:
    """How long Slurm may take to end a job: the service waits so long for the last evidence."""
    if host.config.problem or not host.has_role(Role.SERVICE, Role.CONTROLLER):
        return
    said = [(name, host.setting(name)) for name in ("KillWait", "UnkillableStepTimeout")]
    missing = [name for name, value in said if not re.match(r"\d+ sec", value)]
    if missing:
        yield unknown("times", f"{' and '.join(missing)} could not be read; the service takes Slurm's defaults")
    else:
        yield ok("times", ", ".join(f"{name} {value}" for name, value in said))


CHECKS = [answers, accounting, gathering, private, times]
