"""Private parts of oslo.policy 6.0.1."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
import functools
import importlib.metadata

from oslo_policy import _checks
from oslo_policy import generator
from oslo_policy import policy
import stevedore

BaseCheck = _checks.BaseCheck           # a parsed check
CHECKS = 'oslo.policy.rule_checks'       # entry points: kinds of checks in addition to those of oslo.policy's core


def sample_of(rule: policy.RuleDefault) -> str:
    """Return the lines of a rule in a sample of policy.yaml."""
    return str(generator._format_rule_default_yaml(rule, include_help=True))


def load_checks_on_use() -> None:
    """Load the checks that are entry points when a rule uses them.

    oslo.policy loads all of them for the first rule; those of http: and https: import ``requests``.
    """
    if _checks.extension_checks is None:
        _checks.extension_checks = _OnUse()      # type: ignore[assignment]


class _OnUse(Mapping[str, type[_checks.Check]]):
    """{kind: its class}. Unloadable kinds are missing, as in oslo.policy."""

    def __init__(self) -> None:
        self._names = {point.name for point in importlib.metadata.entry_points(group=CHECKS)}

    @functools.cached_property
    def _loaded(self) -> dict[str, type[_checks.Check]]:
        checks: stevedore.ExtensionManager[_checks.Check] = stevedore.ExtensionManager(CHECKS, invoke_on_load=False)
        return {found.name: found.plugin for found in checks}

    def __contains__(self, kind: object) -> bool:
        return kind in self._names and kind in self._loaded

    def __getitem__(self, kind: str) -> type[_checks.Check]:
        if kind not in self._names:
            raise KeyError(kind)
        return self._loaded[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)
