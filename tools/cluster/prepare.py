"""Prepare a fleet before its parts start: network, empty databases, configuration, schemas, users.

Existing results of an earlier run are kept.
"""
import base64
import concurrent.futures
import hashlib
import os
import pathlib
import pwd
import secrets

from cluster import ceph
from cluster import hosts
from cluster import neutron
from cluster import parts
from cluster import settings
from cluster.processes import run


def network(fleet):
    """Create a bridge with this machine's address, and a namespace with an address for each compute."""
    have = {line.split()[0] for line in run('ip', 'netns', 'list').splitlines()}
    if not pathlib.Path(f'/sys/class/net/{settings.BRIDGE}').exists():
        run('ip', 'link', 'add', settings.BRIDGE, 'type', 'bridge')
        run('ip', 'address', 'add', f'{settings.ADDRESS}/24', 'dev', settings.BRIDGE)
        run('ip', 'link', 'set', settings.BRIDGE, 'up')
    for number in range(1, fleet.computes + 1):
        name, inner, outer = f'{settings.NAMESPACES}compute{number}', 'eth0', f'{settings.CABLES}{number}'
        if name in have:
            continue
        hosts.switched_on(f'compute{number}')
        run('ip', 'netns', 'add', name)
        run('ip', 'link', 'add', outer, 'type', 'veth', 'peer', 'name', inner, 'netns', name)
        run('ip', 'link', 'set', outer, 'master', settings.BRIDGE, 'up')
        run('ip', '-n', name, 'address', 'add', f'{settings.compute_address(number)}/24', 'dev', inner)
        for device in ('lo', inner):
            run('ip', '-n', name, 'link', 'set', device, 'up')


def remove_network():
    for name in [line.split()[0] for line in run('ip', 'netns', 'list').splitlines()]:
        if name.startswith(settings.NAMESPACES + 'compute'):
            hosts.switch_off(name)
            run('ip', 'netns', 'delete', name)
    neutron.remove()
    if pathlib.Path(f'/sys/class/net/{settings.BRIDGE}').exists():
        run('ip', 'link', 'delete', settings.BRIDGE)


def _owned(path, user):
    path.mkdir(exist_ok=True)
    entry = pwd.getpwnam(user)
    os.chown(path, entry.pw_uid, entry.pw_gid)
    path.chmod(0o750)


def data(fleet):
    """Create directories of the servers, and empty database clusters."""
    for name in fleet.libvirt_names:
        hosts.prepare(name)
    for name in fleet.brokers:
        broker = settings.DIRECTORY / name
        _owned(broker, 'rabbitmq')
        _write(broker / 'rabbitmq.conf', 'default_user = nova\n'
               f'default_pass = {fleet.passwords["rabbitmq"]}\nloopback_users = none\n', owner='rabbitmq')
    for name in fleet.databases:
        place = settings.DIRECTORY / name
        _owned(place, 'mysql' if fleet.database == 'mariadb' else 'postgres')
        if not (place / 'data').exists():
            _new_database(fleet, place)


def _new_database(fleet, place):
    if fleet.database == 'mariadb':
        run('mariadb-install-db', '--no-defaults', f'--datadir={place}/data', '--skip-test-db', '--user=mysql',
            '--auth-root-authentication-method=socket')
        return
    password = place / 'password'            # a file, because initdb reopens it, which fails with a pipe of root
    _write(password, fleet.passwords['database'], owner='postgres')
    run(parts.program('initdb'), '-D', place / 'data', '-A', 'scram-sha-256', '--auth-local=peer',
        '-U', 'postgres', '-E', 'UTF8', f'--pwfile={password}', user='postgres')
    password.unlink()
    with open(place / 'data' / 'pg_hba.conf', 'a') as file:
        file.write(f'host all nova {settings.NETWORK}.0/24 scram-sha-256\n')


def databases(fleet):
    """Create the user nova and one database for each service, on each server."""
    for server, names in fleet.databases.items():
        _databases(fleet, settings.DIRECTORY / server, settings.PORTS[server], names)


