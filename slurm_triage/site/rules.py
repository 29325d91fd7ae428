"""`rules/*.py` of a site: run once as modules of the package `slurm_triage_site`, from the bytes that were checked.

Nothing is imported by name from the folder, and nothing is written there (no `__pycache__`). Files whose name begins
with `_` hold what several rules share: `from slurm_triage_site._common import ...`; they come first.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from slurm_triage.causes import Cause
from slurm_triage.rules import Rule, rules_of
from slurm_triage.site.causes import Bad, own_causes

PACKAGE = "slurm_triage_site"
NEVER = frozenset({"unknown", "no_failure", "array_mixed"})
"""What no rule of a site may say: that nothing is known, that nothing happened, and the sum of several answers."""


def forget() -> None:
    """Forgets modules of a folder that was read before."""
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
    package = ModuleType(PACKAGE)
    package.__path__ = []
    sys.modules[PACKAGE] = package


def rules_in(file: str, path: str, text: str, causes: Mapping[str, Cause]) -> Iterator[Rule | Bad]:
    """The rules of one file, with the file's name, and what is wrong with those that are left out.

    Raises `Bad` for a file that cannot be run; whatever else it raises is the caller's to catch.
    """
    module = _run(Path(file).stem, path, text)
    known = own_causes().keys() | causes.keys()
    count = 0
    for rule in rules_of(module):
        count += 1
        line = getattr(getattr(rule.judge, "__code__", None), "co_firstlineno", None)
        unknown = [cause for cause in (rule.cause, *rule.supersedes) if cause not in known]
        if unknown:
            yield Bad(f"{unknown[0]!r} is no cause: put it into causes.toml", line)
        elif rule.cause in NEVER:
            yield Bad(f"a rule of a site cannot say {rule.cause}", line)
        else:
            yield replace(rule, file=file)
    if not count and not Path(file).stem.startswith("_"):
        yield Bad("holds no rule: a function with @rule(CAUSE)")


def _run(stem: str, path: str, text: str) -> ModuleType:
    try:
        code = compile(text, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise Bad(f"not Python: {error.msg}", error.lineno) from error
    except ValueError as error:  # NUL bytes
        raise Bad(f"not Python: {error}") from error
    name = f"{PACKAGE}.{stem}"
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    try:
        exec(code, vars(module))  # the file is the administrator's, as safe as his other configuration (see `safe`)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        raise Bad(f"cannot be run: {type(error).__name__}: {error}", frames[-1].lineno if frames else None) from error
    return module
