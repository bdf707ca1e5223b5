"""Nothing that is secret is told to logs, faults or the record of actions, and no password outlives its use.

Every secret is a canary: a word of its own that is then looked for in everything that was written.
"""
import base64
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import pytest
import requests
import yaml

from nova import context
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import isolation
from nova.tests.support import secrets
from nova.tests.support.secrets import Canaries
from nova.virt import driver as virt

log_file = secrets.log_file


def secret_server(canaries, image, name, **more):
    encoded = {key: base64.b64encode(canaries[key].encode()).decode() for key in ('user_data', 'personality')}
    return {'name': name, 'imageRef': image, 'flavorRef': '42', 'networks': 'none', 'config_drive': True,
            'adminPass': canaries['admin_pass'], 'user_data': encoded['user_data'], **more}


def driver(cloud):
    return next(part.manager.driver for part in cloud.services if part.binary == 'nova-compute')


def logins(cloud, canaries):
    """Good and bad ones, in every form; the answers' texts."""
    url = cloud.url + '/identity/v3/auth/tokens'
    passwords = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']
    for name in ('nova-admin', 'nova-demo'):
        canaries[f'password of {name}'] = passwords[name]['auth']['password']
    texts = []
    for user, password in (('demo', canaries['wrong_password']), (canaries['password_as_name'], 'x'),
                           ('demo', [canaries['password_list']]), ('demo', {'a': canaries['password_dict']})):
        texts.append(requests.post(url, json={'auth': {'identity': {'methods': ['password'], 'password': {'user': {
            'name': user, 'password': password, 'domain': {'id': 'default'}}}}}}).text)
    for body in (f'{{"auth": "{canaries["broken_login"]}', f'{{"auth": {{"{canaries["key_in_login"]}": 1}}}}'):
        texts.append(requests.post(url, data=body).text)
    for method, given in (('token', {'id': canaries['token_in_login']}),
                          ('application_credential', {'id': 'x', 'secret': canaries['credential']})):
        texts.append(requests.post(url, json={'auth': {'identity': {'methods': [method], method: given}}}).text)
    for path in ('/compute/v2.1/servers', '/image/v2/images', '/network/v2.0/ports', '/identity/v3/projects'):
        texts.append(requests.get(cloud.url + path, headers={
            'X-Auth-Token': canaries['forged_token'], 'X-Service-Token': canaries['service_token']}).text)
    return texts


