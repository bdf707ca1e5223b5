"""Samples of nova.conf and policy.yaml, generated from the declarations in the code."""
import importlib.metadata
import logging
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
    generator.generate(conf, output)


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
