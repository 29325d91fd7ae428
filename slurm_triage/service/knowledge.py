"""What the site adds to the knowledge: read at the start of the service, said in the log and in the status."""

from __future__ import annotations

from typing import Any

from slurm_triage import site
from slurm_triage.log import Log
from slurm_triage.site.load import told


def known(log: Log) -> dict[str, Any]:
    """Puts the site's knowledge in force for this process; returns what the status says of it, nothing for none.

    The processes that judge read it for themselves, once, when they start (`pool.work`).
    """
    found = site.use()
    if found is None:
        return {}
    made = found.extension
    counts = {
        "signatures": sum(map(len, made.signatures.values())),
        "causes": len(made.causes),
        "rules": len(made.rules),
    }
    log.info("knowledge", folder=found.folder, **counts)
    problems = told(found.problems)
    for problem in problems:
        log.error("knowledge", not_used=problem)
    return {"folder": str(found.folder), **counts, "problems": problems[:20]}
