"""The object store with the clients of S3 as Debian has them: awscli, s3cmd, rclone and restic."""
import hashlib
import json
import os
import shutil
import subprocess

import pytest
import requests

from nova.tests import long_runs
from nova.tests import warm_client
from nova.tests.functional import cloud as whole
from nova.tests.integration import servers
from nova.tests.support import ec2 as test_ec2

DEBIAN_PYTHON = '/usr/bin/python3'       # what Debian's programs run with
MIB = 1 << 20
LARGE = 17 * MIB + 5               # in parts, with each client


class Clients:
    """Programs that are told of a cloud by their environment.

    :param directory: for their files; it is where they run
    """

    def __init__(self, cloud, directory):
        pair = test_ec2.keys_of(cloud.client())
        self.directory, self.endpoint = directory, cloud.url + '/objectstore'
        self.host = f'127.0.0.1:{cloud.conf.objectstore.port}'          # s3cmd and restic take no path in an endpoint
        self._environ = {
            'PATH': '/usr/bin:/bin', 'HOME': str(directory), 'LANG': 'C.UTF-8', 'AWS_ACCESS_KEY_ID': pair['access'],
            'AWS_SECRET_ACCESS_KEY': pair['secret'], 'AWS_DEFAULT_REGION': 'RegionOne',
            'AWS_EC2_METADATA_DISABLED': 'true', 'RCLONE_CONFIG': str(directory / 'rclone.conf'),
            'RESTIC_PASSWORD': 'of this test', 'RESTIC_CACHE_DIR': str(directory / 'cache')}
        (directory / 'rclone.conf').write_text(
            f'[store]\ntype = s3\nprovider = Other\nenv_auth = true\nendpoint = {self.endpoint}\nregion = RegionOne\n'
            'chunk_size = 5Mi\nupload_cutoff = 10Mi\n')
        (directory / '.s3cfg').write_text(
            f'[default]\naccess_key = {pair["access"]}\nsecret_key = {pair["secret"]}\nbucket_location = RegionOne\n'
            f'host_base = {self.host}\nhost_bucket = {self.host}\nuse_https = False\nmultipart_chunk_size_mb = 5\n')
        (directory / 'large').write_bytes(os.urandom(LARGE))

    def run(self, *command, refused=False):
        """What a command printed; its directory is the one of ``directory``."""
        if not shutil.which(command[0], path=self._environ['PATH']):
            pytest.skip(f'{command[0]} is not installed')
        if command[0] == 'aws':
            return self._aws(('--endpoint-url', self.endpoint, *command[1:]), refused)
        done = subprocess.run(command, env=self._environ, cwd=self.directory, capture_output=True, text=True,
                              timeout=120)
        assert (done.returncode != 0) == refused, f'{" ".join(command)}:\n{done.stdout}{done.stderr}'
        return done.stdout + done.stderr if refused else done.stdout

    def _aws(self, arguments, refused):
        """Its start takes two seconds: it starts once."""
        code, printed = warm_client.client('aws', DEBIAN_PYTHON).run(arguments, self._environ, self.directory)
        assert (code != 0) == refused, f'aws {" ".join(arguments)}:\n{printed}'
        return printed

    def digest(self, name):
        return hashlib.sha256((self.directory / name).read_bytes()).hexdigest()

    def tree(self, name):
        """A directory with two files; its name."""
        for path in (f'{name}/one', f'{name}/below/two & ü'):
            (self.directory / path).parent.mkdir(parents=True, exist_ok=True)
            (self.directory / path).write_text(path)
            os.utime(self.directory / path, (1e9, 1e9))       # the times of objects are whole seconds
        return name


@pytest.fixture(scope='module')
def clients(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('cloud'), objectstore__enabled=True,
                       objectstore__port=servers.free_port()) as cloud:
        yield Clients(cloud, tmp_path_factory.mktemp('clients'))


def test_awscli_works_with_the_object_store(clients):
    def api(*command):
        printed = clients.run('aws', 's3api', *command)
        return json.loads(printed) if printed.strip() else {}
    clients.run('aws', 's3', 'mb', 's3://aws')
    clients.run('aws', 's3', 'cp', 'large', 's3://aws/large', '--metadata', 'colour=blue', '--content-type', 'x/y',
                '--no-progress')
    head = api('head-object', '--bucket', 'aws', '--key', 'large')
    assert head['Metadata'] == {'colour': 'blue'} and head['ContentType'] == 'x/y' and head['ContentLength'] == LARGE
    assert head['ETag'].endswith('-3"')
    clients.run('aws', 's3', 'cp', 's3://aws/large', 'aws-back', '--no-progress')
    assert clients.digest('aws-back') == clients.digest('large')
    clients.run('aws', 's3', 'cp', 's3://aws/large', 's3://aws/copy', '--no-progress')
    got = api('get-object', '--bucket', 'aws', '--key', 'copy', '--range', 'bytes=5-14', 'aws-range')
    assert got['ContentRange'] == f'bytes 5-14/{LARGE}'
    assert (clients.directory / 'aws-range').read_bytes() == (clients.directory / 'large').read_bytes()[5:15]
    clients.run('aws', 's3', 'sync', clients.tree('aws-tree'), 's3://aws/tree')
    assert clients.run('aws', 's3', 'sync', 'aws-tree', 's3://aws/tree') == ''
    assert 'two & ü' in clients.run('aws', 's3', 'ls', '--recursive', 's3://aws/tree/')
    (clients.directory / 'aws-tree' / 'one').unlink()
    assert clients.run('aws', 's3', 'sync', '--delete', 'aws-tree', 's3://aws/tree').count('delete:') == 1
    url = clients.run('aws', 's3', 'presign', 's3://aws/tree/below/two & ü').strip()
    assert requests.get(url).text == 'aws-tree/below/two & ü'
    for algorithm in ('CRC32', 'SHA256', 'SHA1'):           # Debian's has no CRC32C without awscrt
        api('put-object', '--bucket', 'aws', '--key', 'sum', '--body', 'aws-range', '--checksum-algorithm', algorithm)
    gone = api('delete-objects', '--bucket', 'aws', '--delete', 'Objects=[{Key=sum},{Key=copy},{Key=none}]')
    assert len(gone['Deleted']) == 3
    assert 'BucketNotEmpty' in clients.run('aws', 's3', 'rb', 's3://aws', refused=True)
    clients.run('aws', 's3', 'rb', '--force', 's3://aws')
    assert 'aws' not in clients.run('aws', 's3', 'ls')


