"""Neutron with ML2/OVN as its project publishes it: its parts, their configuration, and Open vSwitch on each host; and
the Placement service to which it reports segments.

Packets go through the userspace datapath, because a kernel may lack Open vSwitch: guests' checksums are made by the
guests, and the underlay's device of a host is a port of a bridge that has the host's address.
"""
import contextlib
import os
import subprocess

from cluster import hosts
from cluster import parts
from cluster import settings
from cluster.processes import Part
from cluster.processes import run

SCHEMA = '/usr/share/openvswitch/vswitch.ovsschema'
OVN_SCHEMA = '/usr/share/ovn/ovn-{}.ovsschema'
DIRECTORY = settings.DIRECTORY / 'ovn'
OVN_PORT = 6641
EXTERNAL = f'172.24.{settings.NUMBER}'                # the network outside: this machine, and floating addresses
OUTSIDE = f'novaext{settings.NUMBER or ""}'           # its bridge
TIMEOUT_S = 20


def central():
    """Return the processes of OVN's two databases, and of northd, which translates between them."""
    socket = DIRECTORY / 'ovn.sock'
    yield Part('ovn-ovsdb', [
        parts.program('ovsdb-server'), DIRECTORY / 'nb.db', DIRECTORY / 'sb.db', f'--unixctl={DIRECTORY}/ovsdb.ctl',
        f'--remote=punix:{socket}', f'--remote=ptcp:{OVN_PORT}:{settings.ADDRESS}'], socket.exists,
        address=f'{settings.ADDRESS}:{OVN_PORT}')
    yield Part('ovn-northd', [parts.program('ovn-northd'), f'--ovnnb-db=unix:{socket}', f'--ovnsb-db=unix:{socket}',
                              f'--unixctl={DIRECTORY}/northd.ctl'], address=str(socket))


def placement():
    """Start Placement before Neutron, which reports to it at its start."""
    where = f'{settings.ADDRESS}:{settings.PORTS["placement"]}'
    yield Part('placement', [
        parts.OPENSTACK / 'uwsgi', '--http-socket', where, '--module', 'placement.wsgi.api:application', '--processes',
        '1', '--threads', '8', '--enable-threads', '--lazy-apps', '--die-on-term', '--master', '--buffer-size', '65535',
        '--need-app', '--disable-logging', '--http-chunked-input', '--add-header', 'Connection: close'],
        parts.answers('placement'), environment={'OS_PLACEMENT_CONFIG_DIR': str(settings.DIRECTORY / 'placement'),
                                                 'HOME': str(settings.HOME)}, address=where)


def api():
    where = f'{settings.ADDRESS}:{settings.PORTS["neutron"]}'
    command = [parts.OPENSTACK / 'uwsgi', '--http-socket', where, '--module', 'neutron.wsgi.api:application',
               '--processes', '1', '--threads', '8', '--enable-threads', '--lazy-apps', '--die-on-term', '--master',
               '--buffer-size', '65535', '--need-app', '--disable-logging', '--http-chunked-input', '--add-header',
               'Connection: close']
    yield Part('neutron', command, parts.answers('neutron'), environment={
        'OS_NEUTRON_CONFIG_DIR': str(settings.DIRECTORY / 'neutron'), 'OS_NEUTRON_CONFIG_FILES': 'neutron.conf',
        'HOME': str(settings.HOME)},
        address=where)


def of_host(name, number):
    """Return Open vSwitch and OVN's controller of a compute with guests of QEMU."""
    place = hosts.directory(name) / 'ovs'
    where = {'namespace': settings.NAMESPACES + name, 'address': settings.compute_address(number),
             'environment': {'OVS_RUNDIR': str(place), 'OVN_RUNDIR': str(place)}}
    socket = place / 'db.sock'
    yield Part(f'ovsdb-{name}', [parts.program('ovsdb-server'), place / 'conf.db', f'--remote=punix:{socket}',
                                 f'--unixctl={place}/ovsdb.ctl'], socket.exists, **where)
    yield Part(f'vswitchd-{name}', [parts.program('ovs-vswitchd'), f'unix:{socket}',
                                    f'--unixctl={place}/vswitchd.ctl'], lambda: _wired(name), **where)
    yield Part(f'ovn-{name}', [parts.program('ovn-controller'), f'unix:{socket}'], **where)
    yield from _metadata_agent(name, where)


