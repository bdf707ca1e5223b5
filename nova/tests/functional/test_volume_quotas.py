"""What a project may store: limits of volumes and images of its own, who changes them, and who sees what is used."""
import concurrent.futures

import pytest

from nova.cmd.manage import main as manage
from nova.db.identity import directory
from nova.db.projects import quotas
from nova.db.projects import storage_quotas
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support.volumes import volume
from nova.tests.support.waiting import wait_for

DEFAULTS = {'volumes': 10, 'snapshots': 10, 'gigabytes': 20, 'per_volume_gigabytes': 15, 'backups': 10,
            'backup_gigabytes': 20}
OTHERS = {'groups': 0}
OF_TYPES = {f'{name}_{kind}': -1 for kind in ('__DEFAULT__', 'multiattach')
            for name in ('volumes', 'snapshots', 'gigabytes')}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud'), volume__volumes=10, volume__gigabytes=20,
                               volume__per_volume_gigabytes=15) as made:
        yield made


@pytest.fixture
def admin(cloud):
    return cloud.admin()


@pytest.fixture
def user(cloud, admin):
    """A member of a project that has the default limits, and nothing."""
    found = cloud.client()
    yield found
    admin.delete(quota_set(found))
    for noun in ('snapshots', 'volumes'):
        for row in found.get(f'/volume/v3/{noun}').json()[noun]:     # refused while the data is being made
            wait_for(lambda path=f'/volume/v3/{noun}/{row["id"]}': found.delete(path).status_code == 202, 60, noun)


def quota_set(user, more=''):
    return f'/volume/v3/os-quota-sets/{user.project_id}{more}'


def create(user, size, **values):
    return user.post('/volume/v3/volumes', {'volume': {'size': size, **values}})


def fault(answer):
    body = answer.json()['overLimit']
    return answer.status_code, body['code'], body['message']


def test_volume_beyond_the_quota_returns_413_with_the_reason(user):
    made = volume(user, size=12)
    assert fault(create(user, 9)) == (413, 413, 'Requested volume or snapshot exceeds allowed gigabytes quota. '
                                      'Requested 9G, quota is 20G and 12G has been consumed.')
    assert fault(create(user, 16)) == (413, 413, 'Requested volume size 16G is larger than maximum allowed limit 15G.')
    action = f'/volume/v3/volumes/{made}/action'
    assert fault(user.post(action, {'os-extend': {'new_size': 16}}))[:2] == (413, 413)
    for size in (65537, 999999999):          # larger than any volume: the quota is the nearer reason
        assert fault(create(user, size))[0] == fault(user.post(action, {'os-extend': {'new_size': size}}))[0] == 413
    assert user.post(action, {'os-extend': {'new_size': 15}}).status_code == 202
    assert fault(user.post('/volume/v3/snapshots', {'snapshot': {'volume_id': made}}))[0] == 413
    assert create(user, 5).status_code == 202
    limits = user.get('/volume/v3/limits').json()['limits']['absolute']
    assert (limits['maxTotalVolumeGigabytes'], limits['totalGigabytesUsed'], limits['totalVolumesUsed']) == (20, 20, 2)


def test_volume_beyond_the_maximum_size_returns_400_without_a_quota(user, admin):
    admin.put(quota_set(user), {'quota_set': {'gigabytes': -1, 'per_volume_gigabytes': -1}})
    made = volume(user)
    for size in (65537, 0):
        assert create(user, size).status_code == 400
    answer = user.post(f'/volume/v3/volumes/{made}/action', {'os-extend': {'new_size': 65537}})
    assert answer.status_code == 400 and "Volume size '65537' must be an integer of 1 to 65536 GB." in answer.text


def test_a_project_has_limits_of_its_own(user, admin, cloud):
    assert user.get(quota_set(user)).json()['quota_set'] == {'id': user.project_id, **DEFAULTS, **OTHERS, **OF_TYPES}
    answer = admin.put(quota_set(user), {'quota_set': {'gigabytes': 3, 'volumes': '2', 'snapshots': 1}})
    assert answer.status_code == 200, answer.text
    mine = {**DEFAULTS, 'gigabytes': 3, 'volumes': 2, 'snapshots': 1}
    assert answer.json()['quota_set'] == {**mine, **OTHERS, **OF_TYPES}
    assert user.get(quota_set(user)).json()['quota_set'] == {'id': user.project_id, **mine, **OTHERS, **OF_TYPES}
    assert user.get(quota_set(user, '/defaults')).json()['quota_set'] == {'id': user.project_id, **DEFAULTS, **OTHERS}
    assert admin.get(quota_set(admin)).json()['quota_set'] == {'id': admin.project_id, **DEFAULTS, **OTHERS, **OF_TYPES}
    made = volume(user)
    assert user.post('/volume/v3/snapshots', {'snapshot': {'volume_id': made}}).status_code == 202
    assert fault(user.post('/volume/v3/snapshots', {'snapshot': {'volume_id': made}}))[2] == (
        'Maximum number of snapshots allowed (1) exceeded')
    assert create(user, 1).status_code == 202
    assert fault(create(user, 1))[2] == "Maximum number of volumes allowed (2) exceeded for quota 'volumes'."
    used = user.get(quota_set(user, '?usage=True')).json()['quota_set']
    assert used['gigabytes'] == {'limit': 3, 'in_use': 3, 'reserved': 0}
    assert admin.put(quota_set(user, '?skip_validation=False'),
                     {'quota_set': {'gigabytes': 2}}).status_code == 400
    assert admin.put(quota_set(user), {'quota_set': {'gigabytes': 2}}).status_code == 200
    assert admin.delete(quota_set(user)).status_code == 200
    assert user.get(quota_set(user)).json()['quota_set'] == {'id': user.project_id, **DEFAULTS, **OTHERS, **OF_TYPES}


