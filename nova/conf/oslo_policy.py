"""[oslo_policy]: where the policy files are (options of oslo.policy)."""
from oslo_policy import opts

GROUP = 'oslo_policy'
OPTIONS = [option for _group, options in opts.list_opts() for option in options]
