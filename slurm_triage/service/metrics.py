"""The state as text for Prometheus (exposition format 0.0.4), as node_exporter's textfile collector reads it."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_triage.service.ledger import Ledger


def metrics(
    ledger: Ledger,
    calls: Mapping[str, int],
    now: float,
    agents: Mapping[str, int] | None = None,
) -> str:
    """The text. `now` is an epoch.

    `calls` counts commands of Slurm, `agents` what was exchanged with nodes.
    """
    lines = []

    def add(name: str, kind: str, text: str, values: Mapping[str, float]) -> None:
        lines.append(f"# HELP slurm_triage_{name} {text}")
        lines.append(f"# TYPE slurm_triage_{name} {kind}")
        lines.extend(f"slurm_triage_{name}{labels} {value:.15g}" for labels, value in sorted(values.items()))

    verdicts = {
        f'{{cause="{key.removeprefix("cause:")}"}}': float(n)
        for key, n in ledger.counts.items()
        if key.startswith("cause:")
    }
    add("cases_total", "counter", "Jobs that were judged and recorded, by cause.", verdicts)
    for name, text in (
        ("sweeps", "Sweeps that came to their end."),
        ("failures", "Sweeps that did not: Slurm, the history or the ledger failed."),
        ("amended", "Verdicts that later evidence changed."),
        ("bad", "Jobs whose evidence could not be judged."),
    ):
        add(f"{name}_total", "counter", text, {"": float(ledger.counts[name])})
    add(
        "calls_total",
        "counter",
        "Commands of Slurm that were run since the start of the service.",
        {f'{{command="{name}"}}': float(n) for name, n in calls.items()},
    )
    add("waiting", "gauge", "Jobs whose accounting is not final yet.", {"": float(len(ledger.waiting))})
    add(
        "agents_total",
        "counter",
        "Messages, cases and texts that were exchanged with agents since the start of the service.",
        {f'{{what="{name}"}}': float(n) for name, n in (agents or {}).items()},
    )
    add(
        "texts",
        "gauge",
        "Diagnoses for users: written, waiting for a node to write them, kept, failed, or not to be written.",
        {f'{{state="{name}"}}': float(n) for name, n in ledger.texts.items()},
    )
    add("told", "gauge", "Jobs that nodes told of and no round is done with.", {"": float(ledger.told)})
    add("dropped_total", "counter", "Jobs whose evidence was dropped unused.", {"": float(ledger.counts["dropped"])})
    swept = ledger.swept or 0.0
    add("swept_timestamp_seconds", "gauge", "Time up to which accounting is swept; watch its age.", {"": swept})
    lag = now - ledger.swept if ledger.swept is not None else 0.0
    add("lag_seconds", "gauge", "Time up to which accounting is not swept yet.", {"": round(max(lag, 0.0), 1)})
    return "\n".join(lines) + "\n"
