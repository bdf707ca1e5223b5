"""The commonest tasks on the dashboard of a cloud with a real Keystone, Glance, Neutron and Cinder.

Each service has an address of its own, so each request of the page crosses origins.
"""
import contextlib
import types

import pytest

from nova.tests.functional import callers
from nova.tests.functional import cloud as clouds
from nova.tests.integration import browser as browsers
from nova.tests.integration import dashboard_cloud
from nova.tests.integration import keystone
from nova.tests.integration import openstack_services
from nova.tests.integration import servers
from nova.tests.integration.dashboard_cloud import confirm
from nova.tests.integration.dashboard_cloud import modules
from nova.tests.integration.dashboard_cloud import sound
from nova.tests.support import waiting

__all__ = ('modules',)
pytestmark = dashboard_cloud.NEEDS_CHROMIUM
SETTINGS = '''[cors]
allowed_origin = {}
expose_headers = X-Subject-Token,Openstack-Auth-Receipt,x-openstack-request-id
allow_methods = GET,HEAD,POST,PUT,PATCH,DELETE
allow_headers = Content-Type,X-Auth-Token,X-Subject-Token,Openstack-Auth-Receipt,OpenStack-API-Version
'''
GROUPS = ('KEYSTONE_AUTHTOKEN', 'GLANCE', 'NEUTRON', 'CINDER')


@pytest.fixture(scope='module')
def rig(tmp_path_factory):
    """``cloud``, ``urls`` of the services, ``admin`` and ``user`` (Callers), and the ``name`` and ``password`` of the
    user."""
    openstack_services.programs()
    port = servers.free_port()
    url = f'http://127.0.0.1:{port}'
    with contextlib.ExitStack() as stack:
        identity, secret = stack.enter_context(keystone.running(SETTINGS.format(url)))
        stack.enter_context(keystone.trusted(identity, secret, GROUPS))
        admin = callers.Caller(url, callers.by_password(keystone.ADMIN, secret, {'project': {
            'name': 'admin', 'domain': callers.DOMAIN}}), '2.96', identity=identity)
        found = callers.Identity(admin, '2.96')
        found.grant(f'/projects/{admin.project_id}', admin.user_id, 'service')          # of service tokens
        directory = stack.enter_context(servers._directory())
        services = openstack_services.Services(directory, stack, identity, secret, url)
        services.glance()
        new_database = stack.enter_context(servers.SHARED['mariadb']())
        services.neutron(new_database('neutron'))
        services.cinder(servers.virtual_host().url.replace('nova-rabbit://', 'rabbit://'), new_database('cinder'))
        urls = services.urls
        keystone.publish(admin, [
            ('compute', 'nova', url + '/compute/v2.1'), ('image', 'glance', urls['glance']),
            ('network', 'neutron', urls['neutron']), ('block-storage', 'cinder', urls['cinder'])])
        cloud = stack.enter_context(clouds.running(
            tmp_path_factory.mktemp('services'), http__port=port, identity__backend='keystone',
            image__backend='glance', network__backend='neutron', volume__backend='cinder',
            glance__endpoint_override=urls['glance'], neutron__endpoint_override=urls['neutron'],
            cinder__endpoint_override=urls['cinder'], dashboard__identity_url=identity + '/v3',
            dashboard__connect_to=sorted(urls.values()), vif_plugging_is_fatal=False, vif_plugging_timeout=0))
        name, password, _user = found.user(f'/projects/{found.project("shop")}', 'member')
        user = found.caller(callers.by_password(name, password, {'project': {
            'name': 'shop', 'domain': callers.DOMAIN}}))
        made = types.SimpleNamespace(cloud=cloud, urls=urls, admin=admin, user=user, name=name, password=password)
        outside = ask(made, 'neutron', '/v2.0/networks', admin, {'network': {
            'name': 'outside', 'router:external': True}})['network']['id']
        ask(made, 'neutron', '/v2.0/subnets', admin, {'subnet': {
            'network_id': outside, 'cidr': '203.0.113.0/24', 'ip_version': 4, 'enable_dhcp': False}})
        yield made


def ask(rig, service, path, caller=None, document=None):
    """The document of an answer of a service."""
    answer = (caller or rig.user).session.request(
        'GET' if document is None else 'POST', rig.urls[service] + path, json=document,
        headers={'X-Auth-Token': (caller or rig.user).token}, timeout=60)
    assert answer.status_code < 300, answer.text
    return answer.json()


