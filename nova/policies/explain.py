"""Explanation of a policy check: a tree of its parts with their results."""
from __future__ import annotations

from collections.abc import Callable, Iterator
import dataclasses
from typing import TYPE_CHECKING

from oslo_policy import policy as oslo_policy

from nova.json_types import JsonObject
from nova.policies import files

if TYPE_CHECKING:
    from nova.runtime.hooks.oslo_policy import BaseCheck

Values = JsonObject


@dataclasses.dataclass(frozen=True)
class Step:
    """A check, or one of the checks that it combines, with its result.

    :ivar text: the check
    :ivar passes: its result
    :ivar note: the compared values, or ''
    :ivar inner: Steps of its parts
    :ivar decides: whether it determines the result of the enclosing part
    """

    text: str
    passes: bool
    note: str = ''
    inner: tuple[Step, ...] = ()
    decides: bool = False


def explain(check: BaseCheck, rules: dict[str, files.Rule], target: dict[str, str], values: Values,
            ask: Callable[[BaseCheck], bool]) -> Step:
    """Return the Step of a parsed check.

    :param rules: {name: files.Rule}
    :param target: {'project_id', 'user_id'} of the resource
    :param values: values of the caller for the rules
    :param ask: function(check) -> whether the caller passes it
    """
    def again(inner: BaseCheck) -> Step:
        return explain(inner, rules, target, values, ask)
    passes = ask(check)
    if isinstance(check, (oslo_policy.AndCheck, oslo_policy.OrCheck)):
        text = 'all of' if isinstance(check, oslo_policy.AndCheck) else 'one of'
        return Step(text, passes, inner=_decided([again(inner) for inner in check.rules], passes, text == 'one of'))
    if isinstance(check, oslo_policy.NotCheck):
        return Step('not', passes, inner=(dataclasses.replace(again(check.rule), decides=True),))
    if isinstance(check, oslo_policy.RuleCheck) and check.match in rules:
        return Step(str(check), passes, inner=(dataclasses.replace(again(rules[check.match].check), decides=True),))
    return Step(str(check), passes, _note(check, target, values))


def _decided(steps: list[Step], passes: bool, one_is_enough: bool) -> tuple[Step, ...]:
    """Mark the parts that decide the result of a "one of" or "all of" check.

    The first passing part decides a "one of" that passes. The first failing part decides an "all of" that fails.
    Otherwise all parts decide.
    """
    if passes == one_is_enough:
        first = next(number for number, step in enumerate(steps) if step.passes == passes)
        return tuple(dataclasses.replace(step, decides=number == first) for number, step in enumerate(steps))
    return tuple(dataclasses.replace(step, decides=True) for step in steps)


def _note(check: BaseCheck, target: dict[str, str], values: Values) -> str:
    if not isinstance(check, oslo_policy.Check):
        return {'@': 'every caller', '!': 'no caller'}.get(str(check), '')
    if check.kind == 'role':
        roles = values['roles']
        assert isinstance(roles, (list, tuple))
        return f'the roles are {", ".join(sorted(map(str, roles))) or "none"}'
    try:
        wanted = check.match % target
    except (KeyError, TypeError, ValueError):
        return 'the target has no such value'
    return f'{wanted or "nothing"} is required, the caller has {values.get(check.kind) or "nothing"}'


def lines(step: Step, depth: int = 0, mark: bool = True) -> Iterator[str]:
    """Yield a Step and its parts as lines of text; deciding parts are marked."""
    note = f' ({step.note})' if step.note else ''
    arrow = '  <- decides' if mark and not step.inner else ''
    yield f'{"  " * depth}{step.text}: {"passes" if step.passes else "fails"}{note}{arrow}'
    for inner in step.inner:
        yield from lines(inner, depth + 1, mark and inner.decides)
