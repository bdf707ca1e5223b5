"""Write rows.json: the rows of a small cloud of the tree before the first release, as the conversion finds them.

    mkdir /tmp/before && git archive 8f59c7c5 nova etc setup.cfg | tar x -C /tmp/before
    cd /tmp/before && PYTHONPATH=/tmp/before python THIS_FILE > rows.json

It runs the code of that commit: servers, a volume, a resize and a shelved server on fake hosts. OLD_VALUES are written
into the rows afterwards: values of tasks in progress, which a cloud that was stopped may have.
"""
import json
import pathlib
import sys
import tempfile

import sqlalchemy as sa

from nova.db import schema
from nova.db import state_backup
from nova.tests.functional import cloud as clouds

SECRETS = ('identity_users', 'identity_passwords', 'message_keys', 'metadata_keys', 'audit_records', 'audit_chain')
MOMENT = '2026-11-29 02:00:00.000000'
OLD_VALUES = {
    'api': (
        "UPDATE volume_attachments SET connector = '{\"host\":\"host2\",\"leaves\":\"host1\"}'",
    ),
    'cell': (
        "UPDATE instances SET cell_move = 'leaving' WHERE display_name = 'moving'",
        "UPDATE instances SET cell_move = 'coming' WHERE display_name = 'arriving'",
        "INSERT INTO host_maintenances (id, uuid, host, aggregate_id, status, created_at, updated_at) VALUES "
        f"(1, '6d2f1b5e-3ab4-4c0c-9a58-0c1f2d3e4f50', 'host2', 1, 'draining', '{MOMENT}', '{MOMENT}')",
        *("INSERT INTO host_maintenance_servers (maintenance_id, instance_uuid, direction, state, updated_at) SELECT "
          f"1, uuid, 'away', '{state}', '{MOMENT}' FROM instances WHERE display_name = '{name}'"
          for state, name in (('kept', 'moving'), ('gone', 'arriving'))),
        "UPDATE migrations SET arguments = '{\"left\":[\"6d2f1b5e-3ab4-4c0c-9a58-0c1f2d3e4f51\"],\"grows\":true,"
        "\"ignore\":[\"host3\"],\"tried\":[\"host4\"]}'",
        "INSERT INTO instance_actions (instance_uuid, action, request_id, started_at, updated_at, deadline, arguments) "
        f"SELECT uuid, 'attach_volume', 'req-1', '{MOMENT}', '{MOMENT}', '{MOMENT}', "
        "'{\"bdm_uuid\":\"b\",\"told\":{\"volume_id\":\"told\"},\"sealed_password\":[\"name\",\"text\"]}' "
        "FROM instances WHERE display_name = 'moving'",
    ),
}


def main():
    with tempfile.TemporaryDirectory() as directory:
        with clouds.running(pathlib.Path(directory), ['host1', 'host2']) as cloud:
            fill(cloud)
        cloud = clouds.Cloud(pathlib.Path(directory))
        dump = {}
        for branch, name in (('api', 'api'), ('cell', 'cell1')):
            db = state_backup.engine.Database(f'sqlite:///{directory}/{name}.sqlite')
            with db.writer() as conn:
                for statement in OLD_VALUES[branch]:
                    assert conn.execute(sa.text(statement.replace(':', r'\:'))).rowcount, statement
            with db.reader() as conn:
                dump[branch] = {'revision': schema.version_of(conn), 'tables': [
                    [table, columns, rows] for table, columns, rows in state_backup.batches(conn, branch)
                    if table not in SECRETS]}
            db.dispose()
    write(dump)


def fill(cloud):
    """Make servers, a volume and an unconfirmed resize."""
    client, admin = cloud.client(), cloud.admin('2.79')
    image = client.upload_image(b'\0' * 1048576)
    servers = {name: client.boot(image, name=name)['id'] for name in ('moving', 'arriving', 'resized')}
    for uuid in servers.values():
        client.wait_for(uuid)
    volume = client.post('/volume/v3/' + client.project_id + '/volumes', {'volume': {'size': 1, 'name': 'data'}})
    volume = volume.json()['volume']['id']
    client.post(f'/servers/{servers["moving"]}/os-volume_attachments', {'volumeAttachment': {'volumeId': volume}})
    admin.post(f'/servers/{servers["resized"]}/action', {'resize': {'flavorRef': '1'}})
    client.wait_for(servers['resized'], 'VERIFY_RESIZE')


def write(dump):
    """As JSON text, a line for each row."""
    out = sys.stdout.write
    out('{\n')
    for number, (branch, part) in enumerate(dump.items()):
        out(f'{"," if number else ""}"{branch}": {{"revision": "{part["revision"]}", "tables": [\n')
        for index, (table, columns, rows) in enumerate(part['tables']):
            lines = ',\n  '.join(json.dumps(row, separators=(',', ':')) for row in rows)
            out(f'{"," if index else ""} ["{table}", {json.dumps(columns)}, [\n  {lines}]]\n')
        out(']}\n')
    out('}\n')


if __name__ == '__main__':
    main()
