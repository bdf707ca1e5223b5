"""A Ceph of one node and Cinder as its project publishes it, whose volumes are images of that Ceph.

A pool and a user of Ceph for each service: who has the key of one has nothing in the pools of the others, but that
Cinder reads images, and hosts look at volumes and images, which a fence needs. The hosts' libvirt has the keys of disks
and volumes as secrets.
"""
import configparser
import contextlib
import os
import subprocess
import time
import uuid

from cluster import hosts
from cluster import parts
from cluster import settings
from cluster.processes import Part
from cluster.processes import run

DIRECTORY = settings.DIRECTORY / 'ceph'
CONF = DIRECTORY / 'ceph.conf'
TOOL = settings.TREE / 'tools' / 'ceph.sh'
PORT = 6788                              # and the next one, at which block storages report to it
SIZE = '20G'
DISKS, VOLUMES, IMAGES = 'vms', 'volumes', 'images'
# user -> rights in pools; nova with its pool is made by ceph.sh
USERS = {'cinder': f'profile rbd pool={VOLUMES}, profile rbd-read-only pool={IMAGES}',
         'glance': f'profile rbd pool={IMAGES}'}
OF_HOSTS = ('nova', 'cinder')            # whose keys libvirt has
ANSWERS_S, REPORTS_S = 20, 60


def secret(user):
    """The id of libvirt's secret with the key of a user."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f'{DIRECTORY}/{user}'))


def create():
    """A new Ceph with its pools and users; nothing where there is one."""
    if (DIRECTORY / 'pools').exists():
        return
    environment = {'PORT': str(PORT), 'ADDRESS': settings.ADDRESS, 'SIZE': SIZE, 'POOL': DISKS}
    run(TOOL, 'start', DIRECTORY, environment=environment)
    try:
        for user, rights in USERS.items():
            run('ceph', '-c', CONF, 'auth', 'get-or-create', f'client.{user}', 'mon', 'profile rbd', 'osd', rights,
                '-o', _keyring(user), timeout=60)
            _keyring(user).chmod(0o600)
        for pool in (VOLUMES, IMAGES):
            run('ceph', '-c', CONF, 'osd', 'pool', 'create', pool, timeout=60)
            run('rbd', '-c', CONF, 'pool', 'init', pool, timeout=60)
    finally:
        run(TOOL, 'stop', DIRECTORY)
    (DIRECTORY / 'pools').touch()


def give_rights():
    """Let hosts shut out the clients of a dead host. They look at disks, at volumes and at the images below these.

    Done at each start, because an older tree has made the Ceph of a fleet with fewer rights.
    """
    run('ceph', '-c', CONF, 'auth', 'caps', 'client.nova', 'mon', 'profile rbd', 'mgr', f'profile rbd pool={DISKS}',
        'osd', f'profile rbd pool={DISKS}, profile rbd-read-only pool={VOLUMES}, profile rbd-read-only pool={IMAGES}',
        timeout=60)


def _keyring(user):
    return DIRECTORY / f'ceph.client.{user}.keyring'


def key(user):
    """In base64, as Ceph writes it."""
    keyring = configparser.ConfigParser()
    keyring.read_string(_keyring(user).read_text().replace('\t', ''))
    return keyring[f'client.{user}']['key']


def storage():
    """Monitor, manager and OSD."""
    for name, ready in (('mon.a', _leads), ('mgr.x', None), ('osd.0', _stores)):
        kind, ident = name.split('.')
        yield Part(f'ceph-{kind}', [parts.program(f'ceph-{kind}'), '-f', '-i', ident, '-c', CONF, '--pid-file',
                                    DIRECTORY / 'run' / f'{name}.pid'], ready,
                   address=f'{settings.ADDRESS}:{PORT}' if kind == 'mon' else settings.ADDRESS)


def _leads():
    return '"leader"' in _answer('ceph', '--admin-daemon', DIRECTORY / 'run' / 'mon.a.asok', 'mon_status')


def _stores():
    """Whether the pools answer; a pool without its OSD hangs."""
    return _answer('rbd', '-c', CONF, '-p', DISKS, 'ls', '--format', 'json').startswith('[')


def _answer(*command):
    with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
        return run(*command, timeout=ANSWERS_S)
    return ''


def block_storage():
    """Cinder's three processes."""
    where, file = f'{settings.ADDRESS}:{settings.PORTS["cinder"]}', settings.DIRECTORY / 'cinder' / 'cinder.conf'
    # it looks for its programs, and those of Ceph, by the search path
    environment = {'HOME': str(settings.HOME), 'PATH': f'{parts.OPENSTACK}:{os.environ["PATH"]}'}
    yield Part('cinder', [
        parts.OPENSTACK / 'uwsgi', '--http-socket', where, '--module', 'cinder.wsgi.api:application', '--processes',
        '1', '--threads', '8', '--enable-threads', '--lazy-apps', '--die-on-term', '--master', '--buffer-size', '65535',
        '--need-app', '--http-chunked-input', '--disable-logging', '--add-header', 'Connection: close'],
        parts.answers('cinder'), environment=environment, address=where)
    for kind in ('scheduler', 'volume'):
        yield Part(f'cinder-{kind}', [parts.OPENSTACK / f'cinder-{kind}', '--config-file', file],
                   environment=environment, address=settings.ADDRESS)