@long_runs.only
@pytest.mark.parametrize('version', ['4', '2'])
def test_s3cmd_works_with_the_object_store(clients, version):
    def run(*command, **more):
        return clients.run('s3cmd', *(('--signature-v2',) if version == '2' else ()), *command, **more)
    run('mb', 's3://cmd')
    run('put', 'large', 's3://cmd/large', '--add-header=x-amz-meta-colour:blue', '--mime-type=x/y')
    info = run('info', 's3://cmd/large')
    assert f'File size: {LARGE}' in info and 'colour: blue' in info and 'MIME type: x/y' in info
    run('get', '--force', 's3://cmd/large', 's3cmd-back')
    assert clients.digest('s3cmd-back') == clients.digest('large')
    run('setacl', '--acl-private', 's3://cmd/large')
    assert 'NotImplemented' in run('setacl', '--acl-public', 's3://cmd/large', refused=True)
    run('cp', 's3://cmd/large', 's3://cmd/copy')
    run('mv', 's3://cmd/copy', 's3://cmd/moved')
    run('modify', '--add-header=x-amz-meta-colour:red', 's3://cmd/moved')
    assert 'colour: red' in run('info', 's3://cmd/moved')
    run('sync', clients.tree('s3cmd-tree') + '/', 's3://cmd/tree/')
    assert 'two & ü' in run('ls', '--recursive', 's3://cmd/tree/')
    run('sync', 's3://cmd/tree/', f's3cmd-again-{version}/')
    assert (clients.directory / f's3cmd-again-{version}/below/two & ü').read_text() == 's3cmd-tree/below/two & ü'
    assert run('ls', 's3://cmd').count('DIR') == 1 and '/large' in run('la')
    url = run('signurl', 's3://cmd/tree/one', '+600').strip()
    assert requests.get(url).text == 's3cmd-tree/one', url
    assert '404' in run('info', 's3://cmd/none', refused=True)
    run('del', '--recursive', '--force', 's3://cmd')
    run('rb', 's3://cmd')
    assert 's3://cmd' not in run('ls')


def test_rclone_works_with_the_object_store(clients):
    clients.run('rclone', 'mkdir', 'store:rclone')
    clients.run('rclone', 'copyto', 'large', 'store:rclone/large')
    clients.run('rclone', 'check', '--one-way', 'large', 'store:rclone')
    clients.run('rclone', 'copyto', 'store:rclone/large', 'rclone-back')
    assert clients.digest('rclone-back') == clients.digest('large')
    clients.run('rclone', 'copyto', 'store:rclone/large', 'store:rclone/copy')
    clients.run('rclone', 'sync', clients.tree('rclone-tree'), 'store:rclone/tree')
    clients.run('rclone', 'check', 'rclone-tree', 'store:rclone/tree')
    listed = json.loads(clients.run('rclone', 'lsjson', '--recursive', '--files-only', '--metadata', 'store:rclone'))
    assert {row['Path'] for row in listed} == {'large', 'copy', 'tree/one', 'tree/below/two & ü'}
    (clients.directory / 'rclone-tree' / 'one').unlink()
    clients.run('rclone', 'sync', 'rclone-tree', 'store:rclone/tree')
    assert clients.run('rclone', 'lsf', '--recursive', '--files-only', 'store:rclone/tree') == 'below/two & ü\n'
    clients.run('rclone', 'touch', 'store:rclone/tree/below/two & ü')
    part = clients.run('rclone', 'cat', '--offset', '0', '--count', '10', 'store:rclone/tree/below/two & ü')
    assert part == 'rclone-tree/below/two & ü'[:10]
    assert requests.get(clients.run('rclone', 'link', 'store:rclone/tree/below/two & ü').strip()).status_code == 200
    clients.run('rclone', 'cleanup', 'store:rclone')
    clients.run('rclone', 'purge', 'store:rclone')
    assert clients.run('rclone', 'lsd', 'store:') == ''


def test_restic_backs_up_to_the_object_store(clients):
    """It signs each chunk of what it sends over HTTP (seen with 0.14)."""
    repository = ('--repo', f's3:http://{clients.host}/backups')
    clients.run('aws', 's3', 'mb', 's3://backups')
    clients.run('restic', *repository, 'init')
    clients.run('restic', *repository, 'backup', 'large', clients.tree('restic-tree'))
    clients.run('restic', *repository, 'check', '--read-data')
    clients.run('restic', *repository, 'restore', 'latest', '--target', 'restored')
    assert clients.digest('restored/large') == clients.digest('large')
    clients.run('restic', *repository, 'forget', '--keep-last', '1', '--prune')