def _databases(fleet, place, port, names):
    password = fleet.passwords['database']
    if fleet.database == 'mariadb':
        lines = [f"CREATE USER IF NOT EXISTS nova@'{settings.NETWORK}.%' IDENTIFIED BY '{password}';"]
        for name in names:
            lines += [f'CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;',
                      f"GRANT ALL ON {name}.* TO nova@'{settings.NETWORK}.%';"]
        run('mariadb', '--no-defaults', f'--socket={place}/socket', '--user=root', input='\n'.join(lines))
        return
    psql = (parts.program('psql'), '-h', place, '-p', port, '-U', 'postgres', '-v', 'ON_ERROR_STOP=1')
    have = run(*psql, '-At', '-c', 'SELECT datname FROM pg_database UNION SELECT rolname FROM pg_roles',
               user='postgres').split()
    if 'nova' not in have:
        run(*psql, user='postgres', input=f"CREATE ROLE nova LOGIN PASSWORD '{password}';")
    for name in names:
        if name not in have:
            run(*psql, '-c', f'CREATE DATABASE {name} OWNER nova', user='postgres')


def _write(path, text, mode=0o600, owner=None):
    path.parent.mkdir(exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), 'w') as file:
        file.write(text)
    if owner:
        os.chown(path, pwd.getpwnam(owner).pw_uid, -1)


def _authtoken(fleet, user):
    return f'''
[keystone_authtoken]
www_authenticate_uri = {settings.url('keystone', '/v3')}
auth_url = {settings.url('keystone', '/v3')}
auth_type = password
username = {user}
password = {fleet.passwords[user]}
project_name = service
user_domain_name = Default
project_domain_name = Default
memcached_servers = {settings.ADDRESS}:{settings.PORTS['memcached']}
memcache_pool_dead_retry = 10
service_token_roles_required = true
'''


# The dashboard is a page of nova-api that asks Keystone, Glance, Cinder and Neutron itself.
CORS = f'''
[cors]
allowed_origin = {settings.url('haproxy')}
expose_headers = X-Subject-Token, Openstack-Auth-Receipt, x-openstack-request-id
allow_methods = GET, HEAD, POST, PUT, PATCH, DELETE
allow_headers = Content-Type, X-Auth-Token, X-Subject-Token, Openstack-Auth-Receipt, OpenStack-API-Version
'''


def configuration(fleet):
    """Write the configuration files of Keystone, Glance, haproxy and every daemon."""
    directory = settings.DIRECTORY
    _write(directory / 'keystone' / 'keystone.conf', f'''[DEFAULT]
log_file = {directory}/logs/keystone-service.log
[database]
connection = {fleet.database_url('keystone')}
[token]
provider = fernet
[fernet_tokens]
key_repository = {directory}/keystone/fernet
[fernet_receipts]
key_repository = {directory}/keystone/fernet
[credential]
key_repository = {directory}/keystone/credential
[cache]
enabled = true
# goes on without a memcached that is away; others raise errors for a minute
backend = oslo_cache.memcache_pool
memcache_dead_retry = 10
memcache_servers = {settings.ADDRESS}:{settings.PORTS['memcached']}
{CORS}''')
    store = f'''[DEFAULT]
enabled_backends = files:file
[glance_store]
default_backend = files
[files]
filesystem_store_datadir = {directory}/glance/images
'''
    _write(directory / 'glance' / 'glance-api.conf', f'''[DEFAULT]
log_file = {directory}/logs/glance-service.log
{ceph.of_glance() if fleet.ceph else store}[database]
connection = {fleet.database_url('glance')}
[paste_deploy]
flavor = keystone
config_file = {directory}/openstack/etc/glance/glance-api-paste.ini
{_authtoken(fleet, 'glance')}{CORS}''')
    (directory / 'glance' / 'images').mkdir(exist_ok=True)
    settings.HOME.mkdir(exist_ok=True)
    for name in ('keystone', 'glance', 'neutron', 'placement', 'cinder'):
        (settings.HOME / f'.{name}').unlink(missing_ok=True)
        (settings.HOME / f'.{name}').symlink_to(directory / name)
    _write(directory / 'haproxy.cfg', f'''global
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 120s
    timeout server 120s
    timeout http-request 20s
    timeout http-keep-alive 50s
    option http-buffer-request
    option forwardfor
    option httpchk GET /healthcheck
    option redispatch
    retries 2
frontend compute
    bind {settings.ADDRESS}:{settings.PORTS['haproxy']}
    default_backend apis
backend apis
    balance leastconn
''' + ''.join(f'    server {name} {settings.ADDRESS}:{settings.PORTS[name]} check inter 1s fall 2 rise 1\n'
              for name in ('api1', 'api2')))
    if fleet.network == 'neutron':
        neutron.configuration(fleet, _authtoken(fleet, 'neutron') + CORS)
        neutron.configure_placement(fleet, _authtoken(fleet, 'placement'))
    if fleet.ceph:
        _write(directory / 'cinder' / 'cinder.conf', ceph.configuration(fleet, _authtoken(fleet, 'cinder') + CORS))
    nova(fleet)


