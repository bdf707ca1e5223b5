"""Unmodified python-openstackclient at work with volumes on a whole cloud."""
import json
import os
import pathlib
import re
import sys
import time

import pytest

from nova.tests import long_runs
from nova.tests import warm_client
from nova.tests.functional import cloud as cloud_fixture

BIN = pathlib.Path(sys.executable).parent

# (command, pattern in what it prints, None: nothing is looked for); in this order on one cloud
COMMANDS = (
    ('volume type list', '__DEFAULT__'),
    ('volume create --size 1 --description text data', 'data'),
    ('volume create --size 2 --property a=b more', 'more'),
    ('volume list', 'data'),
    ('WAIT volume list --long', 'in-use|available'),
    ('volume show data', 'text'),
    ('volume set --name renamed --property c=d more', None),
    ('volume show renamed', "c='d'"),
    ('volume unset --property c renamed', None),
    ('WAIT volume show renamed -c status -f value', 'available'),
    ('volume set --size 3 renamed', None),
    ('volume show renamed -c size -f value', '3'),
    ('volume snapshot create --volume data snap', 'snap'),
    ('volume snapshot list', 'snap'),
    ('WAIT volume snapshot show snap', 'available'),
    ('volume create --snapshot snap copy', 'copy'),
    ('volume snapshot set --name other snap', None),
    ('WAIT volume show copy -c status -f value', 'available'),
    ('volume snapshot delete other', None),
    ('volume create --image base --size 1 root', 'root'),
    ('volume show root', 'volume_image_metadata'),
    ('server create --image base --flavor m1.nano --nic none --wait web', 'ACTIVE'),
    ('server add volume web data', None),
    ('WAIT volume show data -c status -f value', 'in-use'),
    ('server volume list web', '/dev/vdb'),
    ('server show web', 'data|volumes_attached'),
    ('volume list', 'Attached to web|Attached to'),
    ('volume attachment list --os-volume-api-version 3.27', 'attached'),
    ('--os-compute-api-version 2.85 server volume set --delete-on-termination web data', None),
    ('server remove volume web data', None),
    ('WAIT volume show data -c status -f value', 'available'),
    ('server create --volume root --flavor m1.nano --nic none --wait fromvolume', 'ACTIVE'),
    ('server create --image base --boot-from-volume 1 --flavor m1.nano --nic none --wait frommade', 'ACTIVE'),
    ('server create --image base --block-device source_type=blank,destination_type=volume,volume_size=1,boot_index=-1 '
     '--flavor m1.nano --nic none --wait withblank', 'ACTIVE'),
    ('server show frommade', 'booted from volume|volumes_attached'),
    ('server image create --name copied --wait fromvolume', 'copied'),
    ('server delete --wait web fromvolume frommade withblank', None),
    ('WAIT volume show root -c status -f value', 'available'),
    ('quota show', 'volumes'),
    ('limits show --absolute', 'max_total_volumes'),
    ('availability zone list --volume', 'nova'),
    ('volume set --read-only data', None),
    ('volume show data -c properties', 'readonly'),
    ('volume set --read-write data', None),
    ('volume set --image-property os_type=linux data', None),
    ('volume unset --image-property os_type data', None),
    ('image create --volume data --disk-format qcow2 fromdata', 'uploading|fromdata'),
    ('WAIT image show fromdata -c status -f value', 'active'),
    ('WAIT volume show data -c status -f value', 'available'),
    ('volume summary --os-volume-api-version 3.36', 'Total Size'),
    ('volume snapshot create --volume data snap2', 'snap2'),
    ('volume snapshot set --property a=b snap2', None),
    ('volume snapshot show snap2 -c properties', "a='b'"),
    ('volume snapshot unset --property a snap2', None),
    ('volume snapshot list --name snap2 --volume data', 'snap2'),
    ('volume backup create --name backup1 --description text data', 'backup1'),
    ('WAIT volume backup show backup1 -c status -f value', 'available'),
    ('volume backup list --long --status available --volume data', 'backup1'),
    ('volume backup set --name backup2 --os-volume-api-version 3.9 backup1', None),
    ('volume backup restore backup2 restored', 'restored'),
    ('WAIT volume show restored -c status -f value', 'available'),
    ('WAIT volume backup show backup2 -c status -f value', 'available'),
    ('volume backup delete backup2', None),
    ('volume snapshot delete snap2', None),
    ('volume list --name restored --status available', 'restored'),
    ('volume list --limit 1', 'root|data|restored|copy'),
    ('volume delete data renamed copy restored', None),
)


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud')) as made:
        made.client().upload_image(name='base')
        yield made


