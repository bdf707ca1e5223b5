"""How far an answer with a session token goes: a guest, and what is behind it, in namespaces of their own.

This file is also the program that serves the metadata there, by itself and behind the relay of a host.
"""
import contextlib
import os
import pathlib
import subprocess
import sys

import pytest

HOST, GUEST = '10.79.0.1', '10.79.0.2'
DIRECT, RELAYED = 80, 81                     # ports
# Prints the code of an answer; nothing where none comes.
ASK = ('import http.client, sys\n'
       'connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=1.5)\n'
       'try:\n'
       '    connection.request(sys.argv[3], sys.argv[4], headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"})\n'
       '    answer = connection.getresponse()\n'
       '    answer.read()\n'
       '    print(answer.status, answer.getheader("X-Nova-Relay-Hops"))\n'
       'except OSError:\n'
       '    print("none")\n')

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='namespaces are made by root')


def serve(directory):
    """Serve one guest; a line of the standard input is how many hops its answers may go from then on."""
    import sqlalchemy as sa

    from nova.api.metadata import app
    from nova.api.metadata import tokens
    from nova.db.cells import cells
    from nova.db.servers import instances
    from nova.db.services import metadata_keys
    from nova.db.tables import network as t
    from nova.network import relay
    from nova.network.linux import metadata
    from nova.network.linux import runner
    from nova.runtime import wsgi
    from nova.tests.support import metadata_tokens as test_metadata_tokens
    test_metadata_tokens.ADDRESSES = (GUEST,)
    service = test_metadata_tokens.Metadata(directory, rows=({},))
    application = app.Application(service.conf, service.api_db, cells.Cells(service.conf, service.api_db,
                                                                            service.cell_db))
    server = wsgi.Server(application, '::', DIRECT)             # both versions, as the embedded cloud may
    server.start()
    with service.api_db.writer() as conn:
        conn.execute(sa.update(t.ports).values(host='host1'))
    relays = metadata.MetadataRelay(runner.Runner())
    key = relay.key_of(service.api_db.run(metadata_keys.obtain), 'host1')
    relays.configure('host1', key.hex(), ('127.0.0.1', DIRECT), '')
    relays.serve_at('n', HOST, RELAYED)
    print('serving', flush=True)
    for line in sys.stdin:
        with service.cell_db.writer() as conn:
            instances.update(conn, service.rows[0]['uuid'], {'metadata': {tokens.HOPS: line.strip()}})
        print('changed', flush=True)
    relays.stop()
    server.stop(1)
    service.stop()


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=30, **more).stdout


@pytest.fixture
def spaces():
    """(host, guest, what is behind the guest): names of namespaces."""
    names = [f'hops{os.getpid()}{name}' for name in 'hgb']
    host, guest, behind = names
    with contextlib.ExitStack() as stack:
        for name in names:
            run('ip', 'netns', 'add', name)
            stack.callback(subprocess.run, ['ip', 'netns', 'del', name], check=False)
            run('ip', '-n', name, 'link', 'set', 'lo', 'up')
        for first, second, net in ((host, guest, '10.79.0'), (guest, behind, '10.80.0')):
            run('ip', '-n', first, 'link', 'add', 'south', 'type', 'veth', 'peer', 'name', 'north', 'netns', second)
            for space, device, number in ((first, 'south', 1), (second, 'north', 2)):
                run('ip', '-n', space, 'address', 'add', f'{net}.{number}/24', 'dev', device)
                run('ip', '-n', space, 'link', 'set', device, 'up')
        run('ip', '-n', behind, 'route', 'add', 'default', 'via', '10.80.0.1')
        run('ip', 'netns', 'exec', guest, 'sysctl', '-qw', 'net.ipv4.ip_forward=1')
        run('ip', 'netns', 'exec', guest, 'nft', '-f', '-', input=(
            'table ip t {\nchain c {\ntype nat hook postrouting priority 100\noifname "north" masquerade\n}\n}\n'))
        yield names


def asked(space, port, method='PUT', path='/latest/api/token'):
    return run('ip', 'netns', 'exec', space, sys.executable, '-c', ASK, HOST, str(port), method, path).strip()


def test_a_token_does_not_get_behind_a_guest(spaces, tmp_path):
    """By the service itself and by the relay; the rest gets there, and the guest has its tokens."""
    host, guest, behind = spaces
    tree = str(pathlib.Path(__file__).resolve().parents[3])
    with subprocess.Popen(['ip', 'netns', 'exec', host, sys.executable, __file__, str(tmp_path)], text=True, cwd=tree,
                          env={**os.environ, 'PYTHONPATH': tree}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          ) as served:
        try:
            assert served.stdout.readline().strip() == 'serving'
            for hops, reaches in ((None, True), (1, False), (2, True)):
                if hops is not None:
                    served.stdin.write(f'{hops}\n')
                    served.stdin.flush()
                    assert served.stdout.readline().strip() == 'changed'
                for port in (DIRECT, RELAYED):
                    assert asked(guest, port) == '200 None', (hops, port)
                    assert asked(behind, port) == ('200 None' if reaches else 'none'), (hops, port)
                    assert asked(behind, port, 'GET', '/latest/meta-data/instance-id') == '200 None', (hops, port)
        finally:
            served.stdin.close()
            served.wait(20)


if __name__ == '__main__':
    serve(pathlib.Path(sys.argv[1]))
