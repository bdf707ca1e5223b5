"""Authorization: evaluation of policy rules by oslo.policy, with cached results."""
from __future__ import annotations

import logging
import operator
import threading
import time
from collections.abc import Mapping
from typing import TypeVar

from oslo_config import cfg
from oslo_policy import policy as oslo_policy

from nova import exception
from nova import policies
from nova.context import RequestContext
from nova.policies import checks
from nova.policies import explain
from nova.policies import files
from nova.policies import legacy_names
from nova.policies import service as services
from nova.policies.explain import Values
from nova.runtime.hooks import oslo_policy as policy_hooks

LOG = logging.getLogger(__name__)

T = TypeVar('T')
Target = Mapping[str, str | None]   # attributes of a resource that rules can compare: project_id, user_id, …
CACHE_S = 10              # lifetime of cached results in seconds; then changed policy files are reloaded
CACHE_SIZE = 20000    # maximum number of cached results
# Attributes of a caller that rules can compare, except the two lists of roles; used in the keys of cached results.
_CALLER = operator.attrgetter('is_admin', *sorted(
    {*RequestContext(overwrite=False).to_policy_values()} - {'roles', 'service_roles'}))

checks.register()


def list_rules(service: services.Service = policies.COMPUTE) -> list[oslo_policy.RuleDefault]:
    """Return all rules with default, description and operations, for oslo.policy's sample generator."""
    return [*(oslo_policy.RuleDefault(name, check, description) for name, check, description in service.base),
            *(oslo_policy.DocumentedRuleDefault(
                rule.name, rule.check, rule.description,
                [{'method': method, 'path': path} for method, path in rule.operations],
                scope_types=list(rule.scope) if service is not policies.COMPUTE else None)
              for rule in service.rules)]


