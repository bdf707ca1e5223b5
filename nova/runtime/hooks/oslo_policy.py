"""Private parts of oslo.policy 6.0.1."""
from __future__ import annotations

from typing import Any

from oslo_policy import generator


def sample_of(rule: Any) -> str:
    """The lines of a rule in a sample of policy.yaml."""
    return str(generator._format_rule_default_yaml(rule, include_help=True))
