"""Administrative servers beside unmodified clients, which know nothing of instance categories."""
import requests

from nova.tests import long_runs
from nova.tests.support import clients as test_clients

KEY = 'os-instance-categories:category'
USER = '--os-cloud nova-demo'


rig = test_clients.fake_rig


class Api:
    """The compute API as an administrator in the project of the demo user."""

    def __init__(self, rig):
        project = rig.value(f'{USER} token issue')['project_id']
        rig.openstack(f'role add --user admin --project {project} admin')
        token = rig.value(f'--os-project-id {project} --os-project-name= token issue')
        assert token['project_id'] == project
        self.url = next(row['URL'] for row in rig.value('endpoint list') if row['Service Type'] == 'compute')
        self.headers = {'X-Auth-Token': token['id']}

    def post(self, path, body):
        answer = requests.post(self.url.replace('%(tenant_id)s', '').rstrip('/') + path, json=body,
                               headers=self.headers, timeout=60)
        assert answer.status_code < 300, answer.text
        return answer.json()


@long_runs.only
def test_users_see_regular_servers_images_and_volumes_only(rig, tmp_path):
    data = tmp_path / 'image.raw'
    data.write_bytes(b'\0' * 65536)
    for name in ('guest', 'controller'):
        rig.openstack(f'image create --disk-format raw --container-format bare --file {data} --public {name}')
    api = Api(rig)
    api.post('/os-instance-categories', {'instance_category': {
        'name': 'storage', 'default_flavor': '42', 'default_image': rig.value('image show controller')['id']}})
    rig.openstack(f'{USER} server create --flavor m1.nano --image guest --network private --wait mine')
    hidden = api.post('/servers', {'server': {'name': 'hidden', KEY: 'storage'}})['server']['id']
    rig.wait(f'server show {hidden}', 'ACTIVE', 240)

    assert [row['Name'] for row in rig.value(f'{USER} server list')] == ['mine']
    assert {row['Name'] for row in rig.value('server list --all-projects')} == {'mine', 'hidden'}
    for command in (f'server show {hidden}', 'server show hidden', f'server delete {hidden}',
                    f'server reboot {hidden}', f'server stop {hidden}', f'console log show {hidden}'):
        rig.openstack(f'{USER} {command}', refused=True)
    assert [row['Name'] for row in rig.value(f'{USER} image list')] == ['guest']
    assert {row['Name'] for row in rig.value('image list')} == {'guest', 'controller'}
    rig.openstack(f'{USER} image show controller', refused=True)

    for name in ('data', 'secret'):
        rig.openstack(f'{USER} volume create --size 1 {name}')
    rig.openstack(f"server add volume {hidden} {rig.value(f'{USER} volume show secret')['id']}")
    rig.wait(f'server show {hidden} -c volumes_attached', 'id', 240)
    assert [row['Name'] for row in rig.value(f'{USER} volume list')] == ['data']
    rig.openstack(f'{USER} volume show secret', refused=True)

    shown = rig.value(f'{USER} server show mine')
    assert not [key for key in shown if 'categor' in key]
    rig.openstack(f'server delete --wait {hidden}')
    assert {row['Name'] for row in rig.value(f'{USER} volume list')} == {'data', 'secret'}