def test_secrets_appear_in_no_log_or_response(tmp_path, log_file):
    canaries, texts = Canaries(), []
    with cloud_fixture.running(tmp_path / 'state', scheduler__max_attempts=1) as cloud:
        texts += logins(cloud, canaries)
        admin, demo = cloud.admin('2.96'), cloud.client(version='2.90')
        canaries['admin token'], canaries['demo token'] = admin.token, demo.token
        user = admin.post('/identity/v3/users', {'user': {'name': 'one', 'password': canaries['new_password']}})
        path = f'/identity/v3/users/{user.json()["user"]["id"]}'
        texts += [user.text, admin.request('PATCH', path,
                                           {'user': {'password': canaries['changed_password']}}).text,
                  requests.post(cloud.url + path + '/password', json={'user': {
                      'original_password': canaries['changed_password'],
                      'password': canaries['own_password']}}).text]
        image = demo.upload_image()
        ids = []
        for share in (1.0, 0.0):                 # of the builds that fail
            driver(cloud).failures['spawn'] = share
            servers = [demo.post('/servers', {'server': secret_server(canaries, image, f's{n}')}) for n in range(3)]
            old = demo.post('/servers', {'server': secret_server(
                canaries, image, 'p', personality=[{'path': '/etc/x', 'contents': base64.b64encode(
                    canaries['personality'].encode()).decode()}])}, version='2.37')
            ids += [answer.json()['server']['id'] for answer in (*servers, old)]
            while any(demo.get(f'/servers/{ident}').json()['server']['status'] == 'BUILD' for ident in ids):
                time.sleep(0.02)
        for wrong in ({'adminPass': [canaries['pass_in_list']]}, {'adminPass': {canaries['pass_in_key']: 1}},
                      {'user_data': canaries['bad_user_data'] + '!'}, {'user_data': {canaries['user_data_key']: 1}},
                      {'unknown': canaries['unknown']}):
            body = {'server': {'name': 'x', 'imageRef': image, 'flavorRef': '42', 'networks': 'none', **wrong}}
            refused = demo.post('/servers', body)
            assert refused.status_code == 400, refused.text
            if 'unknown' not in wrong:
                texts.append(refused.text)
        made = demo.post('/os-keypairs', {'keypair': {'name': 'k'}}, version='2.1').json()['keypair']
        canaries['private key'] = made['private_key'].splitlines()[3]
        outcome = set()
        for ident in ids:
            server = demo.get(f'/servers/{ident}').json()['server']
            outcome.add(server['status'])
            texts.append(str(server.get('fault')))
            shown = admin.get(f'/servers/{ident}').json()['server']
            assert not canaries.found_in(str(shown), but=('user_data',))          # which administrators may see
            for client in (admin, demo):
                for action in client.get(f'/servers/{ident}/os-instance-actions').json()['instanceActions']:
                    texts.append(client.get(f'/servers/{ident}/os-instance-actions/{action["request_id"]}').text)
        assert outcome == {'ACTIVE', 'ERROR'}
        alive = next(ident for ident in ids if demo.get(f'/servers/{ident}').json()['server']['status'] == 'ACTIVE')
        rebuilt = demo.post(f'/servers/{alive}/action', {'rebuild': {
            'imageRef': image, 'adminPass': canaries['rebuild_pass']}})
        assert rebuilt.status_code == 202 and rebuilt.json()['server']['adminPass'] == canaries['rebuild_pass']
        while demo.get(f'/servers/{alive}').json()['server']['status'] == 'REBUILD':
            time.sleep(0.02)
        texts.append(requests.post(cloud.url + '/compute/v2.1/servers?adminPass=' + canaries['query'], headers={
            'X-Auth-Token': demo.token, 'Cookie': canaries['cookie'],
            'Authorization': 'Basic ' + canaries['basic']}).text)
        assert not canaries.found_in(' '.join(texts)), 'in what clients see'
        check_databases(cloud.state_path, canaries)
    log = log_file.read_text()
    assert 'nova' in log and len(log) > 2000
    assert not canaries.found_in(log), [line[:300] for line in log.splitlines() if canaries.found_in(line)][:5]


# What is kept on purpose: for the metadata service, as long as the server is there.
KEPT = ('user_data', 'personality')


def check_databases(state_path, canaries):
    """No password and no token is in a database once the builds are over."""
    for name in ('api.sqlite', 'cell1.sqlite'):
        with sqlite3.connect(f'file:{state_path / name}?mode=ro', uri=True) as conn:
            found = canaries.found_in('\n'.join(conn.iterdump()), but=KEPT)
        assert not found, (name, found)


def opened(cloud, server_id):
    """The password with which the conductor would repeat the open action of a server."""
    spec = cloud.services[0].manager.specs.get_request_spec(context.admin_context(), server_id)
    return spec.admin_password


def test_an_admin_password_is_sealed_until_its_action_ends(tmp_path):
    """It is an argument of the open action, sealed: there while the build may begin anew, gone with its end, good or
    bad."""
    canaries, goes_on = Canaries(), threading.Event()
    with cloud_fixture.running(tmp_path) as cloud:
        spawn = driver(cloud).spawn
        driver(cloud).spawn = lambda *args, **kwargs: goes_on.wait(60) and spawn(*args, **kwargs)
        demo = cloud.client(version='2.90')
        image = demo.upload_image()
        ident = demo.post('/servers', {'server': secret_server(canaries, image, 's')}).json()['server']['id']
        check_databases(cloud.state_path, canaries)
        assert opened(cloud, ident) == canaries['admin_pass']
        key = cloud.state_path / 'password-keys'
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        key.rename(cloud.state_path / 'aside')
        assert opened(cloud, ident) is None          # on a host that does not have the file
        (cloud.state_path / 'aside').rename(key)
        goes_on.set()
        demo.wait_for(ident)
        check_databases(cloud.state_path, canaries)
        assert opened(cloud, ident) is None
        goes_on.clear()
        ident = demo.post('/servers', {'server': secret_server(canaries, image, 's')}).json()['server']['id']
        assert demo.delete(f'/servers/{ident}').status_code == 204                 # in the middle of it
        goes_on.set()
        demo.wait_for(ident, 'DELETED')
        check_databases(cloud.state_path, canaries)


