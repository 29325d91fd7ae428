"""What a site adds to the knowledge of the program: signatures, causes and rules, as values.

Reading them from a folder is an edge (`slurm_triage.site`); here is only which of them are in force in this process,
and which caches have to be forgotten when that changes. Nothing is in force unless somebody says so (`use`): the same
case gives the same diagnosis wherever it is judged without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from slurm_triage.model import Coverage

if TYPE_CHECKING:
    from slurm_triage.causes import Cause
    from slurm_triage.rules import Rule
    from slurm_triage.sources._catalog import Signature

P = ParamSpec("P")
T = TypeVar("T")

PREFIX = "site knowledge: "
"""Before the name of a file of the site, where it stands among files of the evidence."""


@dataclass(frozen=True)
class Extension:
    """Knowledge of a site.

    `signatures` are by the folder of the catalog that they belong to, `causes` by id; `problems` say what of it could
    not be used, for the coverage of every diagnosis.
    """

    signatures: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)
    causes: Mapping[str, Cause] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    problems: tuple[Coverage, ...] = ()


_caches: list[Callable[[], None]] = []
_in_force = Extension()


def current() -> Extension:
    """What is in force."""
    return _in_force


def use(extension: Extension) -> None:
    """Puts an extension in force, in place of the one before."""
    global _in_force
    _in_force = extension
    for forget in _caches:
        forget()


def cached(function: Callable[P, T]) -> Callable[P, T]:
    """As `functools.cache`, for a function whose result depends on what is in force."""
    kept = cache(function)
    _caches.append(kept.cache_clear)
    return kept  # type: ignore[return-value]  # typeshed: a wrapper that takes any hashable arguments
