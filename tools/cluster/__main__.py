"""The commands of tools/cluster.sh."""
import argparse
import os
import shutil
import sys
import time
import urllib.request

from cluster import ceph
from cluster import hosts
from cluster import neutron
from cluster import parts
from cluster import prepare
from cluster import settings
from steps import step
from steps import concurrently


def _start(rows):
    """Start at the same time what does not run, and wait until all of it serves."""
    _wait(_launch(rows))


def _launch(rows):
    """Start what does not run; [(part, whether it was started)]."""
    return [(part, part.launch()) for part in rows]


def _wait(launched):
    for part, started in launched:
        if started:
            step(f'{part.name} ({part.address})', part.start)
        else:
            part.start()


def up(options):
    settings.DIRECTORY.mkdir(exist_ok=True)
    fleet = settings.save(options.database, options.computes, options.cells, options.libvirt, options.network,
                          options.ceph)
    begin = time.monotonic()
    print('Network and servers')
    step('Bridge and namespaces', prepare.network, fleet)
    step('Directories of the servers', prepare.data, fleet)
    launched = _launch(parts.servers(fleet))
    if fleet.ceph:                           # while they start
        step('Ceph with its pools and users', ceph.create)
        launched += _launch(ceph.storage())
    _wait(launched)
    step('Databases', prepare.databases, fleet)
    step('Configuration', prepare.configuration, fleet)
    concurrently(*prepare.schemas(fleet))
    print('Identity and images')
    launched = _launch(parts.openstack(fleet))
    step('Tokens with which computes join', prepare.tokens, fleet)
    _wait(launched[:1])
    step('Users and endpoints', prepare.users, fleet)
    _wait(launched[1:])
    central, on_hosts = parts.networking(fleet)
    if central:
        print('Networks')
        _networks(fleet, central, on_hosts)
    print('Compute')
    rows = list(parts.nova(fleet))
    if fleet.ceph:                           # a compute looks for the keys when it starts
        _start([part for part in rows if part.name.startswith('libvirt-')])
        step('Rights of hosts in Ceph', ceph.give_rights)
        step('Keys of Ceph for libvirt', ceph.give_keys, fleet)
    _start(rows)
    if fleet.ceph:
        step('Cinder knows its storage', ceph.reports, prepare.cloud(fleet))
    step('Every service reports', _reporting, fleet)
    step('Flavors and images', prepare.contents, fleet)
    print(f'The fleet runs after {time.monotonic() - begin:.1f} s: {fleet.computes} computes in {fleet.cells} '
          f'{"cells" if fleet.cells > 1 else "cell"}, {fleet.libvirt} with libvirt'
          f'{", volumes of Cinder in Ceph" if fleet.ceph else ""}. As its users:\n')
    proxied = set(urllib.request.getproxies()) & {'http', 'https', 'all'}
    direct = f'no_proxy={settings.direct({})["no_proxy"]},$no_proxy ' if proxied else ''
    for user in ('admin', 'demo'):
        print(f'  export {direct}OS_AUTH_URL={settings.url("keystone", "/v3")} OS_USERNAME={user} '
              f'OS_PROJECT_NAME={user} OS_USER_DOMAIN_NAME=Default OS_PROJECT_DOMAIN_NAME=Default '
              f'OS_PASSWORD={fleet.passwords[user]}')
    print(f'\nSee it in a browser    {settings.url("haproxy", "/dashboard/")}')
    print('\nNext: .venv/bin/openstack server create --flavor m1.nano --image small --wait first')
    if fleet.libvirt:
        print('with a guest of QEMU: .venv/bin/openstack server create --flavor real.nano --image guest --wait first')
    if fleet.network == 'agents':
        print('on two hosts that have no database, in a network of yours: .venv/bin/openstack network create net; '
              '.venv/bin/openstack subnet create net --network net --subnet-range 10.9.0.0/24; '
              '.venv/bin/openstack --os-compute-api-version 2.74 server create --flavor real.nano --image guest '
              '--network net --host compute1 --wait one')


def _networks(fleet, central, on_hosts):
    step('Databases of OVN and Open vSwitch', neutron.prepare, fleet)
    _start(central)
    of_database = [part for part in on_hosts if part.name.startswith('ovsdb-')]
    _start(of_database)
    for number, name in enumerate(fleet.libvirt_names, 1):
        step(f'Open vSwitch of {name}', neutron.configure_host, name, number)
    _start([part for part in on_hosts if part not in of_database])
    step('Networks', neutron.contents, prepare.cloud(fleet))


