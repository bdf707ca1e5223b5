"""Aggregates and server groups with unmodified clients, on a cloud of the fake driver."""
import pytest
import requests

from nova.tests import long_runs
from nova.tests.support import clients as test_clients


rig = test_clients.fake_rig


def test_openstackclient_manages_aggregates(rig):
    host = rig.value('compute service list --service nova-compute')[0]['Host']
    made = rig.value('aggregate create --zone east --property ssd=true rack')
    assert made['availability_zone'] == 'east' and 'ssd' in str(made['properties'])
    rig.openstack('aggregate create rack', refused=True)
    assert host in str(rig.value(f'aggregate add host rack {host}')['hosts'])
    rig.openstack(f'aggregate add host rack {host}', refused=True)
    assert [row['Zone Name'] for row in rig.value('availability zone list --compute')
            if row['Zone Name'] != 'internal'] == ['east']
    rig.openstack('aggregate set --name row --zone west --property rows=2 rack')
    rig.openstack('aggregate unset --property ssd row')
    shown = rig.value('aggregate show row')
    assert shown['availability_zone'] == 'west' and 'rows' in str(shown['properties'])
    assert 'ssd' not in str(shown['properties'])
    assert [(row['Name'], row['Availability Zone']) for row in rig.value('aggregate list')] == [('row', 'west')]
    assert {row['Zone'] for row in rig.value('compute service list --service nova-compute')} == {'west'}
    printed = rig.openstack('aggregate delete row', refused=True)
    assert 'has hosts' in printed
    rig.openstack(f'aggregate remove host row {host}')
    rig.openstack('aggregate delete row')
    assert rig.value('aggregate list') == []


@pytest.fixture(scope='module')
def guest(rig, tmp_path_factory):
    """An image of this name."""
    data = tmp_path_factory.mktemp('image') / 'image.raw'
    data.write_bytes(b'\0' * 65536)
    rig.openstack(f'image create --disk-format raw --container-format bare --file {data} --public guest')


@long_runs.only
def test_openstackclient_caches_images_ahead(rig, guest):
    host = rig.value('compute service list --service nova-compute')[0]['Host']
    rig.openstack('aggregate create cached')
    rig.openstack(f'aggregate add host cached {host}')
    rig.openstack('--os-compute-api-version 2.81 aggregate cache image cached guest')


def test_openstackclient_manages_server_groups(rig, guest):
    group = rig.value('--os-compute-api-version 2.64 server group create --policy anti-affinity '
                      '--rule max_server_per_host=2 apart')
    assert group['policy'] == 'anti-affinity' and group['rules'] == {'max_server_per_host': 2}
    soft = rig.value('--os-compute-api-version 2.15 server group create --policy soft-affinity near')
    assert 'soft-affinity' in str(soft)
    rig.openstack(f'server create --flavor m1.nano --image guest --network private --hint group={group["id"]} '
                  '--wait one')
    rig.openstack('server create --flavor m1.nano --image guest --network private --hint group=apart --wait two')
    rig.openstack('server create --flavor m1.nano --image guest --network private --hint group=nowhere three',
                  refused=True)
    server = rig.value('server show two')
    assert server['id'] in str(rig.value('server group show apart')['members'])
    server = rig.value('server show one')
    assert server['id'] in str(rig.value('--os-compute-api-version 2.64 server group show apart')['members'])
    listed = rig.value('--os-compute-api-version 2.64 server group list --all-projects')
    assert sorted(row['Name'] for row in listed) == ['apart', 'near']
    limits = {row['Name']: row['Value'] for row in rig.value('limits show --absolute')}
    assert limits.get('total_server_groups_used', limits.get('totalServerGroupsUsed', 2)) == 2
    rig.openstack('server delete --wait one two')
    rig.openstack('server group delete apart near')
    assert rig.value('server group list') == []


@long_runs.only
@pytest.mark.parametrize('version', ['2.1', '2.15', '2.64'])
def test_openstackclient_manages_server_groups_at_each_microversion(rig, version):
    at = f'--os-compute-api-version {version}'
    made = rig.value(f'{at} server group create --policy affinity both')
    assert 'affinity' in str(made.get('policy', made.get('policies'))) and made['members'] in ('', [])
    assert [row['Name'] for row in rig.value(f'{at} server group list')] == ['both']
    assert rig.value(f'{at} server group list --long')[0]['ID'] == made['id']
    assert rig.value(f'{at} server group show both')['id'] == made['id']
    printed = rig.openstack(f'{at} server group create --policy anti-affinity --rule max_server_per_host=2 apart',
                            refused=version != '2.64')
    assert 'apart' in printed or '2.64' in printed
    for row in rig.value(f'{at} server group list'):
        rig.openstack(f'{at} server group delete {row["ID"]}')
    assert rig.value(f'{at} server group list') == []


@long_runs.only
def test_clients_that_do_not_know_the_other_policies(rig):
    """They show what there is, and stumble over none of it."""
    token, made = rig.value('token issue'), {}
    for name, policies in (('many', ['affinity', 'network-proximity']), ('none', []), ('near', ['network-proximity'])):
        answer = requests.post(
            f'{rig.cloud.endpoints["compute"].replace("v2.1", "v3.0")}/{token["project_id"]}/groups', timeout=30,
            json={'group': {'name': name, 'policies': policies}}, headers={'X-Auth-Token': token['id']})
        assert answer.status_code == 201, answer.text
        made[name] = answer.json()['group']['id']
    for version in ('2.1', '2.64'):
        at = f'--os-compute-api-version {version}'
        assert {row['Name'] for row in rig.value(f'{at} server group list --long')} == set(made)
        assert 'network-proximity' in str(rig.value(f'{at} server group show near'))
        assert 'affinity' in str(rig.value(f'{at} server group show many'))
        assert rig.value(f'{at} server group show none')['id'] == made['none']
    rig.openstack('server group delete many none near')


@long_runs.only
def test_novaclient_manages_aggregates_and_groups(rig):
    """The older client asks in another way."""
    rig.environ.update(test_clients.os_environment(rig))
    assert 'old' in rig.run('nova', 'aggregate-create old north')
    assert 'north' in rig.run('nova', 'aggregate-list')
    rig.run('nova', 'aggregate-set-metadata old k=v')
    assert 'k=v' in rig.run('nova', 'aggregate-show old')
    rig.run('nova', 'aggregate-delete old')
    assert 'affinity' in rig.run('nova', 'server-group-create both affinity')
    assert 'both' in rig.run('nova', 'server-group-list')
