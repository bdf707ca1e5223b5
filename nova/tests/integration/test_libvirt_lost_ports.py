"""A real guest loses the device of a port that was deleted while nobody could tell its host."""
from nova.db.networks import networks
from nova.db.tables import network as tables
from nova.tests.support import waiting
from nova.tests.integration import moving
from nova.tests.integration import moving_cloud
from nova.tests.support import libvirt as base

pytestmark = moving.needed
HOST = 'compute1'


def devices(fleet, server):
    """MACs of the running guest's ports."""
    lines = fleet.virsh(HOST, 'domiflist', server).splitlines()[2:]
    return {line.split()[-1] for line in lines if line.strip()}


def test_the_event_of_a_deleted_port_is_lost_with_nova_compute():
    """The device stayed until somebody detached it."""
    with moving_cloud.fleet(1) as fleet:
        server = fleet.boot(HOST)['id']
        first, = fleet.ports(server)
        network = fleet.admin.get('/network/v2.0/networks').json()['networks'][0]['id']
        port = fleet.admin.post('/network/v2.0/ports', {'port': {'network_id': network}}).json()['port']
        kept = devices(fleet, server)
        answer = fleet.admin.post(f'/servers/{server}/os-interface', {
            'interfaceAttachment': {'port_id': port['id']}})
        assert answer.status_code == 200, answer.text
        assert devices(fleet, server) == kept | {port['mac_address']}
        fleet.kill(HOST)
        with fleet.cloud.api_db.writer() as conn:          # as its deletion does, and nobody says so
            networks.release(conn, [port['id']])
            assert networks.delete(conn, tables.ports, port['id'])
        fleet.start(HOST)
        fleet.all_up()
        waiting.wait_for(lambda: devices(fleet, server) == kept, base.BOOT_SECONDS, 'the guest to lose the device')

        def settled():
            assert fleet.ports(server) == [first]
            shown = fleet.admin.get(f'/servers/{server}').json()['server']['addresses']
            assert len(shown) == 1 and {each['OS-EXT-IPS-MAC:mac_addr'] for rows in shown.values()
                                        for each in rows} == kept
            assert fleet.left_of(server, HOST) == []
        waiting.settled(settled, 20)
        fleet.clear()