def only(rig, service, path, key, name):
    """The resource with a name; None: there is none."""
    rows = [row for row in ask(rig, service, path)[key] if row['name'] == name]
    assert len(rows) < 2, rows
    return rows[0] if rows else None


def volume(rig):
    return only(rig, 'cinder', '/volumes/detail', 'volumes', 'data')


@pytest.fixture(scope='module')
def browser(rig, tmp_path_factory):
    made = browsers.Browser(rig.cloud.url, tmp_path_factory.mktemp('profile'))
    made.login(rig.name, rig.password)
    yield made
    made.quit()


@pytest.fixture(scope='module')
def image(rig, browser, tmp_path_factory):
    """Walk: upload an image to Glance."""
    file = tmp_path_factory.mktemp('image') / 'disk.raw'
    file.write_bytes(b'\1' * 1_000_000)
    browser.go('/images', 'Images')
    browser.press('Upload image')
    browser.type('Name', 'debian')
    browser.field('File').send_keys(str(file))
    browser.choose('Format', 'raw')
    browser.press('Upload image')
    browser.until(lambda: browser.one("//main//a[normalize-space()='debian']"), 'it is not in the list')
    return only(rig, 'glance', '/v2/images', 'images', 'debian')


@pytest.fixture(scope='module')
def network(rig, browser):
    """Walk: create a network with subnet, router and gateway in Neutron."""
    browser.go('/networks', 'Networks')
    browser.press('Create network')
    browser.type('Name', 'front')
    browser.type('Addresses', '10.20.0.0/24')
    browser.choose('Gateway of the router', 'outside')
    confirm(browser, 'Create network')
    browser.says('Network front created')
    return only(rig, 'neutron', '/v2.0/networks', 'networks', 'front')


@pytest.fixture(scope='module')
def server(rig, browser, image, network):
    """Walk: create a server."""
    browser.go('/create', 'Create server')
    browser.type('Name', 'web')
    browser.choose('Flavor', 'm1.nano')
    browser.choose('Image', 'debian')
    browser.press('Create server', within='//main')
    browser.heading('web')
    browser.until(lambda: browser.css('.page-head .badge.good'), 'it does not become active')
    found, = rig.user.get('/servers/detail?name=web').json()['servers']
    return found


def test_image_is_uploaded_to_glance(image, browser, modules):
    assert (image['status'], image['size']) == ('active', 1_000_000)
    sound(browser, modules)


def test_network_with_subnet_and_router_is_created_in_neutron(rig, network, browser, modules):
    router = only(rig, 'neutron', '/v2.0/routers', 'routers', 'front-router')
    subnet = only(rig, 'neutron', '/v2.0/subnets', 'subnets', 'front-subnet')
    ports = ask(rig, 'neutron', f'/v2.0/ports?device_id={router["id"]}')['ports']
    assert subnet['network_id'] == network['id'] and router['external_gateway_info']
    assert subnet['id'] in [address['subnet_id'] for port in ports for address in port['fixed_ips']]
    sound(browser, modules)


def test_key_pair_is_created(rig, browser):
    browser.go('/keypairs', 'Key pairs')
    browser.press('Create or import')
    browser.type('Name', 'mine')
    browser.press('Create or import')
    browser.says('PRIVATE KEY')
    browser.press('Close')
    assert [row['keypair']['name'] for row in rig.user.get('/os-keypairs').json()['keypairs']] == ['mine']


def test_rule_of_a_security_group_is_added_in_neutron(rig, browser, modules):
    browser.go('/security-groups', 'Security groups')
    browser.press('Create security group')
    browser.type('Name', 'web-rules')
    browser.press('Create security group')
    browser.press('web-rules')
    browser.heading('web-rules')
    browser.press('Add rule')
    browser.type('Ports', '8000-8010')
    browser.press('Add rule')
    browser.says('8000–8010')
    group = only(rig, 'neutron', '/v2.0/security-groups', 'security_groups', 'web-rules')
    assert 8010 in [rule['port_range_max'] for rule in group['security_group_rules']]
    sound(browser, modules)


