"""Where the fleet stands, and its secrets: made once, kept beside its data."""
import json
import os
import pathlib
import secrets

DIRECTORY = pathlib.Path(os.environ.get('NOVA_CLUSTER_DIR', '/var/lib/nova-cluster'))
TREE = pathlib.Path(__file__).resolve().parents[2]
BRIDGE = 'nova-fleet'
NETWORK = '10.213.0'
ADDRESS = f'{NETWORK}.1'                 # of everything but the computes
PORTS = {'rabbitmq': 5672, 'mariadb': 3306, 'postgresql': 5432, 'memcached': 11211, 'keystone': 5000, 'glance': 9292,
         'haproxy': 8774, 'api1': 8781, 'api2': 8782}
SERVICES = ('keystone', 'glance', 'nova_api', 'nova_cell1', 'nova_cell0')          # a database each


class Settings:
    """
    database    mariadb or postgresql
    computes    number of nova-compute processes
    passwords   {name: secret}
    """

    def __init__(self, values):
        self.database, self.computes, self.passwords = values['database'], values['computes'], values['passwords']

    def database_url(self, name):
        scheme = {'mariadb': 'mysql+pymysql', 'postgresql': 'postgresql+psycopg2'}[self.database]
        suffix = '?charset=utf8mb4' if self.database == 'mariadb' else ''
        return f'{scheme}://nova:{self.passwords["database"]}@{ADDRESS}:{PORTS[self.database]}/{name}{suffix}'

    @property
    def transport_url(self):
        return f'rabbit://nova:{self.passwords["rabbitmq"]}@{ADDRESS}:{PORTS["rabbitmq"]}/'


def url(part, path=''):
    return f'http://{ADDRESS}:{PORTS[part]}{path}'


def compute_address(number):
    return f'{NETWORK}.{number + 10}'


def load():
    """The Settings of the fleet that was built here, None before.

    :raises ValueError: the file is not one of ours
    """
    file = DIRECTORY / 'fleet.json'
    return Settings(json.loads(file.read_text())) if file.exists() else None


def save(database, computes):
    """Settings with these values; secrets stay what they are."""
    known = load()
    if known is not None and known.database != database:
        raise SystemExit(f'This fleet was built on {known.database}. End it with: tools/cluster.sh down --purge')
    passwords = known.passwords if known else {
        name: secrets.token_urlsafe(18) for name in ('database', 'rabbitmq', 'admin', 'demo', 'nova', 'glance')}
    values = {'database': database, 'computes': computes, 'passwords': passwords}
    file = DIRECTORY / 'fleet.json'
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as handle:
        json.dump(values, handle, indent=1)
    return Settings(values)
