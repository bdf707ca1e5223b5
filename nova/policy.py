"""May they: rules evaluated by oslo.policy, with a configuration of our own, remembered for a short while."""
import threading
import time

from oslo_policy import policy as oslo_policy

from nova import exception
from nova import policies

REMEMBERED_S = 10         # how long a changed policy file may stay unnoticed by callers that asked before
MAX_REMEMBERED = 20000    # answers


def list_rules():
    """For oslo.policy's sample generator: every rule with its default, its meaning and its operations."""
    return [*(oslo_policy.RuleDefault(name, check, description)
              for name, check, description in policies.BASE_RULES),
            *(oslo_policy.DocumentedRuleDefault(
                name, check, description, [{'method': method, 'path': path} for method, path in operations])
              for name, check, description, operations in policies.RULES)]


class Policy:
    """The rules of one deployment: the defaults, and what policy.yaml and policy.d change of them.

    :param conf: [oslo_policy] policy_file and policy_dirs are read from it
    """

    def __init__(self, conf):
        self._enforcer = oslo_policy.Enforcer(conf)
        self._enforcer.register_defaults(list_rules())
        self._enforcer.load_rules()
        self._answers, self._forget_at = {}, 0
        self._lock = threading.Lock()

    def allows(self, context, rule, target):
        """Whether the caller passes a rule for a resource.

        :param target: {'project_id', 'user_id'} of the resource (what rules compare with); may be empty
        """
        key = (rule, context.project_id, context.user_id, tuple(context.roles), context.is_admin,
               context.system_scope, context.domain_id, context.project_domain_id, context.user_domain_id,
               tuple(context.service_roles), *target.items())
        if time.monotonic() > self._forget_at or len(self._answers) > MAX_REMEMBERED:
            self.forget()
        found = self._answers.get(key)
        if found is None:
            answers = self._answers
            found = answers[key] = self._evaluate(context, rule, target)
        return found

    def authorize(self, context, rule, target):
        """:raises PolicyDenied: the caller does not pass the rule"""
        if not self.allows(context, rule, target):
            raise exception.PolicyDenied(rule=rule)

    def is_admin(self, context):
        """Whether the caller is an administrator: decided once, when a request enters."""
        return self.allows(context, 'context_is_admin', {})

    def forget(self):
        """Evaluate every rule anew from now on; files that changed are read again then."""
        self._answers = {}
        self._forget_at = time.monotonic() + REMEMBERED_S

    def knows(self, rule):
        return rule in self._enforcer.registered_rules

    def _evaluate(self, context, rule, target):
        credentials = {**context.to_policy_values(), 'is_admin': bool(context.is_admin)}
        with self._lock:                    # reading files again is not safe in two threads
            self._enforcer.load_rules()
        return bool(self._enforcer.enforce(rule, target, credentials))