DRAIN_S = 4             # haproxy leaves a server after two checks, a second apart


# approximate memory of a hypervisor
FAKE = '''[fake]
delays = spawn:0.05,destroy:0.03,power_off:0.03,power_on:0.03,reboot:0.03
'''


# emulated guests ignore a shutdown while they boot, and all hosts share the processors of this machine
LIBVIRT = '''[DEFAULT]
compute_driver = libvirt
shutdown_timeout = 10
cpu_allocation_ratio = 16
[network]
driver = linux
'''


# URLs of the console proxies, the host names that they accept, and their listen addresses.
CONSOLES = f'''[vnc]
novncproxy_base_url = {settings.url('novncproxy', '/vnc_auto.html')}
novncproxy_host = {settings.ADDRESS}
novncproxy_port = {settings.PORTS['novncproxy']}
[serial_console]
base_url = ws://{settings.ADDRESS}:{settings.PORTS['serialproxy']}/
serialproxy_host = {settings.ADDRESS}
serialproxy_port = {settings.PORTS['serialproxy']}
'''
# Simulated guests have no consoles that something could reach.
NO_CONSOLES = '''[vnc]
novncproxy_base_url =
'''
CONSOLES_OF_HOST = '''[vnc]
server_listen = {address}
[serial_console]
enabled = true
server_listen = {address}
'''


# Settings of a host whose nova-compute and nova-network know no database, and of the network services that they ask.
AGENT = '''[network]
agent = true
tunnel_address = {address}
metadata_host = {metadata}
'''
FOR_AGENTS = '''[network]
routers = false
'''


