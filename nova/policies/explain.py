"""Why a check passes or fails: its parts, each with its own answer, and which of them decided."""
from __future__ import annotations

from collections.abc import Callable, Iterator
import dataclasses
from typing import Any

from nova.policies import files


@dataclasses.dataclass(frozen=True)
class Step:
    """One part of a check.

    text      the check
    passes    the answer
    note      the values that were compared, or ''
    inner     the Steps that it is made of
    decides   it made the answer of the part around it what it is
    """

    text: str
    passes: bool
    note: str = ''
    inner: tuple[Step, ...] = ()
    decides: bool = False


def explain(check: Any, rules: dict[str, files.Rule], target: dict[str, Any], values: dict[str, Any],
            ask: Callable[[Any], Any]) -> Step:
    """The Step of a parsed check.

    :param rules: {name: files.Rule}
    :param target: {'project_id', 'user_id'} of the resource
    :param values: of the caller, as rules compare with them
    :param ask: function(check) -> whether the caller passes it
    """
    def again(inner: Any) -> Step:
        return explain(inner, rules, target, values, ask)
    passes = bool(ask(check))
    several = getattr(check, 'rules', None)
    if several is not None:
        text = 'all of' if type(check).__name__ == 'AndCheck' else 'one of'
        return Step(text, passes, inner=_decided([again(inner) for inner in several], passes, text == 'one of'))
    if hasattr(check, 'rule'):
        return Step('not', passes, inner=(dataclasses.replace(again(check.rule), decides=True),))
    if getattr(check, 'kind', None) == 'rule' and check.match in rules:
        return Step(str(check), passes, inner=(dataclasses.replace(again(rules[check.match].check), decides=True),))
    return Step(str(check), passes, _note(check, target, values))


def _decided(steps: list[Step], passes: bool, one_is_enough: bool) -> tuple[Step, ...]:
    """Mark what decided: the first that passes of "one of", the first that fails of "all of", else all."""
    if passes == one_is_enough:
        first = next(number for number, step in enumerate(steps) if step.passes == passes)
        return tuple(dataclasses.replace(step, decides=number == first) for number, step in enumerate(steps))
    return tuple(dataclasses.replace(step, decides=True) for step in steps)


def _note(check: Any, target: dict[str, Any], values: dict[str, Any]) -> str:
    kind, match = getattr(check, 'kind', None), getattr(check, 'match', '')
    if kind is None:
        return {'@': 'every caller', '!': 'no caller'}.get(str(check), '')
    if kind == 'role':
        return f'the roles are {", ".join(sorted(values["roles"])) or "none"}'
    try:
        wanted = match % target
    except (KeyError, TypeError, ValueError):
        return 'the target has no such value'
    return f'{wanted or "nothing"} is required, the caller has {values.get(kind) or "nothing"}'


def lines(step: Step, depth: int = 0, mark: bool = True) -> Iterator[str]:
    """A Step and its parts as lines of text; what decided is marked."""
    note = f' ({step.note})' if step.note else ''
    arrow = '  <- decides' if mark and not step.inner else ''
    yield f'{"  " * depth}{step.text}: {"passes" if step.passes else "fails"}{note}{arrow}'
    for inner in step.inner:
        yield from lines(inner, depth + 1, mark and inner.decides)
