"""nova-network: addresses, bridges, DHCP and filters of one host, and the metadata service on its bridge.

With [network] agent it has no database, and gets data from network services over the message queue.

If root starts it, it has two processes. One process changes the host's network and runs the steps that
nova.network.linux.remote lists. The other runs as an ordinary user; it has the database, the broker and the metadata
listener.
"""
from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from nova import exception
from nova.cmd import common

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db.engine import Database
    from nova.rpc.bus import Bus
    from nova.runtime import service
    from nova.runtime.privileges import Helper

LOG = logging.getLogger(__name__)


def split(conf: cfg.ConfigOpts) -> Helper | None:
    """Switch to [privileges] user. Return the Helper, a process that keeps root's rights, or None if there is none."""
    from nova.cmd import ordinary
    from nova.network.linux import remote

    user = ordinary.prepare(conf, 'nova-network')
    if user is None:
        return None
    helper = None
    if conf.network.driver == 'linux' and conf.network.backend == 'embedded':
        helper = remote.helper(conf)
        helper.fork()
    ordinary.become(conf, 'nova-network', user, (conf.metadata.port, conf.monitoring.port))
    return helper


def parts(conf: cfg.ConfigOpts, helper: Helper | None) -> list[service.Part]:
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus

    if helper is not None:
        LOG.info('Process %s runs privileged operations for this process, which has uid %s.', helper.pid, os.geteuid())
    if conf.network.agent and conf.network.backend == 'neutron':
        raise exception.InvalidInput(reason='[network] agent and backend = neutron exclude each other: the '
                                            'Networking service has its own agents.')
    bus = rpc_bus.Bus(conf)
    if conf.network.agent:
        return [*([helper] if helper else ()), assembly.needs(bus), assembly.enrolled(conf, bus),
                assembly.network_agent(conf, bus.of_host(conf.host), conf.host, helper)]
    api_db, cells = assembly.checked_databases(conf, bus, sign=False)
    more = assembly.metadata(conf, api_db, cells)
    if _is_control_plane(conf) and _signs_as_deployment(bus, api_db):
        return [assembly.needs(bus, api_db), assembly.network(conf, bus, conf.host, api_db, cells.default.db), *more]
    return [*([helper] if helper else ()), assembly.needs(bus, api_db), assembly.enrolled(conf, bus, api_db),
            assembly.network(conf, bus.of_host(conf.host), conf.host, api_db, cells.default.db, helper), *more]


def _is_control_plane(conf: cfg.ConfigOpts) -> bool:
    """Return whether this service serves agents and leaves its own host's network unchanged.

    Agents accept messages of other hosts only if the deployment's key has signed them. Services that serve agents use
    this key, and run on the hosts of the conductors.
    """
    return bool(conf.network.backend == 'embedded' and conf.network.driver == 'fake' and not conf.network.routers)


def _signs_as_deployment(bus: Bus, api_db: Database) -> bool:
    """Sign with the deployment's key; return False if the database account may not read the key."""
    from oslo_db import exception as db_exc

    from nova.cloud import assembly

    try:
        assembly.sign_as_deployment(bus, api_db)
    except db_exc.DBError as error:
        LOG.warning('The database account of this service cannot read the key of the deployment, so agents refuse its '
                    'messages and get changes only with their next report (about 2 s). Use the account of the '
                    'conductors. %s', error)
        return False
    return True


def main() -> int:
    return common.run('nova-network', parts, split=split)
