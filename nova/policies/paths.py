"""Paths of the policy files. Daemons without policies use this module too, so it does not import oslo.policy."""
from __future__ import annotations

import os

from oslo_config import cfg

from nova import exception
from nova import policies
from nova.policies.service import Service

SUFFIXES = ('.yaml', '.yml', '.json', '.conf')


def paths(conf: cfg.ConfigOpts | None, service: Service = policies.COMPUTE) -> list[str]:
    """Return the paths of the policy files, in the order in which the files are read.

    :raises InvalidInput: the configured main file does not exist, or a directory cannot be read
    """
    if conf is None:
        return []
    name = conf[service.group].policy_file
    main = conf.find_file(name)
    if main is None and name != service.file:
        raise exception.InvalidInput(f'The policy file {name} of [{service.group}] policy_file does not exist.')
    found = [main] if main else []
    for directory in conf.oslo_policy.policy_dirs if service is policies.COMPUTE else ():
        directory = conf.find_file(directory)
        if directory:
            try:
                names = sorted(os.listdir(directory))
            except OSError as error:
                raise exception.InvalidInput(f'Cannot read the policy directory {directory}: {error}.') from None
            found += [os.path.join(directory, each) for each in names
                      if each.endswith(SUFFIXES) and not each.startswith('.')]
    return found
