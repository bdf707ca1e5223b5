"""The processes of the fleet as rows, in the order in which they start."""
import contextlib
import pathlib
import shutil
import signal
import socket
import sys
import urllib.request

from cluster import ceph
from cluster import hosts
from cluster import neutron
from cluster import settings
from cluster.processes import Part
from cluster.processes import run

BIN = pathlib.Path(sys.executable).parent
OPENSTACK = settings.DIRECTORY / 'openstack' / 'bin'
SEVERAL = ('api', 'conductor', 'scheduler')       # of these there are two


def program(name):
    """Return the path of a server program of Debian's packages."""
    postgresql = sorted(map(str, pathlib.Path('/usr/lib/postgresql').glob('*/bin')), reverse=True)
    found = shutil.which(name, path=':'.join([*postgresql, '/usr/sbin', '/usr/bin'])) or shutil.which(name)
    if not found:
        raise SystemExit(f'{name} is not installed; tools/cluster.sh up installs it.')
    return found


def listens(part):
    def ready():
        with contextlib.suppress(OSError), socket.create_connection((settings.ADDRESS, settings.PORTS[part]), 1):
            return True
        return False
    return ready


def answers(part, path='/'):
    def ready():
        try:
            with urllib.request.urlopen(settings.url(part, path), timeout=5) as answer:
                return answer.status < 400
        except OSError as error:
            return getattr(error, 'code', 599) < 500          # 300 with the versions is an answer
    return ready


def infrastructure(fleet):
    """Return the servers, and the storage of disks and volumes."""
    yield from servers(fleet)
    if fleet.ceph:
        yield from ceph.storage()


def servers(fleet):
    """Broker, database and cache."""
    for number, name in enumerate(fleet.brokers):
        yield _broker(name, number)
    for name in fleet.databases:
        yield _database(fleet.database, name)
    address = settings.ADDRESS
    yield Part('memcached', [program('memcached'), '-u', 'memcache', '-l', address, '-p', settings.PORTS['memcached'],
                             '-m', '64'], listens('memcached'), address=f'{address}:{settings.PORTS["memcached"]}')


def _broker(name, number):
    directory, where = settings.DIRECTORY / name, (settings.ADDRESS, settings.PORTS[name])
    node = 'fleet' + str(settings.NUMBER or '') + name.removeprefix('rabbitmq')
    return Part(name, [program('rabbitmq-server')], listens(name), 'rabbitmq', environment={
        'HOME': str(directory), 'RABBITMQ_NODENAME': f'{node}@localhost', 'RABBITMQ_NODE_IP_ADDRESS': where[0],
        'RABBITMQ_NODE_PORT': str(where[1]), 'RABBITMQ_DIST_PORT': str(25699 + 10 * settings.NUMBER + number),
        'RABBITMQ_MNESIA_BASE': str(directory / 'mnesia'), 'RABBITMQ_LOG_BASE': str(directory / 'logs'),
        'RABBITMQ_PID_FILE': str(directory / 'pid'), 'RABBITMQ_ENABLED_PLUGINS_FILE': str(directory / 'plugins'),
        'RABBITMQ_CONF_ENV_FILE': '/dev/null', 'RABBITMQ_CONFIG_FILE': str(directory / 'rabbitmq.conf'),
        'ERL_EPMD_ADDRESS': '127.0.0.1'}, address='%s:%s' % where)


def rabbitmqctl(part, *words):
    """Return the output of rabbitmqctl for a running broker.

    :raises RuntimeError: it refuses
    """
    cookie = (settings.DIRECTORY / part.name / '.erlang.cookie').read_text()
    return run(program('rabbitmqctl'), '--node', part.environment['RABBITMQ_NODENAME'], '--erlang-cookie', cookie,
               '--quiet', *words, user='rabbitmq', environment={**part.environment, 'LANG': 'C.UTF-8'})


def _database(kind, name):
    data, address, port = settings.DIRECTORY / name, settings.ADDRESS, settings.PORTS[name]
    if kind == 'mariadb':
        command = [program('mariadbd'), '--no-defaults', f'--datadir={data}/data', f'--socket={data}/socket',
                   f'--port={port}', f'--bind-address={address}', f'--pid-file={data}/pid', '--user=mysql',
                   '--max-connections=1000', '--innodb-buffer-pool-size=256M']
        return Part(name, command, listens(name), address=f'{address}:{port}')
    command = [program('postgres'), '-D', data / 'data', '-p', port, '-k', data, '-h', address,
               '-c', 'max_connections=500']
    # SIGTERM waits until every client has closed its connection
    return Part(name, command, listens(name), 'postgres', address=f'{address}:{port}', end=signal.SIGINT)


