"""The limits and settings in force now: configuration, partitions, QOS. They may have changed since the job ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

COMMANDS: Mapping[str, Sequence[str]] = {
    "scontrol-config.txt": ("scontrol", "show", "config"),
    "scontrol-partition.txt": ("scontrol", "show", "partition"),
    "sacctmgr-qos.psv": ("sacctmgr", "--readonly", "--parsable2", "show", "qos"),
}
"""Evidence file to the command that prints it."""