def nova(fleet):
    """Write one file for each daemon: shared settings, databases, and its own name."""
    directory = settings.DIRECTORY / 'nova'
    shared = f'''[DEFAULT]
compute_driver = fake
report_interval = 5
[conductor]
reconcile_interval = 5
task_deadline = 60
[messages]
signatures = require
[network]
driver = fake
[image]
backend = glance
[glance]
auth_type = password
auth_url = {settings.url('keystone', '/v3')}
username = nova
password = {fleet.passwords['nova']}
project_name = service
user_domain_name = Default
project_domain_name = Default
'''

    if fleet.network == 'neutron':
        shared += '[network]\nbackend = neutron\n'

    def messages(cell=None):
        broker = f'rabbitmq-{cell}' if cell else 'rabbitmq'
        return f'[DEFAULT]\ntransport_url = {fleet.transport_url_of(broker)}\n'

    def databases(cell):
        return (f'[api_database]\nconnection = {fleet.database_url("nova_api")}\n'
                f'[database]\nconnection = {fleet.database_url("nova_" + cell)}\n')
    top = [shared, messages(), databases('cell0' if fleet.cell_names else 'cell1')]
    login = f'''auth_type = password
auth_url = {settings.url('keystone', '/v3')}
username = nova
password = {fleet.passwords['nova']}
project_name = service
user_domain_name = Default
project_domain_name = Default
'''
    account = (f'[neutron]\n{login}default_floating_pool = public\n[placement]\n{login}'
               if fleet.network == 'neutron' else '')
    volumes = f'''[volume]
backend = cinder
[cinder]
auth_type = password
auth_url = {settings.url('keystone', '/v3')}
username = nova
password = {fleet.passwords['nova']}
project_name = service
user_domain_name = Default
project_domain_name = Default
''' if fleet.ceph else ''
    chosen = ['glance', *(['neutron'] if fleet.network == 'neutron' else []), *(['cinder'] if fleet.ceph else [])]
    identity = f'''[identity]
backend = keystone
[oslo_middleware]
enable_proxy_headers_parsing = true
[http]
trusted_proxies = {settings.ADDRESS}
[dashboard]
identity_url = {settings.url('keystone', '/v3')}
connect_to = {', '.join(settings.url(name) for name in chosen)}
{_authtoken(fleet, 'nova')}'''

    # each service has a state directory of its own here, and these need the same key
    password_key = base64.b64encode(hashlib.sha256(fleet.passwords['nova'].encode()).digest()).decode()

    def file(name, *texts, host='controller', address=settings.ADDRESS, http='', state=None):
        place = directory / (state or name)
        place.mkdir(parents=True, exist_ok=True)
        own = f'\n[DEFAULT]\nhost = {host}\nmy_ip = {address}\nstate_path = {place}\n{http}'
        if address == settings.ADDRESS:          # a compute in a namespace of its own has all ports
            own += f'[monitoring]\nlisten = {address}\nport = {settings.monitoring_port(name)}\n'
        _write(directory / f'{name}.conf', '\n'.join([*texts, own]))
        if name.startswith('api') or 'conductor' in name:
            _write(place / 'password-keys', password_key)
    consoles = CONSOLES if fleet.libvirt else NO_CONSOLES
    services = FOR_AGENTS if fleet.network == 'agents' else ''
    for kind in parts.SEVERAL:
        for number in (1, 2):
            name, http = f'{kind}{number}', ''
            if kind == 'api':
                http = (f'[http]\nlisten = {settings.ADDRESS}\nport = {settings.PORTS[name]}\n'
                        f'drain_time = {DRAIN_S}\n')
            file(name, *top, *([identity, consoles] if kind == 'api' else []),
                 *([account] if kind in ('api', 'scheduler') else []), volumes, host=f'controller{number}',
                 http=http)
    if not fleet.cell_names:
        file('network', *top, account, services, _joins('network'))
    for cell in fleet.cell_names:
        for kind in ('conductor', 'network', 'manage'):
            file(f'{cell}-{kind}', shared, messages(cell), databases(cell), volumes,
                 services if kind == 'network' else '', _joins(f'{cell}-{kind}'), host=f'{cell}-controller')
    for name in settings.CONSOLES if fleet.libvirt else ():
        file(name, *top, consoles)
    file('manage', *top)
    if fleet.network == 'neutron':
        file('metadata', *top, http=f'[metadata]\nport = {settings.PORTS["metadata"]}\n'
                                    f'shared_secret = {fleet.passwords["metadata"]}\n')
    elif fleet.network == 'agents':
        file('metadata', *top, http=f'[metadata]\nport = {settings.PORTS["metadata"]}\n')
    for number in range(1, fleet.computes + 1):
        name, cell = f'compute{number}', fleet.cell_of(number)
        own = f'{FAKE}state_dir = {directory}/{name}/fake\n'
        where = {'host': name, 'address': settings.compute_address(number)}
        if name in fleet.libvirt_names:
            own = (f'{LIBVIRT}[libvirt]\nconnection_uri = {hosts.uri(name)}\n'
                   f'live_migration_uri = {hosts.migration_uri(name)}\n'
                   + CONSOLES_OF_HOST.format(address=where['address']))
            if fleet.network == 'neutron':
                own += f'[os_vif_ovs]\novsdb_connection = {neutron.connection(name)}\n'
            if fleet.ceph:
                own += '[libvirt]\n' + ceph.of_compute()
            knows = databases(cell or 'cell1')
            if fleet.network == 'agents':
                knows = AGENT.format(address=where['address'], metadata=settings.ADDRESS)
                own += knows
            file(f'network-{name}', shared, messages(cell), knows, LIBVIRT, _joins(name), state=name, **where)
        file(name, shared, messages(cell), own, _joins(name), **where)