def openstack(fleet):
    """Keystone, Glance and Cinder as their projects publish them."""
    for name, module, environment in (
            ('keystone', 'keystone.wsgi.api:application', {'OS_KEYSTONE_CONFIG_DIR': settings.DIRECTORY / 'keystone',
                                                        'HOME': settings.HOME}),
            ('glance', 'glance.wsgi.api:application', {'OS_GLANCE_CONFIG_DIR': settings.DIRECTORY / 'glance',
                                                    'HOME': settings.HOME})):
        where = f'{settings.ADDRESS}:{settings.PORTS[name]}'
        command = [OPENSTACK / 'uwsgi', '--http-socket', where, '--module', module, '--processes', '2',
                   '--threads', '4', '--enable-threads', '--lazy-apps', '--die-on-term', '--master',
                   '--buffer-size', '65535', '--need-app', '--http-chunked-input', '--disable-logging',
                   '--add-header', 'Connection: close']
        yield Part(name, command, answers(name), environment={key: str(value) for key, value in environment.items()},
                   address=where)
    if fleet.ceph:
        yield from ceph.block_storage()


def nova(fleet):
    """Return the control plane, and the computes in their namespaces."""
    directory = settings.DIRECTORY / 'nova'
    for kind in ('conductor', 'scheduler'):
        for number in (1, 2):
            name = f'{kind}{number}'
            yield Part(name, [BIN / f'nova-{kind}', '--config-file', directory / f'{name}.conf'],
                       address=settings.ADDRESS)
    for name, kind in ([(f'{cell}-{kind}', kind) for cell in fleet.cell_names for kind in ('conductor', 'network')]
                       or [('network', 'network')]):
        yield Part(name, [BIN / f'nova-{kind}', '--config-file', directory / f'{name}.conf'], address=settings.ADDRESS)
    if fleet.network != 'embedded':
        yield Part('metadata', [BIN / 'nova-api-metadata', '--config-file', directory / 'metadata.conf'],
                   address=f'{settings.ADDRESS}:{settings.PORTS["metadata"]}')
    for number in (1, 2):
        name = f'api{number}'
        yield Part(name, [BIN / 'nova-api', '--config-file', directory / f'{name}.conf'], answers(name),
                   address=f'{settings.ADDRESS}:{settings.PORTS[name]}')
    yield Part('haproxy', [program('haproxy'), '-db', '-f', settings.DIRECTORY / 'haproxy.cfg'], answers('haproxy'),
               address=f'{settings.ADDRESS}:{settings.PORTS["haproxy"]}')
    for name in settings.CONSOLES if fleet.libvirt else ():
        yield Part(name, [BIN / f'nova-{name}', '--config-file', directory / f'{name}.conf'], listens(name),
                   address=f'{settings.ADDRESS}:{settings.PORTS[name]}')
    for number in range(1, fleet.computes + 1):
        name = f'compute{number}'
        command = [BIN / 'nova-compute', '--config-file', directory / f'{name}.conf']
        if name in fleet.libvirt_names:
            yield from _libvirt_host(fleet, name, number)
            command = hosts.in_namespace(name, *command)           # it looks at files of its host's libvirt
        yield Part(name, command, namespace=settings.NAMESPACES + name, address=settings.compute_address(number))


def _libvirt_host(fleet, name, number):
    """Return the processes that a compute with guests of QEMU needs on its host: libvirt and bridges."""
    where = {'namespace': settings.NAMESPACES + name, 'address': settings.compute_address(number)}
    serve = hosts.in_namespace(name, settings.TREE / 'tools' / 'libvirt-host.sh', 'serve', '--listen')
    yield Part(f'libvirt-{name}', serve, hosts.answers(name), **where)
    if fleet.network == 'neutron':
        return
    yield Part(f'network-{name}', hosts.in_namespace(name, BIN / 'nova-network', '--config-file',
                                               settings.DIRECTORY / 'nova' / f'network-{name}.conf'), **where)


def networking(fleet):
    """Neutron, OVN, and Open vSwitch on the hosts with guests of QEMU: (central parts, parts of hosts)."""
    if fleet.network != 'neutron':
        return [], []
    return [*neutron.central(), *neutron.placement(), *neutron.api()], [
        part for number, name in enumerate(fleet.libvirt_names, 1) for part in neutron.of_host(name, number)]


def all_of(fleet):
    central, on_hosts = networking(fleet)
    return [*infrastructure(fleet), *openstack(fleet), *central, *on_hosts, *nova(fleet)]
