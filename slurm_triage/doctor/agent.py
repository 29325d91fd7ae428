"""The agent of this host: whether it is started, and whether it can reach the service and be believed."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from slurm_triage.doctor.finding import Finding, State, bad, ok, unknown, warn
from slurm_triage.doctor.host import Host, Role
from slurm_triage.node.agent import trusted
from slurm_triage.node.config import ConfigError, Settings, read
from slurm_triage.transport import shared_folder
from slurm_triage.transport.client import place

SECONDS = 3.0
"""What a connection may take."""
CLOCK = 60.0
"""Seconds by which a clock may be off. MUNGE takes 300."""
UNITS = {Role.NODE: "slurm-triage-agent", Role.CONTROLLER: "slurm-triage-agent-ctld"}
FILES = {Role.NODE: "/etc/slurm-triage/agent.toml", Role.CONTROLLER: "/etc/slurm-triage/agent-ctld.toml"}


def units(host: Host) -> Iterator[Finding]:
    """Records wake the agent, and what waits is tried again."""
    for role, unit in UNITS.items():
        if not host.has_role(role):
            continue
        for name in (f"{unit}.path", f"{unit}.timer"):
            enabled, active = host.unit("is-enabled", name), host.unit("is-active", name)
            if not enabled and not active:
                yield unknown(
                    "units",
                    f"there is no systemd to ask about {name}",
                    "without systemd the agent runs as `slurm-triage-agent run --watch`",
                )
                break
            if active == "failed":
                yield bad("units", f"{name} has failed", f"systemctl reset-failed {name}; systemctl start {name}")
            elif enabled != "enabled" or active != "active":
                yield bad("units", f"{name} is not at work ({enabled or active})", f"systemctl enable --now {name}")
            else:
                yield ok("units", f"{name} is enabled and active")


def service(host: Host) -> Iterator[Finding]:
    """The settings can be used, and a service listens where they say."""
    for role, file in FILES.items():
        if not host.has_role(role):
            continue
        try:
            settings = read(host.text(file), file)
        except FileNotFoundError:
            yield bad(
                "servers",
                f"{file} is not there: the agent does not know where the service is",
                'write it: [agent] and servers = ["HOST:6821"] (`slurm-triage install --print` shows it)',
            )
            continue
        except OSError as error:
            yield unknown("servers", f"{file} cannot be read: {error.strerror or error}", "run this as root")
            continue
        except ConfigError as error:
            yield bad("servers", str(error), f"correct {file}")
            continue
        yield from _servers(settings, file)


def _servers(settings: Settings, file: str) -> Iterator[Finding]:
    if not settings.servers:
        yield bad("servers", f"{file} names no service", 'servers = ["HOST:6821"]')
    for server in settings.servers:
        if folder := shared_folder.path_of(server):
            yield _folder(folder, settings)
            continue
        try:
            socket.create_connection(place(server), SECONDS).close()
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            yield bad(
                "servers",
                f"no service answers at {server}: {why}",
                "see that it runs there, that its setting `listen` is on, and that no firewall is between",
            )
        else:
            yield ok("servers", f"a service listens at {server}")


def _folder(folder: str, settings: Settings) -> Finding:
    why = shared_folder.problem(folder, trusted(settings.service_users), SECONDS)
    if why:
        return bad(
            "servers",
            f"the shared folder {folder} cannot be used: {why}",
            "see that it is mounted, and that the service runs with the setting `folder`",
        )
    return ok(
        "servers", f"the shared folder {folder} is there; whether the service looks into it is not seen from here"
    )


def munge(host: Host) -> Iterator[Finding]:
    """A credential can be made and read."""
    if not host.has_role(*UNITS, Role.SERVICE) or _auth(host) != "munge":
        return
    reply = host.run("sh", "-c", "munge -n | unmunge")
    said = f"{reply.error} {reply.problem}"
    if not reply.problem:
        yield ok("munge", "MUNGE makes and reads credentials")
    elif "not found" in said:
        yield unknown("munge", "the commands munge and unmunge are not here", "install munge's commands")
    else:
        yield bad("munge", f"MUNGE does not work: {reply.problem}", "systemctl restart munge; see its log")


def _auth(host: Host) -> str:
    """The way of signing that the agent's settings say."""
    for role, file in FILES.items():
        if host.has_role(role):
            try:
                return read(host.text(file), file).auth
            except (OSError, ConfigError):
                continue
    return Settings.auth


def clock(host: Host) -> Iterator[Finding]:
    """The clock is right enough for credentials and for the order of events."""
    if not host.roles:
        return
    reply = host.run("chronyc", "-c", "tracking")
    fields = reply.output.decode("ascii", "replace").strip().split(",")
    try:
        offset = abs(float(fields[4]))
    except (IndexError, ValueError):
        offset = None
    if not reply.problem and offset is not None and fields[1:2] != [""]:
        good = offset < CLOCK
        yield Finding(
            State.OK if good else State.BAD,
            "clock",
            f"the clock is off by {offset:.3g} s (chrony)",
            "" if good else "chronyc makestep",
        )
        return
    shown = host.run("timedatectl", "show", "-p", "NTPSynchronized", "--value")
    word = shown.output.decode("ascii", "replace").strip()
    if word == "yes":
        yield ok("clock", "the clock is synchronised")
    elif word == "no":
        yield warn(
            "clock",
            "the clock is not synchronised: beyond 300 s MUNGE refuses what this host sends",
            "set up chrony or systemd-timesyncd",
        )
    else:
        yield unknown("clock", "whether the clock is right could not be asked (chronyc, timedatectl)")


def kernel_log(host: Host) -> Iterator[Finding]:
    """The kernel log can be read: without it nobody knows who killed a process for memory."""
    if not host.has_role(Role.NODE):
        return
    reply = host.run("dmesg", "--level", "emerg")
    if not reply.problem:
        yield ok("kernel", "the kernel log can be read")
    elif "not permitted" in reply.problem.lower():
        yield unknown("kernel", f"the kernel log cannot be read by this user: {reply.problem}", "run this as root")
    else:
        yield bad("kernel", f"the kernel log cannot be read: {reply.problem}", "see /dev/kmsg")


CHECKS = [units, service, munge, clock, kernel_log]