def _joins(name):
    return f'[messages]\njoin_token_file = {settings.DIRECTORY}/nova/{name}.token\n'


def tokens(fleet):
    """Create tokens for new hosts, which use them to prove to the conductors that they belong to the fleet."""
    directory = settings.DIRECTORY / 'nova'
    names = [*(f'compute{number}' for number in range(1, fleet.computes + 1)),
             *([f'{cell}-network' for cell in fleet.cell_names] or ['network'])]

    def make(name):
        _write(directory / f'{name}.token', manage('host', 'token', '--valid', str(86400)))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(make, [name for name in names
                             if not list((directory / name / 'services').glob('deployment-key.*'))]))


def manage(*arguments, cell=None):
    """Return the output of nova-manage, with the configuration of the API level or of one cell."""
    file = f'{cell}-manage.conf' if cell else 'manage.conf'
    return run(parts.BIN / 'nova-manage', *arguments, '--config-file', settings.DIRECTORY / 'nova' / file)


def schemas(fleet):
    """Return rows for steps.concurrently that create the tables and the first data of each service."""
    return [('Tables and administrator of Keystone', _keystone_schema, fleet),
            ('Tables of Glance', _glance_schema, fleet), ('Tables and first network of Nova', _nova_schema, fleet),
            *([('Tables of Neutron and Placement', neutron.schema)] if fleet.network == 'neutron' else []),
            *([('Tables of Cinder', ceph.schema, fleet), ("Cinder's part of the broker", ceph.broker, fleet)]
              if fleet.ceph else [])]


def _keystone_schema(fleet):
    keystone = settings.DIRECTORY / 'keystone'
    keystone_manage = (parts.OPENSTACK / 'keystone-manage', '--config-file', keystone / 'keystone.conf')
    for kind in ('fernet', 'credential'):
        if not (keystone / kind).exists():
            _key_repository(keystone / kind)
    run(*keystone_manage, 'db_sync')
    run(*keystone_manage, 'bootstrap', '--bootstrap-password', fleet.passwords['admin'],
        *[word for kind in ('public', 'internal', 'admin')
          for word in (f'--bootstrap-{kind}-url', settings.url('keystone', '/v3'))],
        '--bootstrap-region-id', 'RegionOne')


def _key_repository(path):
    """Create the next and the current key as ``keystone-manage fernet_setup`` does, without two starts of Keystone.

    https://docs.openstack.org/keystone/latest/admin/fernet-token-faq.html
    """
    path.mkdir(mode=0o700)
    for name in ('0', '1'):
        _write(path / name, base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())


def _glance_schema(_fleet):
    glance = settings.DIRECTORY / 'glance'
    run(parts.OPENSTACK / 'glance-manage', '--config-file', glance / 'glance-api.conf', 'db_sync')


def _nova_schema(fleet):
    manage('api_db', 'sync')
    manage('db', 'sync')
    if fleet.cell_names:
        cells(fleet)
    if fleet.network != 'neutron':
        manage('network', 'create', '--default')


def cells(fleet):
    """Create cell0 and the cells with their tables."""
    have = manage('cell_v2', 'list_cells')
    manage('cell_v2', 'map_cell0', '--database_connection', fleet.database_url('nova_cell0'))
    for cell in fleet.cell_names:
        manage('db', 'sync', cell=cell)
        if f'| {cell} ' not in have:
            manage('cell_v2', 'create_cell', '--name', cell, '--transport-url',
                   fleet.transport_url_of(f'rabbitmq-{cell}'), '--database_connection',
                   fleet.database_url('nova_' + cell))


