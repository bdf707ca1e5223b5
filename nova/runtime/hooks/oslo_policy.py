"""Private parts of oslo.policy 6.0.1."""
from oslo_policy import _checks
from oslo_policy import generator
from oslo_policy import policy

BaseCheck = _checks.BaseCheck           # a parsed check


def sample_of(rule: policy.RuleDefault) -> str:
    """Return the lines of a rule in a sample of policy.yaml."""
    return str(generator._format_rule_default_yaml(rule, include_help=True))
