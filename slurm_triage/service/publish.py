"""From verdicts to texts for users: who gets one, what it is called, and the one text for the many of an array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from slurm_triage.clock import Clock
from slurm_triage.history.corrections import AttemptKey, Correction, of, since
from slurm_triage.history.store import History
from slurm_triage.nodeset import expand
from slurm_triage.report.array import Task, array_text
from slurm_triage.report.corrected import corrected
from slurm_triage.service.config import Settings
from slurm_triage.service.glance import Glance
from slurm_triage.service.policy import why_no_file
from slurm_triage.service.pool import AttemptText, Judged
from slurm_triage.service.texts import NONE, TEXT, Text, Texts, group_key, tagged

_TASKS = """
SELECT job.array_task AS task, attempt.cause, attempt.strength, attempt.owner, attempt.nodes, attempt.summary
FROM attempt JOIN job ON job.id = attempt.job
WHERE job.array_id = ? AND job.cluster = ? AND attempt.cause <> 'no_failure'
ORDER BY job.submit_time, attempt.at
"""


class Publisher:
    """Decides and hands to `texts`; `tell` is called with the raw ids of which something can be read now."""

    def __init__(self, settings: Settings, texts: Texts, tell: Callable[[Iterable[str]], object]) -> None:
        self.settings, self.texts, self._tell = settings, texts, tell

    def publish(self, judged: Sequence[tuple[str, Judged, Glance]], history: History, now: float) -> None:
        """Publishes what was said of these jobs. Raises `TextsError`."""
        any_corrected = history.db.execute("SELECT 1 FROM correction LIMIT 1").fetchone() is not None
        found: list[Text] = []
        grouped: dict[tuple[str, str], list[Text]] = {}
        arrays: dict[str, dict[tuple[str, float], str]] = {}
        for raw, result, look in judged:
            for attempt in result.attempts:
                text = self._text(raw, attempt, look)
                if any_corrected and text.state == TEXT:
                    text = _corrected(history, text)
                if text.state == TEXT and text.array:
                    if text.array not in arrays:
                        arrays[text.array] = self.texts.of_array(text.array)
                    if self._among_many(text, arrays[text.array]):
                        text = _grouped(text)
                        grouped.setdefault((text.array, attempt.section["cluster"]), []).append(text)
                found.append(text)
        self.texts.publish(found, now)
        groups = [self._group(array, cluster, some, history) for (array, cluster), some in grouped.items()]
        self.texts.publish(groups, now)
        self._tell([raw for raw, _, _ in judged])

    def _among_many(self, text: Text, known: dict[tuple[str, float], str]) -> bool:
        """Whether the one text of its array is to tell of this attempt, too. `known` is what it is of the others.

        What has been decided stays: whoever has a file of his own keeps it, however often the job is judged again.
        """
        key = (text.job, text.start)
        if key not in known:
            known[key] = TEXT if len(known) < self.settings.group_from else NONE
        return known[key] == NONE

    def correct(self, history: History, after: int, now: float) -> int:
        """Hands on what people corrected since the correction with this id; returns the id of the last one.

        Raises `TextsError`.
        """
        last, told = after, []
        for row in since(history.db, after):
            last = max(last, row.id)
            start = Clock().local(row.key.start_key)
            if start is None:
                continue
            counts = of(history.db, row.key)

            def change(text: str, counts: Correction | None = counts) -> str:
                return corrected(text, counts)

            if self.texts.correct(row.key.job_id, start.lo, change, _tag(counts), now):
                told.append(row.key.job_id)
        self._tell(told)
        return last

    def _text(self, raw: str, attempt: AttemptText, look: Glance) -> Text:
        why = why_no_file(attempt, self.settings)
        start = attempt.start or 0.0
        index = look.attempt_of(start, start) if start else None
        nodes = look.attempts[index].nodes if index is not None else ""
        if not why and not nodes:
            why = "it had no node, so there is none that could write beside its output"
        return Text(
            job=raw,
            start=start,
            nodes=nodes,
            verdict=f"{attempt.cause} {attempt.strength} {attempt.owner}",
            name=f"{attempt.section['job_name']}.diagnosis.txt",
            section=attempt.section,
            array="" if why else attempt.array,
            state=NONE if why else TEXT,
            why=why,
        )

    def _group(self, array: str, cluster: str, some: Sequence[Text], history: History) -> Text:
        """The text of the array as it stands now."""
        known = "" if cluster == "unknown" else cluster
        rows = {
            row["task"]: Task(
                row["task"], row["cause"], row["strength"], row["owner"], _nodes(row["nodes"]), row["summary"]
            )
            for row in history.db.execute(_TASKS, (array, known))
            if row["task"]
        }  # fmt: skip
        text = array_text(array, list(rows.values()))
        # One section, whatever it says: so it keeps its name.
        section = {"job_name": array, "cluster": cluster, "submit": "unknown", "start": "unknown", "text": text}
        return Text(
            job=group_key(array),
            start=0.0,
            nodes="",
            verdict=text.partition("\n")[0],
            name=f"{array}.diagnosis.txt",
            section=section,
        )


def _corrected(history: History, text: Text) -> Text:
    """The text with the correction of its attempt, if there is one."""
    section = text.section
    cluster = "" if section["cluster"] == "unknown" else section["cluster"]
    counts = of(history.db, AttemptKey(cluster, text.job, section["submit"].replace("n/a", ""), section["start"]))
    if counts is None:
        return text
    said = {**section, "text": corrected(section["text"], counts)}
    return replace(text, section=said, verdict=tagged(text.verdict, _tag(counts)))


def _tag(counts: Correction | None) -> str:
    return f"correction {counts.id}" if counts is not None else ""


def _nodes(folded: str | None) -> tuple[str, ...]:
    return tuple((expand(folded or "") or ())[:64])


def _grouped(text: Text) -> Text:
    """The same attempt without a file of its own."""
    why = f"many tasks of array {text.array} failed: see {text.array}.diagnosis.txt"
    return Text(text.job, text.start, text.nodes, text.verdict, array=text.array, state=NONE, why=why)