def configuration(fleet, authtoken):
    """The text of cinder.conf."""
    account = f'''auth_type = password
auth_url = {settings.url('keystone', '/v3')}
username = cinder
password = {fleet.passwords['cinder']}
project_name = service
user_domain_name = Default
project_domain_name = Default
'''
    place = settings.DIRECTORY / 'cinder'
    return f'''[DEFAULT]
host = controller
my_ip = {settings.ADDRESS}
state_path = {place}
api_paste_config = {settings.DIRECTORY}/openstack/etc/cinder/api-paste.ini
resource_query_filters_file = {settings.DIRECTORY}/openstack/etc/cinder/resource_filters.json
auth_strategy = keystone
transport_url = {fleet.transport_url.replace('nova-rabbit://', 'rabbit://')}{VHOST}
glance_api_servers = {settings.url('glance')}
enabled_backends = ceph
report_interval = 5
[ceph]
volume_driver = cinder.volume.drivers.rbd.RBDDriver
volume_backend_name = ceph
rbd_pool = {VOLUMES}
rbd_ceph_conf = {CONF}
rbd_user = cinder
rbd_secret_uuid = {secret('cinder')}
report_discard_supported = true
[database]
connection = {fleet.database_url('cinder')}
[oslo_concurrency]
lock_path = {place}/lock
[coordination]
backend_url = file://{place}/coordination
[cinder_sys_admin]
helper_command = {parts.OPENSTACK}/privsep-helper
[nova]
region_name = RegionOne
interface = internal
{account}[service_user]
send_service_user_token = true
{account}{authtoken}'''


VHOST = 'cinder'                         # of the broker: our daemons have its first one


def broker(fleet):
    """A virtual host of Cinder's own."""
    part = next(part for part in parts.infrastructure(fleet) if part.name == 'rabbitmq')
    if VHOST not in parts.rabbitmqctl(part, 'list_vhosts').split():
        parts.rabbitmqctl(part, 'add_vhost', VHOST)
        parts.rabbitmqctl(part, 'set_permissions', '-p', VHOST, 'nova', '.*', '.*', '.*')


def schema(_fleet):
    run(parts.OPENSTACK / 'cinder-manage', '--config-file', settings.DIRECTORY / 'cinder' / 'cinder.conf', 'db', 'sync')


def reports(connection):
    """Wait until Cinder's scheduler knows what its storage can do: without that it makes no volume.

    :raises RuntimeError: it does not within a minute
    """
    deadline = time.monotonic() + REPORTS_S
    while not list(connection.block_storage.backend_pools()):
        if time.monotonic() > deadline:
            raise RuntimeError("Cinder's scheduler has not heard of its storage; see the logs of cinder-volume")
        time.sleep(0.5)


def give_keys(fleet):
    """Let libvirt of each host have the keys; it keeps them."""
    for name in fleet.libvirt_names:
        for user in OF_HOSTS:
            text = (f"<secret ephemeral='no' private='yes'><uuid>{secret(user)}</uuid><usage type='ceph'>"
                    f"<name>client.{user}</name></usage></secret>")
            hosts.virsh(name, 'secret-define', '/dev/stdin', input=text)
            hosts.virsh(name, 'secret-set-value', secret(user), '--file', '/dev/stdin', input=key(user))


def of_compute():
    """Options of a compute whose guests' own disks are in the pool."""
    return f'''images_type = rbd
images_rbd_pool = {DISKS}
images_rbd_ceph_conf = {CONF}
rbd_user = nova
rbd_secret_uuid = {secret('nova')}
'''


def of_glance():
    """Location of the images of Glance. A user who sees an image sees where it is: Cinder clones it there."""
    return f'''[DEFAULT]
show_image_direct_url = true
enabled_backends = ceph:rbd
[glance_store]
default_backend = ceph
[ceph]
rbd_store_pool = {IMAGES}
rbd_store_user = glance
rbd_store_ceph_conf = {CONF}
'''
