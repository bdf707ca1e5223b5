"""nova-network: addresses, bridges, DHCP and filters of one host, and the metadata service on its bridge.

Two processes when root starts it: one touches the host and does what nova.network.linux.remote lists; the other, an
ordinary user, has the database, the broker and the metadata listener.
"""
import logging
import os

from nova.cmd import common

LOG = logging.getLogger(__name__)


def split(conf):
    """Become [privileges] user; the Helper that keeps root's rights, None where none are needed or nobody is left."""
    from nova.network.linux import remote
    from nova.runtime import host_identity
    from nova.runtime import privileges

    user = privileges.account(conf.privileges.user)
    if user is None:
        return None
    conf.set_override('state_path', host_identity.state_path(conf))  # the default is another for an ordinary user
    helper = None
    if conf.network.driver == 'linux':
        helper = privileges.Helper(remote.operations(conf))
        helper.fork()
    written = [host_identity.IdentityFile(conf, 'nova-network', conf.host).path]
    if conf.log_file or conf.log_dir:
        written.append(os.path.join(conf.log_dir or '', conf.log_file or 'nova-network.log'))
    privileges.become(user, written)
    return helper


def parts(conf, helper):
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus

    if helper is not None:
        LOG.info('Process %s touches the host for this one, whose user is %s.', helper.pid, os.geteuid())
    bus = rpc_bus.Bus(conf)
    api_db, cells = assembly.checked_databases(conf, bus)
    return [*([helper] if helper else ()), assembly.needs(bus, api_db),
            assembly.network(conf, bus, conf.host, api_db, cells.default.db, helper),
            *assembly.metadata(conf, api_db, cells)]


def main():
    return common.run('nova-network', parts, split=split)
