"""A walk through everything of which somebody is told, on a whole cloud, and the samples that are made of it.

``python -m nova.tests.functional.notifications`` writes doc/notification_samples anew.
"""
import collections
import json
import pathlib
import re
import sys
import tempfile
import time

from oslo_messaging.notify import _impl_test

from nova.api import app
from nova.notify import cadf
from nova.notify import events
from nova.notify import payloads
from nova.rpc import bus
from nova.tests.functional import cloud as clouds
from nova.tests.functional import cloud_rows
from nova.tests.functional import servers
from nova.virt import driver as virt
from nova.web import paste_registry

SAMPLES = pathlib.Path(__file__).resolve().parents[3] / 'doc/notification_samples'
HOSTS = ['host1', 'host2', 'host3']
SECRETS = ('swordfish', 'c2VjcmV0IGRhdGE=')        # a password, user data
OPTIONS = {'notifications__notification_format': 'both', 'notifications__notify_on_state_change': 'vm_and_task_state',
           'notifications__bdms_in_notifications': True, 'notifications__include_share_mapping': True,
           'compute_monitors': ['cpu.virt_driver'], 'report_interval': 300, 'service_down_time': 900}


def start(directory, driver='test', **options):
    """A started cloud whose events are in ``told()``."""
    _impl_test.reset()
    made = clouds.Cloud(directory, HOSTS, **{**OPTIONS, **options})
    bus.register_options(made.conf)
    made.conf.set_override('driver', [driver], group='oslo_messaging_notifications')
    made.start()
    return made


def told():
    """[(context, message, priority)] of all events so far, oldest first."""
    return [found[:3] for found in list(_impl_test.NOTIFICATIONS)]


def unfinished():
    """Names of events that were told to have begun more often than to have ended, or failed."""
    counts = collections.Counter(message['event_type'] for _context, message, _priority in told())
    # a destination that refuses tells an error, too
    return [row.name for row in events.ROWS
            if set(row.phases) >= set(events.PAIR) and row.name not in ('instance.shutdown', 'instance.resize')
            and counts[f'{row.name}.start'] > counts[f'{row.name}.end'] + counts[f'{row.name}.error']]


