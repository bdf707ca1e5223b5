"""What tests share with nova/tests/functional/test_core_evacuation.py."""
from nova.api.server_actions import evacuate as api
from nova.runtime import encrypted_passwords
from nova.tests.support import core_live_migration as live

cloud = live.cloud


def begin(cloud, uuid, host=None, force=False, shared=None, leave_stopped=False, accepted_risk=None):
    kept, = encrypted_passwords.Passwords(cloud.conf).encrypted({'evacuation': True, 'admin_password': 'canary'}, uuid)
    cloud.db.run(api._begin, cloud.ctx, uuid, {
        'host': host, 'force': force, 'on_shared_storage': shared, 'leave_stopped': leave_stopped,
        'accepted_risk': accepted_risk}, kept, cloud.conf.service_down_time)
    return live.moves(cloud, uuid)[0]['id']


def evacuate(cloud, uuid, **asked):
    number = begin(cloud, uuid, **asked)
    cloud.client['conductor'].continue_evacuation(cloud.ctx, instance_uuid=uuid)
    return number


def die(cloud, host='host1'):
    cloud.kill_compute(host)
    live.down(cloud, host)


def come_back(cloud, host='host1'):
    live.down(cloud, host, forced=False)
    compute = cloud.start_compute(host)
    cloud.settle()
    return compute
