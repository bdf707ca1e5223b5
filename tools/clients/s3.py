#!/usr/bin/env python3
"""Run rclone and restic, built from their Go modules, and s3cmd from PyPI against the object store of an all-in-one.

    tools/clients/s3.py [--keep] [--short] [--only REGEX]

rclone has only the backends for S3 and local files. Each command of a client is a test, such as ``rclone sync``. The
short form has s3cmd alone.
"""
import hashlib
import os
import re
import subprocess
import sys
import time

import common
import local_cloud
import suites

MIB = common.MEBIBYTE
LARGE = 17 * MIB + 5         # in parts, with each client
COMMAND_S = 300
RCLONE = common.HERE / 'rclone'
CONFIG = """[store]
type = s3
provider = Other
env_auth = true
endpoint = {endpoint}
region = RegionOne
chunk_size = 5Mi
upload_cutoff = 10Mi
"""
S3CMD = """[default]
access_key = {access}
secret_key = {secret}
bucket_location = RegionOne
host_base = {host}
host_bucket = {host}
use_https = False
multipart_chunk_size_mb = 5
"""
# (test, words after the program's name)
STEPS = {
    'rclone': (
        ('mkdir', 'mkdir store:rclone'), ('copy in parts', 'copyto large store:rclone/large'),
        ('check', 'check --one-way large store:rclone'), ('download', 'copyto store:rclone/large rclone-back'),
        ('server-side copy', 'copyto store:rclone/large store:rclone/copy'), ('sync', 'sync tree store:rclone/tree'),
        ('check a tree', 'check tree store:rclone/tree'), ('list', 'lsf --recursive store:rclone'),
        ('touch', 'touch store:rclone/tree/one'), ('link', 'link store:rclone/tree/one'),
        ('cleanup', 'cleanup store:rclone'), ('purge', 'purge store:rclone')),
    's3cmd': (
        ('mb', 'mb s3://cmd'), ('put in parts', 'put large s3://cmd/large --mime-type=x/y'),
        ('info', 'info s3://cmd/large'), ('get', 'get --force s3://cmd/large s3cmd-back'),
        ('cp', 'cp s3://cmd/large s3://cmd/copy'), ('mv', 'mv s3://cmd/copy s3://cmd/moved'),
        ('modify', 'modify --add-header=x-amz-meta-colour:red s3://cmd/moved'),
        ('setacl private', 'setacl --acl-private s3://cmd/moved'),
        ('setacl public', 'setacl --acl-public s3://cmd/moved'), ('sync', 'sync tree/ s3://cmd/tree/'),
        ('ls', 'ls --recursive s3://cmd/tree/'), ('signurl', 'signurl s3://cmd/tree/one +600'),
        ('multipart', 'multipart s3://cmd'), ('del', 'del --recursive --force s3://cmd'), ('rb', 'rb s3://cmd')),
    'restic': (
        ('init', 'init'), ('backup', 'backup large tree'), ('check', 'check --read-data'),
        ('restore', 'restore latest --target restored'), ('snapshots', 'snapshots'),
        ('forget', 'forget --keep-last 1 --prune')),
}
# file that a client brought back: it must equal ``large``
COPIES = {'rclone download': 'rclone-back', 's3cmd get': 's3cmd-back', 'restic restore': 'restored/large'}


def programs(short, cached):
    """{client: path of its program}."""
    found = {'s3cmd': common.environment('s3', cached) / 's3cmd'}
    for pin in [] if short else common.pins('s3', 'go'):
        name = pin.package.rpartition('/')[2]
        found[name] = common.built(name, pin, lambda path, pin=pin: build(pin, path), cached)
    return found


def build(pin, path):
    # a module of ours names the parts of rclone; the program of restic is a package of its module
    directory, package = (RCLONE, '.') if pin.package.endswith('rclone') else (common.source(pin), './cmd/restic')
    common.compile_go(directory, 'build', '-o', path, package)


def keys(cloud):
    """The access key and the secret of an EC2 credential."""
    local = cloud.local
    token = local.json('GET', cloud.path('identity', '/v3', '/users?name=admin'), service='identity')['users'][0]['id']
    project = next(row['id'] for row in local.json(
        'GET', cloud.path('identity', '/v3', '/projects'), service='identity')['projects'] if row['name'] == 'admin')
    made = local.json('POST', cloud.path('identity', '/v3', f'/users/{token}/credentials/OS-EC2'),
                      {'tenant_id': project}, service='identity')['credential']
    return made['access'], made['secret']


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def main():
    given = common.parser(__doc__).parse_args()
    found = programs(given.short, given.cached)
    port, begin, results = local_cloud.free_port(), time.perf_counter(), {}
    with common.Cloud(['[objectstore]', 'enabled = true', f'port = {port}'], keep=given.keep) as cloud:
        access, secret = keys(cloud)
        host, home = f'127.0.0.1:{port}', cloud.home
        (home / 'rclone.conf').write_text(CONFIG.format(endpoint=f'http://127.0.0.1:{cloud.local.port}/objectstore'))
        (home / '.s3cfg').write_text(S3CMD.format(access=access, secret=secret, host=host))
        (home / 'large').write_bytes(os.urandom(LARGE))
        (home / 'tree/below').mkdir(parents=True)
        for name in ('one', 'below/two & ü'):
            (home / 'tree' / name).write_text(name)
        environ = {'PATH': '/usr/bin:/bin', 'HOME': str(home), 'LANG': 'C.UTF-8', 'AWS_ACCESS_KEY_ID': access,
                   'AWS_SECRET_ACCESS_KEY': secret, 'AWS_DEFAULT_REGION': 'RegionOne',
                   'RCLONE_CONFIG': str(home / 'rclone.conf'), 'RESTIC_PASSWORD': 'of this test',
                   'RESTIC_REPOSITORY': f's3:http://{host}/backups', 'RESTIC_CACHE_DIR': str(home / 'cache')}
        for client in found:
            for name, words in STEPS[client]:
                if re.search(given.only, f'{client} {name}'):
                    results[f'{client} {name}'] = step(found[client], words.split(' '), environ, home,
                                                       COPIES.get(f'{client} {name}'))
    return common.figures('s3', results, time.perf_counter() - begin, not given.only and not given.short)


def step(program, words, environ, home, copy):
    """The Result of a command.

    :param copy: a file that it must bring back; None: none
    """
    begin = time.perf_counter()
    done = subprocess.run([program, *words], env=environ, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=COMMAND_S)
    seconds = time.perf_counter() - begin
    if done.returncode:
        return suites.Result('failed', done.stdout, seconds)
    if copy and digest(home / copy) != digest(home / 'large'):
        return suites.Result('failed', f'{copy} differs from what was sent', seconds)
    return suites.Result('passed', '', seconds)


if __name__ == '__main__':
    sys.exit(common.run(main))