class Walk:
    """What an owner and an administrator do, one thing after the other.

    :param patch: function(object, attribute, value) that is taken back afterwards
    """

    def __init__(self, cloud, patch=setattr):
        self.cloud, self.boss = cloud, cloud.admin('2.97')
        self.image = self.boss.upload_image()
        self.shares = servers.Shares()
        offered = next(each for each in paste_registry.instances_of(app.Services) if each.conf is cloud.conf)
        for name in ('allow', 'deny'):
            patch(self.conductor.services.shares, name, getattr(self.shares, name))
        patch(offered, 'shares', self.shares)

    @property
    def conductor(self):
        return next(part.manager for part in self.cloud.services if part.binary == 'nova-conductor')

    def compute(self, host):
        return next(part.manager for part in self.cloud.services
                    if part.binary == 'nova-compute' and part.host == host)

    def drivers(self):
        return [self.compute(host).driver for host in HOSTS]

    def fail(self, operation):
        for driver in self.drivers():
            driver.failures[operation] = RuntimeError('the hypervisor failed')

    def well(self):
        for driver in self.drivers():
            driver.failures.clear()
            driver.delays.clear()

    def until(self, condition, timeout=120):
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, 'it takes too long'
            time.sleep(0.01)

    def heard(self, event_type, count=1):
        """Wait until so many events of this type were told."""
        self.until(lambda: sum(message['event_type'] == event_type for _, message, _ in told()) >= count)

    def wait_for(self, uuid, status):
        """Wait for a server's status, and until the end of all that has begun is told: an event follows the state that
        clients see, and has the server as it is when it is told.
        """
        self.boss.wait_for(uuid, status, timeout=30)
        self.until(lambda: not unfinished())

    # ---- steps

    def ask(self, method, path, body=None, code=None, version=None):
        answer = self.boss.request(method, path, body, version)
        assert answer.status_code == code if code else answer.status_code < 300, (path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def boot(self, host='host1', status='ACTIVE', **fields):
        if host is not None:
            fields['host'] = host
        made = self.boss.boot(self.image, networks='auto', name='web', key_name='mine', tags=['blue'],
                              adminPass=SECRETS[0], user_data=SECRETS[1], **fields)
        self.wait_for(made['id'], status)
        return made['id']

    def act(self, uuid, name, body=None, after=None):
        self.ask('POST', f'/servers/{uuid}/action', {name: body})
        if after is not None:
            self.wait_for(uuid, after)

    def all(self):
        self.nouns()
        uuid = self.boot()
        for part in (self.power, self.states, self.beside, self.moves, self.live, self.failures, self.evacuation):
            part(uuid)
        self.deletions(uuid)
        self.usage()
        self.conductor.audit_log.seal_audit_log()

    def nouns(self):
        ask = self.ask
        ask('POST', '/flavors', {'flavor': {'name': 'small', 'id': 'n1', 'ram': 256, 'vcpus': 1, 'disk': 1}})
        ask('PUT', '/flavors/n1', {'flavor': {'description': 'for the samples'}})
        ask('DELETE', '/flavors/n1')
        public = ask('POST', '/os-keypairs', {'keypair': {'name': 'made', 'type': 'ssh'}}, version='2.91')
        ask('POST', '/os-keypairs', {'keypair': {'name': 'mine', 'type': 'ssh',
                                                 'public_key': public['keypair']['public_key']}})
        ask('DELETE', '/os-keypairs/made')
        number = ask('POST', '/os-aggregates', {'aggregate': {'name': 'rack'}})['aggregate']['id']
        path = f'/os-aggregates/{number}'
        ask('PUT', path, {'aggregate': {'name': 'rack 2'}})
        ask('POST', path + '/action', {'set_metadata': {'metadata': {'ssd': 'true'}}})
        ask('POST', path + '/action', {'add_host': {'host': 'host3'}})
        ask('POST', path + '/action', {'remove_host': {'host': 'host3'}})
        ask('DELETE', path)
        group = ask('POST', '/os-server-groups', {'server_group': {'name': 'pair', 'policy': 'affinity'}})
        ask('DELETE', f"/os-server-groups/{group['server_group']['id']}")

    def power(self, uuid):
        for name, body, after in (
                ('os-stop', None, 'SHUTOFF'), ('os-start', None, 'ACTIVE'), ('reboot', {'type': 'HARD'}, 'ACTIVE'),
                ('pause', None, 'PAUSED'), ('unpause', None, 'ACTIVE'), ('suspend', None, 'SUSPENDED'),
                ('resume', None, 'ACTIVE'), ('rescue', {'adminPass': SECRETS[0]}, 'RESCUE'),
                ('unrescue', None, 'ACTIVE'),
                ('rebuild', {'imageRef': self.image, 'adminPass': SECRETS[0]}, 'ACTIVE')):
            self.act(uuid, name, body, after)

    def states(self, uuid):
        self.act(uuid, 'createImage', {'name': 'copy'}, 'ACTIVE')
        self.act(uuid, 'shelve', None, 'SHELVED_OFFLOADED')
        self.act(uuid, 'unshelve', {'host': 'host1'}, 'ACTIVE')
        self.act(uuid, 'lock', {'locked_reason': 'it is being looked at'})
        self.act(uuid, 'unlock')
        self.act(uuid, 'trigger_crash_dump')
        self.heard('instance.trigger_crash_dump.end')
        self.ask('PUT', f'/servers/{uuid}', {'server': {'name': 'web 1'}})
        self.ask('PUT', f'/servers/{uuid}/tags/green')

    def volume(self):
        made = self.ask('POST', '/volume/v3/volumes', {'volume': {'size': 1}})['volume']['id']
        self.until(lambda: self.ask('GET', f'/volume/v3/volumes/{made}')['volume']['status'] == 'available')
        return made

    def beside(self, uuid):
        port = self.ask('POST', f'/servers/{uuid}/os-interface', {'interfaceAttachment': {}})['interfaceAttachment']
        self.ask('DELETE', f"/servers/{uuid}/os-interface/{port['port_id']}")
        self.heard('instance.interface_detach.end')
        path, old, new = f'/servers/{uuid}/os-volume_attachments', self.volume(), self.volume()
        self.ask('POST', path, {'volumeAttachment': {'volumeId': old}})
        self.heard('instance.volume_attach.end')
        self.ask('PUT', f'{path}/{old}', {'volumeAttachment': {'volumeId': new}})
        self.heard('instance.volume_swap.end')
        self.fail('swap_volume')
        self.ask('PUT', f'{path}/{new}', {'volumeAttachment': {'volumeId': old}})
        self.heard('instance.volume_swap.error')
        self.well()
        self.until(lambda: self.ask('GET', f'/volume/v3/volumes/{new}')['volume']['status'] == 'in-use')
        self.ask('DELETE', f'{path}/{new}')
        self.heard('instance.volume_detach.end')
        self.fail('attach_volume')
        self.until(lambda: self.ask('GET', f'/volume/v3/volumes/{old}')['volume']['status'] == 'available')
        self.ask('POST', path, {'volumeAttachment': {'volumeId': old}})
        self.heard('instance.volume_attach.error')
        self.fail('attach_interface')
        self.ask('POST', f'/servers/{uuid}/os-interface', {'interfaceAttachment': {}}, code=500)
        self.well()
        self.share(uuid)

    def share(self, uuid):
        self.act(uuid, 'os-stop', None, 'SHUTOFF')
        path, share, other = f'/servers/{uuid}/shares', self.shares.add(), self.shares.add()
        self.ask('POST', path, {'share': {'share_id': share, 'tag': 'data'}})
        self.heard('instance.share_attach.end')
        self.fail('attach_share')
        self.ask('POST', path, {'share': {'share_id': other}})
        self.heard('instance.share_attach.error')
        self.fail('detach_share')
        self.ask('DELETE', f'{path}/{share}')
        self.heard('instance.share_detach.error')
        self.well()
        for number, each in enumerate((share, other)):
            self.ask('DELETE', f'{path}/{each}')
            self.heard('instance.share_detach.end', number + 1)
        self.act(uuid, 'os-start', None, 'ACTIVE')

    def moves(self, uuid):
        self.act(uuid, 'resize', {'flavorRef': '84'}, 'VERIFY_RESIZE')
        self.act(uuid, 'confirmResize', None, 'ACTIVE')
        self.act(uuid, 'resize', {'flavorRef': '42'}, 'VERIFY_RESIZE')
        self.act(uuid, 'revertResize', None, 'ACTIVE')

    def home(self, uuid):
        return self.ask('GET', f'/servers/{uuid}')['server']['OS-EXT-SRV-ATTR:host']

    def live(self, uuid):
        for ending, last in (('abort', 'rollback_dest'), ('force_complete', 'post_dest')):
            other = next(host for host in HOSTS if host != self.home(uuid))
            driver = self.compute(self.home(uuid)).driver
            driver.delays['live_migrate'] = 6000         # no progress yet when it is told: '' then, a number later
            self.act(uuid, 'os-migrateLive', {'host': other, 'block_migration': True})
            self.until(lambda driver=driver: uuid in driver.features[virt.LiveMigration].jobs)
            path = f'/servers/{uuid}/migrations'
            self.until(lambda path=path: [row['status'] for row in self.ask('GET', path)['migrations']] == ['running'])
            path += f"/{self.ask('GET', path)['migrations'][0]['id']}"
            if ending == 'abort':
                self.ask('DELETE', path)
            else:
                self.ask('POST', path + '/action', {ending: None})
            self.boss.wait_for(uuid)
            self.well()
            self.heard(f'instance.live_migration_{last}.end')       # before the next one changes the server's state

    def failures(self, uuid):
        self.fail('reboot')
        self.act(uuid, 'reboot', {'type': 'HARD'}, 'ERROR')
        self.well()
        self.act(uuid, 'reboot', {'type': 'HARD'}, 'ACTIVE')
        self.fail('spawn')
        self.act(uuid, 'rebuild', {'imageRef': self.image}, 'ERROR')
        lost = self.boot(host=None, status='ERROR')
        self.well()
        self.act(uuid, 'rebuild', {'imageRef': self.image}, 'ACTIVE')
        self.fail('send_guest')
        self.act(uuid, 'migrate', None)
        self.heard('instance.resize.error')
        self.well()
        self.boss.wait_for(uuid)
        self.ask('DELETE', f'/servers/{lost}')
        self.until(lambda: self.boss.get(f'/servers/{lost}').status_code == 404)
        for host in HOSTS:
            self.service(host, {'status': 'disabled', 'disabled_reason': 'maintenance'})
        self.act(uuid, 'migrate', None)
        self.heard('compute_task.migrate_server.error')
        self.boss.wait_for(uuid)

    def service(self, host, values):
        number = next(row['id'] for row in self.ask('GET', '/os-services?binary=nova-compute')['services']
                      if row['host'] == host)
        self.ask('PUT', f'/os-services/{number}', values)
        return number

    def evacuation(self, uuid):
        """First no host takes it, then one does."""
        home = self.home(uuid)
        self.service(home, {'forced_down': True})
        self.act(uuid, 'evacuate', {})
        self.heard('compute_task.rebuild_server.error')
        self.boss.wait_for(uuid)
        for host in HOSTS:
            self.service(host, {'status': 'enabled'})
        self.act(uuid, 'evacuate', {}, 'SHUTOFF')
        self.service(home, {'forced_down': False})
        self.act(uuid, 'os-start', None, 'ACTIVE')

    def deletions(self, uuid):
        conf = self.cloud.conf
        conf.set_override('reclaim_instance_interval', 1000)
        self.ask('DELETE', f'/servers/{uuid}')
        self.wait_for(uuid, 'SOFT_DELETED')
        self.act(uuid, 'restore', None, 'ACTIVE')
        conf.set_override('reclaim_instance_interval', 0)
        self.ask('DELETE', f'/servers/{uuid}')
        self.boss.wait_for(uuid, 'DELETED')

    def usage(self):
        self.boot()
        conf, conductor = self.cloud.conf, self.conductor
        with self.cloud.cell_db.writer() as conn:
            conn.exec_driver_sql("update instances set launched_at = '2026-01-01 00:00:00'")
        conductor.methods.audit_instance_usage(ctx=None, host='host1')
        for host in HOSTS:
            self.compute(host).inventory.report()
        assert conf.instance_usage_audit_period == 'month'
        gone = next(host for host in HOSTS if not self.compute(host).driver.guests())
        number = self.service(gone, {'status': 'disabled'})
        with self.cloud.cell_db.writer() as conn:            # a service that reports is not deleted
            cloud_rows.stop(conn, gone)
        self.ask('DELETE', f'/os-services/{number}')
        self.heard('service.delete')


# ---- samples -----------------------------------------------------------------

_UUID = re.compile(r'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b')
_TIME = re.compile(r'\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00|)')
_TAP = re.compile(r'\btap[0-9a-f-]{11}')
_ADDRESS = re.compile(r'\b10\.\d+\.\d+\.\d+\b')
_FREE = ('traceback', 'fingerprint', 'mac', 'vif_mac', 'public_key', 'reservation_id')


class Still:
    """What differs from one run to the next, made the same: ids are numbered, times and keys are those of the docs."""

    def __init__(self):
        self._ids = {}

    def value(self, value, name=None):
        if isinstance(value, dict):
            return {key: self.value(each, key) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(each, name) for each in value]
        if not isinstance(value, str):
            return value
        if name in _FREE and value:
            return _EXAMPLES.get(name, value)
        value = _ADDRESS.sub('10.0.0.3', _TAP.sub('tap00000000-01', value))
        return _TIME.sub(r'2026-01-02\g<1>03:04:05\g<3>', _UUID.sub(self._id, value))

    def _id(self, match):
        number = self._ids.setdefault(match.group(), len(self._ids) + 1)
        text = f'00000000-0000-4000-8000-{number:012x}'
        return text if '-' in match.group() else text.replace('-', '')


_EXAMPLES = {'traceback': 'RuntimeError: the hypervisor failed\n…', 'fingerprint': '00:11:22:33:44:55',
             'mac': 'fa:16:3e:00:00:01', 'vif_mac': 'fa:16:3e:00:00:01', 'public_key': 'ssh-ed25519 AAAA… demo',
             'reservation_id': 'r-abcdefgh'}


def samples():
    """{file: message without its id and its time} of the first of each that was told."""
    found, still = {}, Still()
    for _context, message, priority in told():
        path = path_of(message['event_type'], payloads.MARK + '.name' in message['payload'])
        if path not in found:
            found[path] = still.value({'event_type': message['event_type'], 'payload': message['payload'],
                                       'priority': priority, 'publisher_id': message['publisher_id']})
    return found


def path_of(event_type, versioned):
    """The file of an event type; the older form's stand in a directory of their own."""
    return (SAMPLES if versioned else SAMPLES / 'unversioned') / f'{event_type.replace(".", "-")}.json'


def paths():
    """The files of all rows."""
    return {path_of(each, versioned) for row in events.ROWS
            for versioned, names in ((True, row.types()), (False, row.old_types())) for each in names} | {
                path_of(each, False) for each in (cadf.EVENT, cadf.SEALED)}


def main():
    with tempfile.TemporaryDirectory() as directory:
        cloud = start(pathlib.Path(directory) / 'state')
        try:
            Walk(cloud).all()
        finally:
            cloud.stop(10)
    for path, sample in samples().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(sample, indent=2, sort_keys=True, ensure_ascii=False) + '\n')
    print(f'{len(samples())} samples are in {SAMPLES}')


if __name__ == '__main__':
    sys.exit(main())
