"""Authorization: evaluation of policy rules by oslo.policy, with cached results."""
from __future__ import annotations

import logging
import operator
import threading
import time
from collections.abc import Mapping
from typing import TypeVar

from oslo_config.cfg import ConfigOpts
from oslo_policy import policy as oslo_policy

from nova import exception
from nova import policies
from nova.context import RequestContext
from nova.policies import explain
from nova.policies import files
from nova.policies import legacy_names
from nova.runtime.hooks import oslo_policy as policy_hooks

LOG = logging.getLogger(__name__)

T = TypeVar('T')
Target = dict[str, str | None]      # {'project_id', 'user_id'} of a resource
CACHE_S = 10              # seconds until a changed policy file takes effect for callers with cached results
CACHE_SIZE = 20000    # cached results
# Attributes of a caller that rules can compare; the two lists of roles are added separately.
_CALLER = operator.attrgetter('is_admin', *sorted(
    {*RequestContext(overwrite=False).to_policy_values()} - {'roles', 'service_roles'}))

policy_hooks.load_checks_on_use()


def list_rules() -> list[oslo_policy.RuleDefault]:
    """Return all rules with default, description and operations, for oslo.policy's sample generator."""
    return [*(oslo_policy.RuleDefault(name, check, description)
              for name, check, description in policies.BASE_RULES),
            *(oslo_policy.DocumentedRuleDefault(
                name, check, description, [{'method': method, 'path': path} for method, path in operations])
              for name, check, description, operations in policies.RULES)]


class Policy:
    """Effective rules of a deployment: the defaults, overridden by policy.yaml and policy.d.

    Changed files are reloaded within CACHE_S. If they are invalid, the previous rules remain in effect.

    :param conf: configuration with [oslo_policy] policy_file and policy_dirs
    :raises InvalidInput: a policy file is invalid
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._conf = conf
        self._enforcer = oslo_policy.Enforcer(conf, use_conf=False)
        self._answers: dict[tuple[object, ...], bool] = {}
        self._expires_at: float = 0
        self._lock = threading.Lock()
        self._seen = files.signature(conf)
        self._added: dict[str, str] = {}
        self._warned: set[tuple[str, str]] = set()        # file and rule
        self._use(files.rules(conf))

    def add(self, rules: dict[str, str]) -> None:
        """Add rules of plugins; policy files override them.

        :param rules: {name: default check}
        :raises InvalidInput: a default is not a valid check
        """
        self._added.update(rules)
        self._use(files.rules(self._conf, self._added))

    def allows(self, context: RequestContext, rule: str, target: Target) -> bool:
        """Return whether a rule allows the caller to use a resource.

        :param target: {'project_id', 'user_id'} of the resource; may be empty
        """
        key = (rule, _CALLER(context), tuple(context.roles), tuple(context.service_roles), *target.items())
        if time.monotonic() > self._expires_at or len(self._answers) > CACHE_SIZE:
            self.forget()
        found = self._answers.get(key)
        if found is None:
            answers = self._answers
            found = answers[key] = bool(self._enforcer.enforce(rule, _present(target), _values(context)))
        return found

    def authorize(self, context: RequestContext, rule: str, target: Target) -> None:
        """:raises PolicyDenied: the rule does not allow the caller"""
        if not self.allows(context, rule, target):
            raise exception.PolicyDenied(rule=rule)

    def is_admin(self, context: RequestContext) -> bool:
        """Whether the caller is an administrator; evaluated once, when a request arrives.

        An administrator needs a token that is scoped to a project. Administrators with a domain-scoped or system-scoped
        token of the identity service have no rights on servers, networks, images and volumes.
        """
        return bool(context.project_id) and self.allows(context, 'context_is_admin', {})

    def explain(self, context: RequestContext, rule: str,
                target: Target) -> tuple[files.Rule, explain.Step]:
        """Return (files.Rule, explain.Step of its check) for a rule; ``knows`` must be true for the rule."""
        values, present = _values(context), _present(target)

        def ask(check: policy_hooks.BaseCheck) -> bool:
            return bool(self._enforcer.enforce(check, present, dict(values)))
        return self.rules[rule], explain.explain(self.rules[rule].check, self.rules, present, values, ask)

    def forget(self) -> None:
        """Discard the cached results and reload changed files."""
        with self._lock:
            self._expires_at = time.monotonic() + CACHE_S
            self._take_up()
            self._answers = {}

    def knows(self, rule: str) -> bool:
        return rule in self.rules

    def _take_up(self) -> None:
        """Reload the files if they have changed."""
        try:
            seen = files.signature(self._conf)
            if seen == self._seen:
                return
            self._seen = seen
            self._use(files.rules(self._conf, self._added))
            LOG.info('Reloaded the changed policy files.')
        except (exception.InvalidInput, OSError) as error:
            LOG.error('Cannot reload the policy files; the previous rules remain in effect: %s', error)

    def _use(self, rules: dict[str, files.Rule]) -> None:
        self.rules = rules
        self._enforcer.set_rules({name: rule.check for name, rule in rules.items()})
        written = {name: rule for name, rule in rules.items() if rule.source != files.DEFAULT}
        if not written:
            return
        referred = {name for rule in rules.values() for name in files.references(rule.check)}
        for name, rule in written.items():
            used = files.has_effect(name) or name in self._added or name in referred
            if used or (rule.source, name) in self._warned:
                continue
            self._warned.add((rule.source, name))
            if name in legacy_names.NAMES:
                LOG.warning('The policy file %s has the rule %s, a legacy name. It applies to %s if no file has '
                            'these: use these names instead.', rule.source, name, ', '.join(legacy_names.NAMES[name]))
            else:
                LOG.warning('The policy file %s has the unknown rule %s, which has no effect.', rule.source, name)


def _values(context: RequestContext) -> explain.Values:
    """Return the values of a caller that rules can compare."""
    return _present({**context.to_policy_values(), 'is_admin': bool(context.is_admin)})


def _present(values: Mapping[str, T | None]) -> dict[str, T]:
    """Remove absent values, so that a check of an absent value fails. Rules compare strings, and 'None' equals
    'None'.
    """
    return {name: value for name, value in values.items() if value is not None and value != ''}
