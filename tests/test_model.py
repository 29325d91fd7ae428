"""Values: frozen, equal by what they hold, and made as dataclasses make them."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import pytest

from slurm_triage import model
from slurm_triage.model import Cite, Event, Fact, HookEnv, Sign, Stamp

VALUES = [value for value in vars(model).values() if inspect.isclass(value) and is_dataclass(value)]


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_values_are_made_as_dataclasses_make_them(kind: type) -> None:
    names = [one.name for one in fields(kind)]
    made = kind(*names)
    assert [getattr(made, name) for name in names] == names
    assert made == kind(**{name: name for name in names}) and hash(made) == hash(kind(*names))
    assert repr(made) == f"{kind.__name__}({', '.join(f'{name}={name!r}' for name in names)})"
    assert replace(made, **{names[0]: "x"}) != made and pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(FrozenInstanceError):
        setattr(made, names[0], "x")
    with pytest.raises(TypeError):
        kind(*names, "one too many")
    with pytest.raises(TypeError):
        kind(nothing="of it")


def test_defaults_and_bases() -> None:
    cite = Cite("sacct", "sacct.psv", 2, "x")
    assert (cite.node, cite.at) == (None, None) and Fact("x", None) == Fact("x", None, (), "", "")
    first, second = Sign(cite), Sign(cite)
    assert first.fields == {} and first.fields is not second.fields and isinstance(first, Event)
    env = HookEnv(cite, "7", hook="epilog_slurmd")
    assert (env.job, env.step, env.values, env.forgeable) == ("7", None, {}, True)
    assert Stamp(1.0, hi=2.0) == Stamp(1.0, 2.0, True)
    with pytest.raises(TypeError, match="text"):
        Cite("sacct", "sacct.psv", 2)  # type: ignore[call-arg]
