"""nova-all: a whole cloud in one process, with two privileged processes if root starts it."""
from __future__ import annotations

import logging
import os
import sys
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.cmd import command_line
from nova.cmd import common

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.cloud.all_in_one import Cloud
    from nova.runtime.privileges import Helper

LOG = logging.getLogger(__name__)
Helpers = dict[str, 'Helper']             # {name of Cloud's argument: privileged process}
DESCRIPTION = ('Runs a whole cloud in one process. It also accepts the options of nova.conf; --help-options lists '
               'them.')


def new_parser() -> command_line.Parser:
    """Return the parser of the command line."""
    parser = command_line.Parser('nova-all', description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument('--listen', metavar='ADDRESS', help='address to listen on (127.0.0.1)')
    parser.add_argument('--port', type=int, help='port to listen on (8774)')
    parser.add_argument('--state-path', metavar='DIRECTORY', type=os.path.abspath,
                        help='directory of all persistent data (/var/lib/nova for root, ~/.local/share/nova for '
                             'others)')
    parser.add_argument('--driver', choices=('auto', 'libvirt', 'fake'),
                        help='libvirt: QEMU guests on real networks. fake: no guests and no networks. auto '
                             '(default): on the first start libvirt if it works, otherwise fake; later the '
                              'driver of the first start')
    parser.add_argument('--help-options', action='store_true', help='list the options of the configuration')
    command_line.show_version(parser)
    return parser


def main() -> int:
    given, rest = new_parser().parse_known_args()
    if given.help_options:
        rest.append('--help')
    overrides = {name: value for name, value in (
        ('http__listen', given.listen), ('http__port', given.port), ('state_path', given.state_path),
    ) if value is not None}
    return common.run('nova-all', _parts, rest, split=lambda conf: _split(conf, given.driver), **overrides)


def _split(conf: cfg.ConfigOpts, driver: str | None) -> Helpers:
    """Choose the drivers and switch to [privileges] user. Return the Helpers, processes that keep root's rights."""
    from nova.cloud import drivers
    from nova.cmd import ordinary

    reason = drivers.choose(conf, driver)
    if reason:
        print(f'nova-all: {reason}', file=sys.stderr)
    user = ordinary.prepare(conf, 'nova-all')
    helpers: Helpers = {}
    if user is None:
        return helpers
    if conf.network.driver == 'linux' and conf.network.backend == 'embedded':
        from nova.network.linux import remote as network_remote
        helpers['network_helper'] = network_remote.helper(conf)
    if ordinary.runs_guests(conf, 'nova-all'):
        helpers['guest_helper'] = ordinary.guest_helper(conf, user)
    made: list[Helper] = []
    for helper in helpers.values():
        helper.fork(made)
        made.append(helper)
    ordinary.become(conf, 'nova-all', user, ports(conf))
    return helpers


def ports(conf: cfg.ConfigOpts) -> tuple[int | None, ...]:
    """Return the ports that nova-all listens at; None or 0 for a listener that is off."""
    store = conf.objectstore.port if conf.objectstore.enabled else None
    return conf.http.port, conf.metadata.port, conf.monitoring.port, store


def _parts(conf: cfg.ConfigOpts, helpers: Helpers) -> list[Any]:
    for helper in helpers.values():
        LOG.info('Process %s runs privileged operations for this process, which has uid %s.', helper.pid, os.geteuid())
    return [*helpers.values(), _Announced(cloud(conf, helpers))]


def cloud(conf: cfg.ConfigOpts, helpers: Helpers) -> Cloud:
    from nova.cloud import all_in_one as cloud

    if conf.network.agent:
        raise exception.InvalidInput(reason='[network] agent is only for deployments of several hosts: nova-all '
                                            'runs the network service itself.')

    if conf.http.workers > 1:
        raise exception.InvalidInput(reason=f'nova-all is one process, but [http] workers is {conf.http.workers}. Run '
                                            'nova-api and the other daemons instead.')

    more = conf.fake.hosts if conf.compute_driver == 'fake' else 1
    return cloud.Cloud(conf, [conf.host, *(f'{conf.host}-{number}' for number in range(2, more + 1))], **helpers)


class _Announced:
    """Prints the URL, the driver, and the client configuration of the cloud when it starts."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.stop, self.reload, self.parts = cloud, cloud.stop, cloud.reload, [cloud]

    def start(self) -> None:
        self.cloud.start()
        print(f'The cloud serves at {self.cloud.url}, driver {self.cloud.conf.compute_driver}, state in '
              f'{self.cloud.state_path}.\nexport OS_CLIENT_CONFIG_FILE={self.cloud.clouds_yaml} '
              'OS_CLOUD=nova-admin', flush=True)