class Policy:
    """Effective rules of one API: the defaults, overridden by the policy files of that API.

    Changed files are reloaded within CACHE_S. If the changed files are invalid, the previous rules remain in effect.

    :param conf: configuration with policy_file in the service's group; None: the defaults
    :param service: the API
    :raises InvalidInput: a policy file is invalid
    """

    def __init__(self, conf: cfg.ConfigOpts | None, service: services.Service = policies.COMPUTE) -> None:
        self._conf, self.service = conf, service
        self._enforcer = oslo_policy.Enforcer(conf or cfg.ConfigOpts(), use_conf=False)
        self._answers: dict[tuple[object, ...], bool] = {}
        self._compared: dict[str, frozenset[str]] = {}
        self._expires_at: float = 0
        self._lock = threading.Lock()
        self._seen = files.signature(conf, service)
        self._added: dict[str, str] = {}
        self._warned: set[tuple[str, str]] = set()        # file and rule
        self._use(files.rules(conf, None, service))

    def add(self, rules: dict[str, str]) -> None:
        """Add rules of plugins; policy files override them.

        :param rules: {name: default check}
        :raises InvalidInput: a default is not a valid check
        """
        self._added.update(rules)
        self._use(files.rules(self._conf, self._added, self.service))

    def allows(self, context: RequestContext, rule: str, target: Target) -> bool:
        """Return whether a rule allows the caller to use a resource.

        :param target: attributes of the resource; may be empty
        """
        key = (rule, _CALLER(context), tuple(context.roles), tuple(context.service_roles), *target.items())
        if time.monotonic() > self._expires_at or len(self._answers) > CACHE_SIZE:
            self.forget()
        found = self._answers.get(key)
        if found is None:
            answers = self._answers
            found = answers[key] = bool(self._enforcer.enforce(rule, _present(target), self._values(context)))
        return found

    def compares(self, rule: str) -> frozenset[str]:
        """Return the names of the resource's attributes that are compared by a rule or by rules to which it refers."""
        compared = self._compared
        if rule not in compared:
            check = self.rules[rule].check
            compared[rule] = frozenset(files.compared(check)).union(*map(self.compares, files.references(check)))
        return compared[rule]

    def authorize(self, context: RequestContext, rule: str, target: Target) -> None:
        """:raises PolicyDenied: the rule does not allow the caller"""
        if not self.allows(context, rule, target):
            raise exception.PolicyDenied(rule=rule)

    def is_admin(self, context: RequestContext) -> bool:
        """Whether the caller is an administrator; evaluated once, when a request arrives.

        An administrator needs a token that is scoped to a project. Administrators with a domain-scoped or system-scoped
        token of the identity service have no rights on servers, networks, images and volumes.
        """
        return bool(context.project_id) and self.allows(context, self.service.admin, {})

    def explain(self, context: RequestContext, rule: str,
                target: Target) -> tuple[files.Rule, explain.Step]:
        """Return (the rule, its evaluated check). The rule must exist, see ``knows``."""
        values, present = self._values(context), _present(target)

        def ask(check: policy_hooks.BaseCheck) -> bool:
            return bool(self._enforcer.enforce(check, present, dict(values)))
        return self.rules[rule], explain.explain(self.rules[rule].check, self.rules, present, values, ask)

    def _values(self, context: RequestContext) -> Values:
        """Return the caller's values that rules can compare."""
        values = {**context.to_policy_values(), 'is_admin': bool(context.is_admin)}
        token: Values = {name: {'id': ident} for name, ident in (('domain', context.domain_id),) if ident}
        if context.project_domain_id:
            token['project'] = {'domain': {'id': context.project_domain_id}}
        return {**dict.fromkeys(self.service.none), **_present(values), 'token': token}

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
            seen = files.signature(self._conf, self.service)
            if seen == self._seen:
                return
            self._seen = seen
            self._use(files.rules(self._conf, self._added, self.service))
            LOG.info('Reloaded the changed policy files of the %s API.', self.service.name)
        except (exception.InvalidInput, OSError) as error:
            LOG.error('Cannot reload the policy files; the previous rules remain in effect: %s', error)

    def _use(self, rules: dict[str, files.Rule]) -> None:
        self.rules, self._compared = rules, {}
        self._enforcer.set_rules({name: rule.check for name, rule in rules.items()})
        written = {name: rule for name, rule in rules.items() if rule.source != files.DEFAULT}
        used = self._used(rules) if written else set()
        idle: dict[str, list[str]] = {}                   # {file: rules without an effect}
        for name, rule in written.items():
            if name in used or (rule.source, name) in self._warned:
                continue
            self._warned.add((rule.source, name))
            if self.service.extensions and name in legacy_names.NAMES:
                LOG.warning('The policy file %s has the rule %s, a legacy name. It applies to those of %s that no '
                            'file has: use those instead.', rule.source, name, ', '.join(legacy_names.NAMES[name]))
            elif name in self.service.absent or name in self.service.defaults:
                idle.setdefault(rule.source, []).append(name)
            else:
                LOG.warning('The policy file %s has the unknown rule %s, which has no effect.', rule.source, name)
        for source, names in idle.items():
            LOG.warning('The policy file %s has rules that have no effect, because the %s API does not have their '
                        'operations: %s.', source, self.service.name, ', '.join(sorted(names)))

    def _used(self, rules: dict[str, files.Rule]) -> set[str]:
        """Return the names of the rules that the API evaluates, and of the rules that they refer to."""
        if self.service.extensions:
            referred = {name for rule in rules.values() for name in files.references(rule.check)}
            return {name for name in rules if files.has_effect(name) or name in self._added or name in referred}
        used: set[str] = set()
        waiting = {*self.service.guards, self.service.admin} & rules.keys()
        while waiting:
            name = waiting.pop()
            used.add(name)
            waiting |= {*files.references(rules[name].check)} - used
        return used


class Policies:
    """The effective rules of the APIs of one process, with one Policy for each API.

    :param conf: see Policy
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._made: dict[str, Policy] = {}

    def of(self, service: services.Service = policies.COMPUTE) -> Policy:
        """Return the rules of an API.

        :raises InvalidInput: a policy file is invalid
        """
        if service.name not in self._made:
            self._made[service.name] = Policy(self._conf, service)
        return self._made[service.name]


def _present(values: Mapping[str, T | None]) -> dict[str, T]:
    """Remove absent values, so that a check of an absent value fails.

    Rules compare values as strings, so two absent values would both be 'None' and equal.
    """
    return {name: value for name, value in values.items() if value is not None and value != ''}