def _metadata_agent(name, where):
    """Return the agent that forwards metadata requests of guests, with the network namespaces of the host."""
    file = settings.DIRECTORY / 'neutron' / f'metadata-{name}.ini'
    agent = [parts.OPENSTACK / 'neutron-ovn-metadata-agent', '--config-file', file]
    yield Part(f'metadata-{name}', hosts.in_namespace(name, *agent), **where)


def connection(name):
    """Return the address of the database of a host's Open vSwitch."""
    return f'unix:{hosts.directory(name)}/ovs/db.sock'


def vsctl(name, *words):
    return run('ovs-vsctl', f'--timeout={TIMEOUT_S}', f'--db={connection(name)}', *words)


def _wired(name):
    """Return whether vswitchd has created the bridges. The bridge of the underlay then has the host's address."""
    namespace = settings.NAMESPACES + name
    number = int(name.removeprefix('compute'))
    with contextlib.suppress(RuntimeError, subprocess.SubprocessError):
        if 'br-fab' not in run('ip', '-n', namespace, '-o', 'link'):
            return False
        address = f'{settings.compute_address(number)}/24'
        if address not in run('ip', '-n', namespace, '-o', 'address', 'show', 'dev', 'br-fab'):
            run('ip', '-n', namespace, 'address', 'flush', 'dev', 'eth0')
            run('ip', '-n', namespace, 'address', 'add', address, 'dev', 'br-fab')
        run('ip', '-n', namespace, 'link', 'set', 'br-fab', 'up')
        return True
    return False


def prepare(fleet):
    """Create the databases of OVN and of each Open vSwitch, and the external network."""
    DIRECTORY.mkdir(exist_ok=True)
    for kind in ('nb', 'sb'):
        if not (DIRECTORY / f'{kind}.db').exists():
            run('ovsdb-tool', 'create', DIRECTORY / f'{kind}.db', OVN_SCHEMA.format(kind))
    if OUTSIDE not in run('ip', '-o', 'link'):
        run('ip', 'link', 'add', OUTSIDE, 'type', 'bridge')
        run('ip', 'address', 'add', f'{EXTERNAL}.1/24', 'dev', OUTSIDE)
        run('ip', 'link', 'set', OUTSIDE, 'up')
    for name in fleet.libvirt_names:
        _prepare_host(name)


def _prepare_host(name):
    number, namespace = int(name.removeprefix('compute')), settings.NAMESPACES + name
    outer, inner = f'{settings.CABLES}x{number}', 'ext'
    if outer not in run('ip', '-o', 'link'):
        run('ip', 'link', 'add', outer, 'type', 'veth', 'peer', 'name', inner, 'netns', namespace)
        run('ip', 'link', 'set', outer, 'master', OUTSIDE, 'up')
        run('ip', '-n', namespace, 'link', 'set', inner, 'up')
    # Open vSwitch passes on what it gets, so the sender makes the checksums
    for device in (outer, f'{settings.CABLES}{number}'):
        run('ethtool', '-K', device, 'tx', 'off')
    place = hosts.directory(name) / 'ovs'
    place.mkdir(parents=True, exist_ok=True)
    if (place / 'conf.db').exists():
        return
    run('ovsdb-tool', 'create', place / 'conf.db', SCHEMA)


def configure_host(name, number):
    """Apply the settings of an operator to a host's Open vSwitch, while only its database runs."""
    vsctl(name, '--no-wait', 'init', '--', 'set', 'Open_vSwitch', '.',
          f'external_ids:system-id={name}', f'external_ids:hostname={name}',
          f'external_ids:ovn-remote=tcp:{settings.ADDRESS}:{OVN_PORT}', 'external_ids:ovn-encap-type=geneve',
          f'external_ids:ovn-encap-ip={settings.compute_address(number)}',
          'external_ids:ovn-bridge-datapath-type=netdev',
          f'external_ids:ovn-bridge-mappings="public:br-ex,rack{number}:br-rack"',
          'external_ids:ovn-cms-options=enable-chassis-as-gw', 'external_ids:ovn-monitor-all=true')
    vsctl(name, '--no-wait', '--may-exist', 'add-br', 'br-rack', '--', 'set', 'bridge', 'br-rack',
          'datapath_type=netdev')
    for bridge, port in (('br-fab', 'eth0'), ('br-ex', 'ext')):
        vsctl(name, '--no-wait', '--may-exist', 'add-br', bridge, '--', 'set', 'bridge', bridge,
              'datapath_type=netdev', 'fail-mode=standalone', '--', '--may-exist', 'add-port', bridge, port)