def _reporting(fleet):
    """Wait until all services are up."""
    plumbing = fleet.libvirt if fleet.network != 'neutron' else 0           # a network service, or an agent, a host
    wanted = fleet.computes + plumbing + 2 * 2 + (2 * fleet.cells if fleet.cells > 1 else 1)
    deadline = time.monotonic() + 90
    while True:
        rows = [line for line in prepare.manage('service', 'list').splitlines()[1:] if ' up ' in line]
        if len(rows) >= wanted:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f'{len(rows)} of {wanted} services are up:\n' + '\n'.join(rows))
        time.sleep(0.5)


def _fleet():
    fleet = settings.load()
    if fleet is None:
        raise SystemExit('There is no fleet here. Build one with: tools/cluster.sh up')
    return fleet


def status(options):
    rows = parts.all_of(_fleet())
    for part in rows:
        print(f'{part.name:<17} {part.pid() or "-":>8}  {part.address}')
    missing = sum(part.pid() is None for part in rows)
    if missing:
        print(f'{missing} of {len(rows)} do not run. Start them with: tools/cluster.sh up')
    return 1 if missing else 0


def _chosen(names):
    known = {part.name: part for part in parts.all_of(_fleet())}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f'There is no part {unknown[0]}; there are {", ".join(known)}.')
    return [known[name] for name in names]


def one(options):
    for part in _chosen(options.parts):
        if options.command == 'start':
            _start([part])
        elif options.command == 'stop':
            step(f'{part.name} stops', part.stop)
        else:
            part.kill()


def logs(options):
    for part in _chosen([options.part]) if options.part else parts.all_of(_fleet()):
        print(f'==> {part.log}\n{part.tail(200 if options.part else 5)}\n')


def down(options):
    fleet = settings.load()
    if fleet is not None:
        for part in reversed(parts.all_of(fleet)):
            if part.pid() is not None:
                step(f'{part.name} stops', part.stop)
    hosts.end_dhcp_servers()
    prepare.remove_network()
    if options.purge:
        _purge(fleet)


def _purge(fleet):
    """Delete the data of a fleet. The file that tells a fleet from other directories goes last."""
    if fleet is None:
        raise SystemExit(f'{settings.DIRECTORY} has no fleet.json: no data are removed.')
    for path in sorted(settings.DIRECTORY.glob('*'), key=lambda path: path.name == 'fleet.json'):
        if path.name not in ('openstack', 'guest'):                     # programs, not data
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def main():
    os.environ.update(settings.direct(os.environ))
    parser = argparse.ArgumentParser(prog='tools/cluster.sh')
    commands = parser.add_subparsers(dest='command', required=True)
    command = commands.add_parser('up', help='build and start what is missing')
    known = settings.load() or settings.Settings({'database': 'mariadb', 'computes': 3, 'passwords': {}})
    command.add_argument('--database', choices=('mariadb', 'postgresql'), default=known.database)
    command.add_argument('--computes', type=int, choices=range(1, 200), metavar='N', default=known.computes)
    command.add_argument('--cells', type=int, choices=range(1, settings.MOST_CELLS + 1), metavar='N',
                         default=known.cells)
    command.add_argument('--libvirt', type=int, choices=range(200), metavar='N', default=known.libvirt)
    command.add_argument('--network', choices=('embedded', 'agents', 'neutron'), default=known.network)
    command.add_argument('--ceph', action='store_true', default=known.ceph,
                         help='a Ceph of one node, and Cinder with its volumes there')
    command.set_defaults(do=up)
    commands.add_parser('status', help='what runs').set_defaults(do=status)
    for name in ('start', 'stop', 'kill'):
        command = commands.add_parser(name, help='some parts')
        command.add_argument('parts', nargs='+')
        command.set_defaults(do=one)
    command = commands.add_parser('logs', help='the ends of the logs')
    command.add_argument('part', nargs='?')
    command.set_defaults(do=logs)
    command = commands.add_parser('down', help='end all')
    command.add_argument('--purge', action='store_true', help='forget the data as well')
    command.set_defaults(do=down)
    options = parser.parse_args()
    return options.do(options)


if __name__ == '__main__':
    sys.exit(main())