def cloud(fleet, user='admin', project=None):
    """Return an openstacksdk connection."""
    import openstack
    return openstack.connect(
        auth_url=settings.url('keystone', '/v3'), username=user, password=fleet.passwords[user],
        project_name=project or user, user_domain_name='Default', project_domain_name='Default',
        region_name='RegionOne', load_yaml_config=False, load_envvars=False)


def users(fleet):
    """Create services in the catalog, their users, and the project demo with its user."""
    identity = cloud(fleet).identity
    roles = {role.name: role for role in identity.roles()}
    for name in ('service', 'demo'):
        if identity.find_project(name) is None:
            identity.create_project(name=name, domain_id='default')
    if 'service' not in roles:
        roles['service'] = identity.create_role(name='service')
    for name, project, granted in (('nova', 'service', ('admin', 'service')),
                                   ('glance', 'service', ('admin', 'service')),
                                   *((name, 'service', ('admin', 'service')) for name, there in (
                                       ('neutron', fleet.network == 'neutron'),
                                       ('placement', fleet.network == 'neutron'), ('cinder', fleet.ceph)) if there),
                                   ('demo', 'demo', ('member',))):
        user = identity.find_user(name) or identity.create_user(name=name, domain_id='default',
                                                               password=fleet.passwords[name])
        for role in granted:
            identity.assign_project_role_to_user(identity.find_project(project), user, roles[role])
    for kind, name, url in (('compute', 'nova', settings.url('haproxy', '/v2.1')),
                            ('image', 'glance', settings.url('glance')),
                            *([('placement', 'placement', settings.url('placement'))]
                              if fleet.network == 'neutron' else []),
                            *([('block-storage', 'cinder', settings.url('cinder', '/v3'))] if fleet.ceph else []),
                            ('network', 'neutron', settings.url(
                                'neutron') if fleet.network == 'neutron' else settings.url('haproxy', '/network'))):
        service = identity.find_service(name) or identity.create_service(type=kind, name=name)
        if not list(identity.endpoints(service_id=service.id)):
            for interface in ('public', 'internal'):
                identity.create_endpoint(service_id=service.id, interface=interface, url=url, region_id='RegionOne')


# name -> (vCPUs, MiB of memory, GiB of disk); where both kinds of hosts are, the flavor says which one it is for
FLAVORS = {'m1.nano': (1, 128, 1), 'm1.tiny': (1, 512, 1), 'm1.small': (1, 2048, 20)}
REAL_FLAVORS = {'real.nano': (1, 128, 1), 'real.micro': (1, 160, 1)}


def contents(fleet):
    """Create flavors and images, so that a server can be created immediately."""
    connection = cloud(fleet)
    have = {flavor.name: flavor for flavor in connection.compute.flavors()}
    for name, (vcpus, ram, disk) in {**FLAVORS, **(REAL_FLAVORS if fleet.libvirt else {})}.items():
        flavor = have.get(name) or connection.compute.create_flavor(name=name, vcpus=vcpus, ram=ram, disk=disk)
        if fleet.libvirt:
            kind = 'QEMU' if name in REAL_FLAVORS else 'fake'
            connection.compute.create_flavor_extra_specs(flavor, {'capabilities:hypervisor_type': f's== {kind}'})
    images = {'small': ('raw', {'data': bytes(65536)})}
    if fleet.libvirt:
        guest = settings.DIRECTORY / 'guest' / 'guest.qcow2'
        images['guest'] = ('qcow2', {'filename': str(guest)})
        if fleet.ceph and connection.image.find_image('guest') is None:     # of a raw one Ceph makes clones
            run('qemu-img', 'convert', '-O', 'raw', guest, guest.with_suffix('.raw'))
            images['guest'] = ('raw', {'filename': str(guest.with_suffix('.raw'))})
    for name, (disk_format, contents) in images.items():
        if connection.image.find_image(name) is None:
            # agents answer no metadata in the hosts' own networks
            drive = {'img_config_drive': 'mandatory'} if name == 'guest' and fleet.network == 'agents' else {}
            connection.create_image(name, container_format='bare', disk_format=disk_format, visibility='public',
                                    wait=True, validate_checksum=False, **drive, **contents)