def configuration(fleet, authtoken):
    """Write neutron.conf and the files of the metadata agents."""
    place = settings.DIRECTORY / 'neutron'
    place.mkdir(exist_ok=True)
    keystone = settings.url('keystone', '/v3')
    nova = f'''[nova]
auth_type = password
auth_url = {keystone}
username = neutron
password = {fleet.passwords['neutron']}
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = RegionOne
'''
    _write(place / 'neutron.conf', f'''[DEFAULT]
auth_strategy = keystone
core_plugin = ml2
service_plugins = ovn-router,trunk,qos,segments,placement
transport_url = fake:/
api_paste_config = {settings.DIRECTORY}/openstack/etc/neutron/api-paste.ini
state_path = {place}
log_file = {settings.DIRECTORY}/logs/neutron-service.log
dhcp_agent_notification = false
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
[database]
connection = {fleet.database_url('neutron')}
[oslo_concurrency]
lock_path = {place}/lock
[ml2]
mechanism_drivers = ovn
type_drivers = local,flat,vlan,geneve
project_network_types = geneve
extension_drivers = port_security,qos
[ml2_type_geneve]
vni_ranges = 1:65536
max_header_size = 38
[ml2_type_flat]
flat_networks = *
[ovn]
ovn_nb_connection = tcp:{settings.ADDRESS}:{OVN_PORT}
ovn_sb_connection = tcp:{settings.ADDRESS}:{OVN_PORT}
ovn_metadata_enabled = true
{nova}{nova.replace('[nova]', '[placement]')}{authtoken}''')
    for name in fleet.libvirt_names:
        helper = f'{parts.OPENSTACK}/privsep-helper'
        sections = ''.join(f'[{section}]\nhelper_command = {helper}\n' for section in (
            'privsep', 'privsep_dhcp_release', 'privsep_ovs_vsctl', 'privsep_namespace', 'privsep_conntrack',
            'privsep_link'))
        _write(place / f'metadata-{name}.ini', f'''[DEFAULT]
state_path = {place}/{name}
log_file = {settings.DIRECTORY}/logs/metadata-{name}-service.log
transport_url = fake:/
host = {name}
nova_metadata_host = {settings.ADDRESS}
nova_metadata_port = {settings.PORTS['metadata']}
metadata_proxy_shared_secret = {fleet.passwords['metadata']}
metadata_workers = 1
[agent]
root_helper =
[oslo_concurrency]
lock_path = {place}/{name}/lock
[ovs]
ovsdb_connection = {connection(name)}
[ovn]
ovn_sb_connection = tcp:{settings.ADDRESS}:{OVN_PORT}
{sections}''')
        (place / name).mkdir(exist_ok=True)


def configure_placement(fleet, authtoken):
    (settings.DIRECTORY / 'placement').mkdir(exist_ok=True)
    _write(settings.DIRECTORY / 'placement' / 'placement.conf', f'''[DEFAULT]
log_file = {settings.DIRECTORY}/logs/placement-service.log
[api]
auth_strategy = keystone
[placement_database]
connection = {fleet.database_url('placement')}
sync_on_startup = true
{authtoken}''')


def schema():
    run(parts.OPENSTACK / 'neutron-db-manage', '--config-file', settings.DIRECTORY / 'neutron' / 'neutron.conf',
        'upgrade', 'heads')


def contents(connection):
    """Create the external network, and a shared network with a router to it."""
    network = connection.network
    if network.find_network('public') is not None:
        return
    public = network.create_network(name='public', is_router_external=True, provider_network_type='flat',
                                    provider_physical_network='public')
    network.create_subnet(name='public', network_id=public.id, ip_version=4, cidr=f'{EXTERNAL}.0/24',
                          gateway_ip=f'{EXTERNAL}.1', is_dhcp_enabled=False,
                          allocation_pools=[{'start': f'{EXTERNAL}.100', 'end': f'{EXTERNAL}.200'}])
    private = network.create_network(name='private', is_shared=True)
    subnet = network.create_subnet(name='private', network_id=private.id, ip_version=4, cidr='10.77.0.0/24')
    router = network.create_router(name='router', external_gateway_info={'network_id': public.id})
    network.add_interface_to_router(router, subnet_id=subnet.id)


def remove():
    with contextlib.suppress(RuntimeError):
        run('ip', 'link', 'delete', OUTSIDE)


def _write(path, text):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as file:
        file.write(text)