def test_server_is_created_with_image_and_port_of_the_services(rig, server, network, image):
    port, = ask(rig, 'neutron', f'/v2.0/ports?device_id={server["id"]}')['ports']
    assert (server['image']['id'], port['network_id'], port['status']) == (image['id'], network['id'], 'ACTIVE')
    assert server['addresses']['front'][0]['addr'] == port['fixed_ips'][0]['ip_address']


def test_server_is_stopped_and_started(rig, browser, server):
    for label, status in (('Stop', 'SHUTOFF'), ('Start', 'ACTIVE')):
        browser.go('/')
        browser.go(f'/servers/{server["id"]}', 'web')
        browser.press('Actions')
        browser.press(label, within="//*[@role='menu']")
        browser.press(label, within='//dialog[@open]')
        rig.user.wait_for(server['id'], status)


def test_volume_of_cinder_is_created_attached_and_detached(rig, browser, server, modules):
    browser.go('/volumes', 'Volumes')
    browser.press('Create volume')
    browser.type('Name', 'data')
    browser.press('Create volume')
    waiting.wait_for(lambda: (found := volume(rig)) and found['status'] == 'available', 60, 'the volume')
    browser.go('/')
    browser.go('/volumes', 'Volumes')
    browser.press('Actions of data')
    browser.press('Attach to a server')
    browser.choose('Server', 'web')
    confirm(browser, 'Attach to a server')
    waiting.wait_for(lambda: volume(rig)['status'] == 'in-use', 60, 'the attachment')
    assert [row['server_id'] for row in volume(rig)['attachments']] == [server['id']]
    browser.go('/')
    browser.go('/volumes', 'Volumes')
    sound(browser, modules)
    browser.press('Actions of data')
    browser.press('Detach')
    browser.choose('Server', 'web')
    confirm(browser, 'Detach')
    waiting.wait_for(lambda: volume(rig)['status'] == 'available', 60, 'the end of the attachment')


def test_floating_address_of_neutron_is_associated_and_released(rig, browser, server, modules):
    browser.go('/floating-ips', 'Floating addresses')
    browser.press('Allocate address')
    browser.choose('External network', 'outside')
    confirm(browser, 'Allocate address')
    browser.says('Floating address allocated')
    address = browser.css('tbody td.first')[0].text
    browser.press(f'Actions of {address}')
    browser.press('Associate')
    browser.choose('Server', 'web')
    confirm(browser, 'Associate')
    browser.says(f'{address} associated')
    found, = ask(rig, 'neutron', '/v2.0/floatingips')['floatingips']
    port, = ask(rig, 'neutron', f'/v2.0/ports?device_id={server["id"]}')['ports']
    assert (found['floating_ip_address'], found['port_id']) == (address, port['id'])
    sound(browser, modules)
    for label in ('Disassociate', 'Release'):
        browser.press(f'Actions of {address}')
        browser.press(label)
        confirm(browser, label)
    browser.says(f'{address} released')
    assert ask(rig, 'neutron', '/v2.0/floatingips')['floatingips'] == []


def test_image_of_a_server_is_created_in_glance(rig, browser, server):
    browser.go('/')
    browser.go(f'/servers/{server["id"]}', 'web')
    browser.press('Actions')
    browser.press('Create image', within="//*[@role='menu']")
    browser.type('Name', 'copy')
    browser.press('Create image', within='//dialog[@open]')
    waiting.wait_for(lambda: (found := only(rig, 'glance', '/v2/images', 'images', 'copy'))
                     and found['status'] == 'active', 60, 'the image')


def test_server_and_volume_are_deleted(rig, browser, server):
    rig.user.wait_for(server['id'])
    browser.go('/')
    browser.go(f'/servers/{server["id"]}', 'web')
    browser.press('Actions')
    browser.press('Delete', within="//*[@role='menu']")
    browser.press('Delete', within='//dialog[@open]')
    browser.heading('Servers')
    rig.user.wait_for(server['id'], 'DELETED')
    assert ask(rig, 'neutron', f'/v2.0/ports?device_id={server["id"]}')['ports'] == []
    browser.go('/volumes', 'Volumes')
    browser.press('Actions of data')
    browser.press('Delete', within="//*[@role='menu']")
    confirm(browser, 'Delete')
    waiting.wait_for(lambda: volume(rig) is None, 60, 'the end of the volume')
