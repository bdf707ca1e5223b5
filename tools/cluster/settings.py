"""Addresses and secrets of the fleet, created once and kept with its data."""
import json
import os
import pathlib
import secrets
import zlib

USUAL = pathlib.Path('/var/lib/nova-cluster')
DIRECTORY = pathlib.Path(os.environ.get('NOVA_CLUSTER_DIR', USUAL)).resolve()
HOME = DIRECTORY / 'home'                # of Keystone, Glance and Neutron: where their CORS filter looks for files
TREE = pathlib.Path(__file__).resolve().parents[2]
# A fleet in another directory has other addresses and names, so both can run.
NUMBER = 0 if DIRECTORY == USUAL else zlib.crc32(str(DIRECTORY).encode()) % 200 + 1
_SUFFIX = str(NUMBER or '')
BRIDGE = 'nova-fleet' + _SUFFIX
NAMESPACES = f'nova{_SUFFIX}-'           # before the name of a compute
CABLES = f'novafl{_SUFFIX}-' if NUMBER else 'novafl'
NETWORK = f'10.213.{NUMBER}'
MOST_CELLS = 4
ADDRESS = f'{NETWORK}.1'                 # of everything but the computes
PORTS = {'rabbitmq': 5672, 'mariadb': 3306, 'postgresql': 5432, 'memcached': 11211, 'keystone': 5000, 'glance': 9292,
         'haproxy': 8774, 'cinder': 8776, 'neutron': 9696, 'placement': 8778, 'metadata': 8775,
         'api1': 8781, 'api2': 8782, 'novncproxy': 6080, 'serialproxy': 6083,
         **{f'{kind}-cell{cell}': first + cell for cell in range(1, MOST_CELLS + 1)
            for kind, first in (('rabbitmq', 5680), ('mariadb', 3310), ('postgresql', 5440))}}
MONITORING = 9780                        # the first port of /metrics
CONSOLES = ('novncproxy', 'serialproxy')          # of fleets with guests of QEMU
DAEMONS = [*(f'{kind}{number}' for kind in ('api', 'conductor', 'scheduler') for number in (1, 2)), 'network',
           'metadata',
           *(f'cell{cell}-{kind}' for cell in range(1, MOST_CELLS + 1) for kind in ('conductor', 'network')),
           *CONSOLES]
SERVICES = ('keystone', 'glance', 'nova_api', 'nova_cell1', 'nova_cell0')          # a database each


class Settings:
    """
    database    mariadb or postgresql
    computes    number of nova-compute processes
    cells       number of cells; of several each has a broker and a database server of its own
    network     embedded; agents: the same, and hosts with guests of QEMU have agents and no database; or neutron
    ceph        whether there are a Ceph and Cinder
    libvirt     number of computes with guests of QEMU, the first ones; the others' guests are simulated
    passwords   {name: secret}
    """

    def __init__(self, values):
        self.database, self.computes, self.passwords = values['database'], values['computes'], values['passwords']
        self.cells, self.libvirt = values.get('cells', 1), values.get('libvirt', 0)
        self.network, self.ceph = values.get('network', 'embedded'), values.get('ceph', False)

    @property
    def cell_names(self):
        """Return the cells with separate parts; none if there is only one cell."""
        return [f'cell{number}' for number in range(1, self.cells + 1)] if self.cells > 1 else []

    @property
    def libvirt_names(self):
        """Return the names of the computes with guests of QEMU."""
        return [f'compute{number}' for number in range(1, self.libvirt + 1)]

    @property
    def brokers(self):
        return ['rabbitmq', *(f'rabbitmq-{cell}' for cell in self.cell_names)]

    @property
    def databases(self):
        """{database server: names of its databases}"""
        cells = [f'nova_{cell}' for cell in self.cell_names]
        services = (*SERVICES, *(('neutron', 'placement') if self.network == 'neutron' else ()),
                    *(('cinder',) if self.ceph else ()))
        return {self.database: [name for name in services if name not in cells],
                **{f'{self.database}-{name.removeprefix("nova_")}': [name] for name in cells}}

    def cell_of(self, number):
        """Return the name of the cell of a compute, or None if there is only one cell."""
        return self.cell_names[(number - 1) % self.cells] if self.cell_names else None

    def database_url(self, name):
        scheme = {'mariadb': 'mysql+pymysql', 'postgresql': 'postgresql+psycopg2'}[self.database]
        suffix = '?charset=utf8mb4' if self.database == 'mariadb' else ''
        server = next(server for server, names in self.databases.items() if name in names)
        return f'{scheme}://nova:{self.passwords["database"]}@{ADDRESS}:{PORTS[server]}/{name}{suffix}'

    @property
    def transport_url(self):
        return self.transport_url_of('rabbitmq')

    def transport_url_of(self, broker):
        return f'nova-rabbit://nova:{self.passwords["rabbitmq"]}@{ADDRESS}:{PORTS[broker]}/'


def url(part, path=''):
    return f'http://{ADDRESS}:{PORTS[part]}{path}'


def direct(environ):
    """Return the variables with which a proxy of ``environ`` gets no requests to the fleet."""
    names = (environ.get('no_proxy') or environ.get('NO_PROXY'), ADDRESS, f'{NETWORK}.0/24')
    value = ','.join(name for name in names if name)
    return {'no_proxy': value, 'NO_PROXY': value}


def monitoring_port(name):
    """Return the port of a daemon's metrics; 0, any free port, for commands."""
    return MONITORING + DAEMONS.index(name) if name in DAEMONS else 0


def compute_address(number):
    return f'{NETWORK}.{number + 10}'


# an older fleet gets the missing secrets of newer services
PASSWORDS = ('database', 'rabbitmq', 'admin', 'demo', 'nova', 'glance', 'neutron', 'metadata', 'cinder', 'placement')


def load():
    """Return the Settings of the fleet in this directory, or None if there is none.

    :raises ValueError: the file is not one of ours
    """
    file = DIRECTORY / 'fleet.json'
    return Settings(json.loads(file.read_text())) if file.exists() else None


def save(database, computes, cells=1, libvirt=0, network='embedded', ceph=False):
    """Store Settings with these values and keep existing secrets."""
    known = load()
    for name, wanted, words in (('database', database, 'on {}'), ('cells', cells, 'with {} cells'),
                               ('libvirt', libvirt, 'with libvirt on {} computes'),
                               ('network', network, 'with {} networks'),
                               ('ceph', ceph, 'with Ceph' if known and known.ceph else 'without Ceph')):
        if known is not None and getattr(known, name) != wanted:
            raise SystemExit(f'This fleet was built {words.format(getattr(known, name))}. End it with: '
                             'tools/cluster.sh down --purge')
    if network == 'neutron' and cells > 1:
        raise SystemExit('A fleet with Neutron has one cell.')
    if libvirt > computes:
        raise SystemExit(f'There cannot be libvirt on {libvirt} of {computes} computes.')
    passwords = {**{name: secrets.token_urlsafe(18) for name in PASSWORDS}, **(known.passwords if known else {})}
    values = {'database': database, 'computes': computes, 'cells': cells, 'libvirt': libvirt, 'network': network,
              'ceph': ceph, 'passwords': passwords}
    file = DIRECTORY / 'fleet.json'
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as handle:
        json.dump(values, handle, indent=1)
    return Settings(values)
