"""What tests share with nova/tests/functional/test_network_neighbours.py."""
import json
import uuid

import pytest

from nova.db.networks import networks as db_networks
from nova.db.tables import network as t
from nova.network.host import state as host_state
from nova.network.linux import validators
from nova.tests.support import network_api as test_network_api


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def plumbed(face, network, port, host='host1'):
    """The overlay of a network as the privileged part of a host gets it, where a port of it has a server."""
    with face.db.writer() as conn:
        db_networks.update(conn, t.ports, port, {'host': host, 'device_id': str(uuid.uuid4()),
                                                 'device_owner': 'compute:nova'})
    sent = json.loads(json.dumps(host_state.as_json(face.manager.load())))
    return next(each for each in validators.state(face.conf.network.bridge, ())(sent).overlays
                if each.id == network)
