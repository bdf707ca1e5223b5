"""Rules of one API, the operations or fields that each rule guards, and the option that names the policy file."""
from __future__ import annotations

from collections.abc import Mapping
import dataclasses
import functools
from typing import NamedTuple

Operations = tuple[tuple[str, str], ...]         # (method, path)
PROJECT = ('project',)


class Rule(NamedTuple):
    """A rule that guards operations, or a field of their bodies or answers.

    :ivar check: default check
    :ivar operations: operations in the documentation; empty: those of the routes that check the rule
    :ivar scope: scopes of the tokens that it accepts: project (also for unscoped tokens), domain, system
    """

    name: str
    check: str
    description: str
    operations: Operations = ()
    scope: tuple[str, ...] = PROJECT


@dataclasses.dataclass(frozen=True)
class Service:
    """An API and its rules.

    :ivar name: name of the API in messages and for ``nova-policy --service``
    :ivar group: group of the option policy_file
    :ivar file: default of that option; the file is optional only under this name
    :ivar base: (rule, check, description) that other rules refer to
    :ivar rules: rules that guard an operation or a field
    :ivar absent: {rule: default} of documented rules whose operation or field this API does not have
    :ivar admin: base rule that administrators pass
    :ivar extensions: whether a file may name an extension or a legacy rule in place of several rules
    :ivar none: values of a caller that rules compare as the text None if the caller has none
    """

    name: str
    group: str
    file: str
    base: tuple[tuple[str, str, str], ...]
    rules: tuple[Rule, ...]
    absent: Mapping[str, str] = dataclasses.field(default_factory=dict)
    admin: str = 'context_is_admin'
    extensions: bool = False
    none: tuple[str, ...] = ()

    @functools.cached_property
    def defaults(self) -> dict[str, str]:
        """{rule: default check} of the base rules and of the rules that guard operations or fields."""
        return {name: check for name, check, _description in self.base} | {
            rule.name: rule.check for rule in self.rules}

    @functools.cached_property
    def guards(self) -> frozenset[str]:
        """Names of the rules that guard operations or fields."""
        return frozenset(rule.name for rule in self.rules)

    @functools.cached_property
    def scopes(self) -> dict[str, tuple[str, ...]]:
        """{rule: accepted scopes}"""
        return {rule.name: rule.scope for rule in self.rules}


def names(blocks: Mapping[str, str]) -> dict[str, str]:
    """Convert {default check: rule names separated by white space} to {rule: default check}."""
    return {name: check for check, text in blocks.items() for name in text.split()}
