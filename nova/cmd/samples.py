"""Samples of nova.conf and policy.yaml, generated from the declarations in the code."""
import importlib.metadata
import io
import logging
import re
from typing import TextIO

NAMESPACES = ('nova', 'oslo.log', 'oslo.messaging', 'oslo.policy', 'oslo.reports', 'keystonemiddleware.auth_token')


def configuration(output: TextIO, namespaces: tuple[str, ...] = NAMESPACES) -> None:
    from oslo_config import cfg
    from oslo_config import generator

    installed = {point.name for point in importlib.metadata.entry_points(group='oslo.config.opts')}
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf([argument for name in namespaces if name in installed for argument in ('--namespace', name)],
         default_config_files=[])
    logging.getLogger('oslo_config.generator').setLevel(logging.ERROR)
    generated = io.StringIO()
    generator.generate(conf, generated)
    output.write(_with_defaults(generated.getvalue()))


def _with_defaults(sample: str) -> str:
    """Return a sample with the defaults that this project sets for options of libraries."""
    from nova.identity import auth
    from nova.rpc import bus
    from nova.runtime import log
    defaults = {**bus.DEFAULTS, (None, 'default_log_levels'): ','.join(log.LEVELS),
                ('keystone_authtoken', 'http_connect_timeout'): auth.KEYSTONE_S}
    for (group, name), value in defaults.items():
        shown = '<None>' if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        sample = re.sub(rf'(^\[{group or "DEFAULT"}\]\n(?:(?!\[).*\n)*?#{name} = ).*',
                        rf'\g<1>{shown}', sample, count=1, flags=re.MULTILINE)
    return sample


def policy(output: TextIO, service: str = 'compute') -> None:
    """Write the policy file of an API with all of its rules.

    :param service: name of one of policies.SERVICES
    """
    from nova import policies
    from nova import policy as nova_policy
    from nova.cmd import policy as operations
    from nova.runtime.hooks import oslo_policy

    for rule in nova_policy.list_rules(operations.documented(policies.named(service))):
        output.write(oslo_policy.sample_of(rule) + '\n')