@pytest.mark.parametrize(('action', 'feature', 'operation'), [
    ('rebuild', None, 'spawn'), ('rescue', virt.Rescue, 'rescue'),
    ('changePassword', virt.Password, 'set_admin_password')])
def test_the_password_of_an_action_is_sealed_until_it_ends(tmp_path, action, feature, operation):
    canaries, goes_on, reached = Canaries(), threading.Event(), threading.Event()
    with cloud_fixture.running(tmp_path) as cloud:
        demo = cloud.client(version='2.90')
        image = demo.upload_image()
        ident = demo.boot(image, networks='none')['id']
        demo.wait_for(ident)
        called = driver(cloud).features[feature] if feature else driver(cloud)
        usual = getattr(called, operation)

        def wait(*args, **kwargs):
            reached.set()
            assert goes_on.wait(60)
            return usual(*args, **kwargs)
        setattr(called, operation, wait)
        body = {'adminPass': canaries['admin_pass'], **({'imageRef': image} if action == 'rebuild' else {})}
        assert demo.post(f'/servers/{ident}/action', {action: body}).status_code in (200, 202)
        assert reached.wait(60)
        check_databases(cloud.state_path, canaries)
        assert opened(cloud, ident) == canaries['admin_pass']
        # what the host repeats the action with after a restart
        interrupted, = cloud.services[0].manager.methods['instances_on_host'](context.admin_context(), 'host1')
        assert interrupted['arguments']['admin_password'] == canaries['admin_pass']
        goes_on.set()
        demo.wait_for(ident, 'RESCUE' if action == 'rescue' else 'ACTIVE')


def test_files_of_the_state_are_the_owners(tmp_path):
    """Whatever the umask is when the command starts: nobody else reads or writes anything below the state path."""
    state = tmp_path / 'state'
    code = (f'import os, sys; os.umask(0); sys.argv = ["nova-all", "--state-path", {str(state)!r}, "--driver", "fake", '
            '"--port", "0"]; from nova.cmd import all as command; sys.exit(command.main())')
    process = subprocess.Popen([sys.executable, '-W', 'ignore', '-c', code], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    try:
        for line in process.stdout:
            if 'export OS_CLIENT_CONFIG_FILE' in line:
                break
        entry = yaml.safe_load((state / 'clouds.yaml').read_text())['clouds']['nova-demo']['auth']
        client = cloud_fixture.Client(entry['auth_url'].partition('/identity')[0], entry['username'],
                                      entry['password'], entry['project_name'])
        client.wait_for(client.boot(client.upload_image())['id'])
        open_ = {}
        for directory, _names, files in os.walk(tmp_path / 'state'):
            for path in (directory, *(os.path.join(directory, name) for name in files)):
                mode = stat.S_IMODE(os.stat(path).st_mode)
                if mode & 0o077 and (path, mode) != (str(state), 0o711):      # QEMU passes through to its disks
                    open_[path] = oct(mode)
        assert not open_
    finally:
        process.terminate()
        process.wait(20)


def test_a_database_url_is_not_told(tmp_path, log_file):
    """A server that cannot be reached: its password is in no message."""
    canaries = Canaries()
    for scheme in ('mysql+pymysql', 'postgresql+psycopg'):
        made = cloud_fixture.Cloud(tmp_path / scheme, database__connection=(
            f'{scheme}://nova:{canaries["db_password"]}@127.0.0.1:1/nova'))
        with pytest.raises(Exception) as caught:
            made.start()
        assert not canaries.found_in(str(caught.value))
    assert not canaries.found_in(log_file.read_text())


def test_isolation_s_users_are_no_secret_in_lists(tmp_path):
    """Password hashes and secrets of credentials are in no document."""
    canaries = Canaries()
    with cloud_fixture.running(tmp_path) as cloud:
        admin = cloud.admin()
        member = isolation.add_user(admin, 'own', 'member')
        path = f'/identity/v3/users/{member.user_id}/application_credentials'
        made = member.post(path, {'application_credential': {'name': 'c', 'secret': canaries['secret']}})
        assert made.status_code == 201 and made.json()['application_credential']['secret'] == canaries['secret']
        for client, asked in ((admin, '/identity/v3/users'), (admin, f'/identity/v3/users/{member.user_id}'),
                             (member, path), (admin, path)):
            text = client.get(asked).text
            assert not canaries.found_in(text) and '$2' not in text and 'hash' not in text
        check_databases(cloud.state_path, canaries)
