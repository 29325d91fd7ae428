"""`slurm-triage install --print`: what to write where, from what is found on this host. Changes nothing."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_triage.doctor import Host

OK, UNUSABLE = 0, 2
PORT = 6821
SHARED = "dir:"
"""How a folder in the place of a host begins, as in the agent's `servers`."""
Complain = Callable[[str], None]


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb `install` to the command."""
    install = verbs.add_parser(
        "install",
        help="print what to write into which file, and what to enable, to install the tiers",
        description="Print what to write into which file and what to enable, from what is found on this host; changes "
        "nothing. Tier 2 is the service, 3 adds the agent and the plugin on compute nodes, 4 the hook of the "
        "controller. Exit status: 0 it was printed, 2 bad usage.",
    )
    install.add_argument("--print", action="store_true", help="print; there is nothing else that it does")
    install.add_argument(
        "--tier", type=int, choices=(2, 3, 4), default=4, help="up to this tier (default: %(default)s)"
    )
    install.add_argument(
        "--server",
        metavar="HOST|dir:/PATH",
        help="the host of the service (default: this one), or the folder that it shares with nodes that cannot connect",
    )


def run(options: argparse.Namespace, complain: Complain) -> int:
    """Runs the verb; returns the exit status."""
    from slurm_triage.doctor import Host

    host = Host()
    server = options.server or host.name
    if not options.print:
        complain("install: it installs nothing by itself. Say --print to see what is to be done.")
        return UNUSABLE
    if not re.fullmatch(r"(?!dir:)[A-Za-z0-9.:_\[\]-]{1,255}|dir:/[A-Za-z0-9./_-]{1,250}", server):
        complain(f"{server}: is neither a name of a host nor dir:/PATH.")
        return UNUSABLE
    for line in lines(host, options.tier, server):
        print("".join(char if char.isprintable() else "?" for char in line))
    return OK


def lines(host: Host, tier: int, server: str) -> Iterator[str]:
    """What is to be done, as comments, commands and content of files."""
    if host.config.problem:
        yield f"# Slurm did not answer ({host.config.problem}): what follows are its defaults."
        yield ""
    yield from _service(host, tier, server)
    if tier > 2:
        yield from _nodes(host, server)
    if tier > 3:
        yield from _controller(host, server)
    yield "# Then, on each of these hosts, as root: slurm-triage doctor (nodes: slurm-triage-agent status)"


def _service(host: Host, tier: int, server: str) -> Iterator[str]:
    folder = server.removeprefix(SHARED) if server.startswith(SHARED) else ""
    yield f"# ---- Tier 2: the service, on {'its host' if folder else server} (package slurm-triage)"
    if tier > 2:
        yield "# /etc/slurm-triage/service.toml"
        yield "[service]"
        yield f'folder = "{folder}"' if folder else f'listen = ":{PORT}"'
        if (user := slurm_user(host)) != "slurm":
            yield f'slurm_user = "{user}"'
        if folder:
            yield "# The folder, on a file system that nodes and controller have under the same path:"
            yield f"install -d -o slurm-triage -g slurm-triage -m 0711 {folder}"
        else:
            yield f"# Nodes and controller have to reach TCP port {PORT} of it."
    if "jobs" in host.setting("PrivateData").replace(" ", "").split(","):
        yield "# PrivateData=jobs: let the service see all jobs"
        yield "sacctmgr add user slurm-triage account=root adminlevel=operator"
    yield "systemctl enable --now slurm-triage"
    yield ""


def _nodes(host: Host, server: str) -> Iterator[str]:
    from slurm_triage.doctor import plugstack

    yield "# ---- Tier 3: compute nodes (packages slurm-triage-node, slurm-triage-spank)"
    yield "# /etc/slurm-triage/agent.toml"
    yield from _settings(server, "/var/spool/slurm-triage")
    yield "systemctl enable --now slurm-triage-agent.path slurm-triage-agent.timer"
    file = plugstack.place(host)
    try:
        found = list(plugstack.lines(host, file))
        present = True
    except OSError:
        found, present = [], False
    yield f"# {file}"
    if found:
        yield f"# (is there already: {found[0].where})"
    else:
        if not present:
            yield "# (is not on this host; it is a new file, or lies elsewhere: PlugStackConfig of slurm.conf)"
        flags = host.setting("PrologFlags").replace(" ", "").lower().split(",")
        yield "optional /usr/lib/slurm-triage/slurm_triage.so" + (" runinjob" if "runinjob" in flags else "")
        yield "# srun, sbatch and salloc read it too: install slurm-triage-spank on login nodes as well."
    yield "# slurmd looks at it once, at its start; jobs go on meanwhile"
    yield "systemctl restart slurmd"
    yield ""


def _settings(server: str, spool: str) -> Iterator[str]:
    whole = server.startswith(SHARED) or re.search(r":\d+$|\]$", server)
    address = server if whole else f"{server}:{PORT}"
    yield "[agent]"
    yield f'servers = ["{address}"]'
    yield f'spools = ["{spool}"]'


def _controller(host: Host, server: str) -> Iterator[str]:
    yield "# ---- Tier 4: the controller's host (package slurm-triage-controller)"
    yield "# /etc/slurm-triage/agent-ctld.toml"
    spool = "/var/spool/slurm-triage-ctld"
    yield from _settings(server, spool)
    yield f'state = "{spool}"'
    yield "files = false"
    user = slurm_user(host)
    if user != "slurm":
        yield f"# SlurmUser is {user}, not slurm:"
        yield f"sed 's/slurm slurm/{user} {user}/' /usr/lib/tmpfiles.d/slurm-triage-controller.conf " \
              ">/etc/tmpfiles.d/slurm-triage-controller.conf"  # fmt: skip
        yield "systemd-tmpfiles --create /etc/tmpfiles.d/slurm-triage-controller.conf"
        yield f"systemctl edit slurm-triage-agent-ctld        # [Service] and User={user}"
    yield "systemctl enable --now slurm-triage-agent-ctld.path slurm-triage-agent-ctld.timer"
    yield from _hook(host)
    yield ""


def _hook(host: Host) -> Iterator[str]:
    from slurm_triage.doctor.witnesses import HOOKS

    hook = HOOKS["EpilogSlurmctld"]
    values = host.settings.get("epilogslurmctld", [])
    conf = host.setting("SLURM_CONF") or "/etc/slurm/slurm.conf"
    if hook in values:
        yield f"# (is there already: EpilogSlurmctld={hook})"
    elif not values:
        yield f"# {conf}, the same on all hosts"
        yield f"EpilogSlurmctld={hook}"
        yield "# then"
        yield "scontrol reconfigure"
    elif re.search(r"[*?\[]", values[0]):
        folder = values[0].rpartition("/")[0]
        yield f"# {conf} has EpilogSlurmctld={values[0]} already: a link beside the others"
        yield f"ln -s {hook} {folder}/slurm-triage-epilogslurmctld"
    else:
        yield f"# {conf} has EpilogSlurmctld={values[0]} already: add to that script, before it ends"
        yield f"[ ! -x {hook} ] || {hook} || :"


def slurm_user(host: Host) -> str:
    """The name of SlurmUser: `slurm(64030)` of Slurm's configuration."""
    name = host.setting("SlurmUser").partition("(")[0]
    return name if re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) else "slurm"