# the same of an administrator
TYPES = (
    ('volume type create --encryption-provider luks --encryption-cipher aes-xts-plain64 --encryption-key-size 256 '
     '--encryption-control-location front-end sealed', 'luks'),
    ('volume type list --encryption-type', 'aes-xts-plain64'),
    ('volume type show --encryption-type sealed', 'aes-xts-plain64'),
    ('volume type set --name closed --description text sealed', None),
    ('volume type unset --encryption-type closed', None),
    ('volume type set --encryption-provider luks closed', None),
    ('volume type create --multiattach shared', 'multiattach'),
    ('volume type unset --property multiattach shared', None),
    ('volume create --type closed --size 1 vault', 'closed'),
    ('WAIT volume show vault -c status -f value', 'available'),
    ('volume show vault -c encrypted -f value', 'True'),
    ('volume delete vault', None),
    ('volume type create --private --project demo quiet', 'quiet'),
    ('volume type list', 'quiet'),
    ('volume type list --private', 'quiet'),
    ('volume type show quiet', 'access_project_ids'),
    ('volume type unset --project demo quiet', None),
    ('volume type set --project demo quiet', None),
    ('volume create --size 1 plain', 'plain'),
    ('WAIT volume show plain -c status -f value', 'available'),
    ('volume set --type quiet --retype-policy never plain', None),
    ('volume show plain -c type -f value', 'quiet'),
    ('volume set --type shared --migration-policy on-demand plain', None),
    ('volume type set --public quiet', None),
    ('volume delete plain', None),
    ('volume type delete closed shared quiet', None),
)


@pytest.fixture(scope='module')
def run(cloud):
    environ = {'PATH': f'{BIN}:{os.environ["PATH"]}', 'HOME': str(cloud.state_path), 'LANG': 'C.UTF-8',
               'OS_CLIENT_CONFIG_FILE': str(cloud.clouds_yaml)}

    def run(command, name='nova-demo'):
        code, printed = warm_client.client().run(command.split(), {**environ, 'OS_CLOUD': name})
        assert 'Traceback' not in printed, f'{command}:\n{printed}'
        assert code == 0, f'openstack {command}:\n{printed}'
        return printed
    return run


@pytest.mark.parametrize(('name', 'commands'), long_runs.rest([('nova-demo', COMMANDS), ('nova-admin', TYPES)]))
def test_openstack_volume_commands_work(run, name, commands):
    for command, pattern in commands:
        wait, _, rest = command.partition('WAIT ')
        deadline = time.monotonic() + 120
        printed = run(rest or wait, name)
        while pattern and not re.search(pattern, printed) and rest and time.monotonic() < deadline:
            printed = run(rest, name)
        assert not pattern or re.search(pattern, printed), f'openstack {command}:\n{printed}'


@long_runs.only
def test_volume_is_transferred_to_another_project(run):
    run('volume create --size 1 given')
    made = json.loads(run('volume transfer request create --name gift given -f json'))
    assert 'gift' in run('volume transfer request list') and made['id'] in run('volume transfer request show gift')
    run(f'volume transfer request accept --auth-key {made["auth_key"]} {made["id"]}')
    assert run('volume show given -c status -f value').strip() == 'available'
    made = json.loads(run('volume transfer request create given -f json'))
    run(f'volume transfer request delete {made["id"]}')
    run('volume delete given')