@pytest.mark.parametrize('values', [{}, {'gigabytes': -2}, {'gigabytes': 2 ** 31}, {'gigabytes': '1e3'}, {'cores': 1},
                                    {'gigabytes': None}, {'gigabytes': True}, []])
def test_invalid_volume_limits_return_400(user, admin, values):
    assert admin.put(quota_set(user), {'quota_set': values}).status_code == 400
    assert admin.put('/volume/v3/os-quota-sets/' + 'x' * 300, {'quota_set': {'gigabytes': 1}}).status_code == 400


def test_only_administrators_change_limits(user, admin, cloud):
    service = cloud.client('nova-service')
    for client, codes in ((user, (403,)), (service, (403, 404))):
        assert client.put(quota_set(user), {'quota_set': {'gigabytes': -1}}).status_code in codes
        assert client.delete(quota_set(user)).status_code in codes
    assert user.get(quota_set(admin)).status_code == 404
    assert user.get(quota_set(user)).json()['quota_set']['gigabytes'] == 20


def test_limits_of_servers_and_of_storage_are_apart(user, admin):
    servers = f'/os-quota-sets/{user.project_id}'
    admin.put(quota_set(user), {'quota_set': {'gigabytes': 3}})
    admin.put(servers, {'quota_set': {'cores': 7}})
    assert admin.delete(servers).status_code == 202
    assert user.get(quota_set(user)).json()['quota_set']['gigabytes'] == 3
    admin.put(servers, {'quota_set': {'cores': 7}})
    assert admin.delete(quota_set(user)).status_code == 200
    assert admin.get(servers).json()['quota_set']['cores'] == 7
    admin.delete(servers)


def test_parallel_requests_do_not_exceed_the_bytes(user):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        codes = [answer.status_code for answer in pool.map(lambda _: create(user, 6), range(8))]
    assert sorted(codes) == [202] * 3 + [413] * 5


def test_an_operator_changes_the_bytes_of_a_project(cloud, user, capsys, tmp_path):
    config = tmp_path / 'nova.conf'
    config.write_text(f'[DEFAULT]\nstate_path = {cloud.state_path}\n[volume]\nvolumes = 10\n')

    def quota(*arguments):
        code = manage.main(['quota', *arguments, '--config-file', str(config)])
        return code, {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    user.upload_image(b'x' * 100)
    assert quota('set', user.project_id, 'image_size_total', '1')[0] == 0
    code, shown = quota('show', user.project_id)
    assert code == 0 and shown['image_size_total'] == ['1', '1', 'MiB'] and shown['volumes'] == ['10', '0', '-']
    assert user.get('/image/v2/info/usage').json()['usage']['image_size_total'] == {'limit': 1, 'usage': 1}
    image = user.post('/image/v2/images', {'disk_format': 'raw', 'container_format': 'bare'}).json()
    path = f'/image/v2/images/{image["id"]}/file'
    octets = {'Content-Type': 'application/octet-stream'}
    assert user.request('PUT', path, data=b'x' * 2 ** 20, headers=octets).status_code == 413
    assert quota('set', user.project_id, 'image_size_total', '-1')[0] == 0
    assert user.request('PUT', path, data=b'x' * 2 ** 20, headers=octets).status_code == 204
    assert quota('set', 'demo', 'volumes', '7')[0] == 0       # a name was taken for an id: the limit was nobody's
    assert quota('show', user.project_id)[1]['volumes'][0] == quota('show', 'demo')[1]['volumes'][0] == '7'
    for unknown in ('no-such-project', user.project_id[:-1]):
        assert [quota(*words)[0] for words in (('set', unknown, 'volumes', '1'), ('show', unknown), ('reset', unknown))
                ] == [1, 1, 1]
    with cloud.api_db.reader() as conn:
        assert directory.get(conn, 'project', id=user.project_id)['name'] == 'demo'
        assert quotas.own_limits(conn, 'no-such-project', ('volumes',)) == {}
    assert quota('set', user.project_id, 'cores', '1')[0] == 1
    assert quota('set', user.project_id, 'volumes', '-2')[0] == 1
    names = [storage_quotas.of_type(noun, 'a type') for noun in storage_quotas.PER_TYPE]
    cloud.api_db.run(quotas.set_limits, user.project_id, dict.fromkeys([*names, 'cores'], 5))
    assert quota('reset', user.project_id)[0] == 0
    assert quota('show', user.project_id)[1]['image_size_total'] == ['262144', '2', 'MiB']
    with cloud.api_db.writer() as conn:
        assert quotas.own_limits(conn, user.project_id, (*names, 'cores')) == {'cores': 5}
        quotas.delete_limits(conn, user.project_id)
