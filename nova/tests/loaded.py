"""The clients and the comparison of tools/load.py, on a whole cloud in this process."""
import importlib
import json
import pathlib
import random
import sys

import pytest

from nova.rpc import bus
from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds

TOOLS = pathlib.Path(__file__).resolve().parents[2] / 'tools'
UNLIMITED = {'quota__instances': -1, 'quota__cores': -1, 'quota__ram': -1, 'network__quota': {'port': -1}}


def tool(name='load'):
    """A module of tools; the test is skipped where the tree is not."""
    if not (TOOLS / f'{name}.py').exists():
        pytest.skip('tools is not part of an installed nova')
    if str(TOOLS) not in sys.path:
        sys.path.append(str(TOOLS))
    return importlib.import_module(name)


class Loaded:
    """A started functional Cloud with everything that clients need.

    :param cloud: nova.tests.functional.cloud.Cloud
    """

    def __init__(self, cloud):
        load, admin = tool(), cloud.admin('2.1')
        self.load, self.admin = load, admin
        flavors = [admin.post('/flavors', {'flavor': {
            'name': f'load-{ram}', 'ram': ram, 'vcpus': 1, 'disk': 1}}).json()['flavor']['id'] for ram in (64, 128)]
        self._body = {'imageRef': admin.upload_image(), 'flavorRef': flavors[0]}
        self._flavors = flavors
        directory = pathlib.Path(cloud.conf.fake.state_dir)

        class Asked(load.Cloud):
            def token(self):
                return admin.token

            def guests(self):
                return {path.stem: {uuid: guest['power_state'] for uuid, guest in json.loads(path.read_text()).items()}
                        for path in directory.glob('*.json')}
        self.cloud = Asked(cloud.url + '/compute/v2.1', {
            name: database.url.render_as_string(hide_password=False)
            for name, database in (('api', cloud.api_db), ('cell1', cloud.cell_db))})

    def run(self, seconds, fault=lambda: None, clients=4, servers=12, seed=0):
        """load.Result of clients that worked for so many seconds."""
        return self.load.run(self.cloud, fault, self._body, self._flavors, load_s=seconds, clients=clients,
                             servers=servers, rng=random.Random(seed))

    def close(self):
        self.cloud.close()


def accepted(cloud, seconds=240):
    """Wait until the clients of a run, which are four, have been served again.

    :param cloud: load.Cloud
    """
    def count():
        return len(cloud.rows('cell1', 'SELECT DISTINCT request_id FROM instance_actions'))
    before = count()
    waiting.wait_for(lambda: count() > before + 8, seconds, 'actions to be accepted')


def start(directory, transport_url=None, **overrides):
    """A Cloud with two hosts; not started."""
    cloud = clouds.Cloud(directory, ['host1', 'host2'], **{
        'conductor__reconcile_interval': 1, 'conductor__task_deadline': 20, 'fake__delays': 'spawn:0.02',
        **UNLIMITED, **overrides})
    if transport_url:
        bus.register_options(cloud.conf)
        cloud.conf.set_override('transport_url', transport_url)
    return cloud
