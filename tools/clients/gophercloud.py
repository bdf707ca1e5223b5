#!/usr/bin/env python3
"""Run the acceptance tests of the Go library gophercloud, unmodified, against an all-in-one with the fake driver.

    tools/clients/gophercloud.py [--keep] [--short] [--only REGEX]

A test is named as ``compute/v2.TestServersCreateDestroy``. Tests that only run as a member of a project run a second
time, as the user ``demo``.
"""
import contextlib
import http.server
import re
import struct
import subprocess
import sys
import threading
import time

import common
import suites

ROOT = 'internal/acceptance/openstack'
# networking/v2 has packages for extensions that no service here has: see SERVED
SERVICES = ('blockstorage/v3', 'compute/v2', 'identity/v3', 'image/v2', 'keymanager/v1', 'networking/v2')
# Extensions of Neutron's other projects: their APIs are not in the catalog.
OTHER_PROJECTS = re.compile(r'extensions/(bgp|bgpvpns|fwaas_v2|taas|vpnaas)\b')
SHORT = ('identity/v3', 'image/v2')
# Two hosts with shared storage for live migrations without disks. A build takes more than a second: a test expects that
# it does not end in the second of its start. Fixed addresses have no limit, as in the reference.
OPTIONS = ['[fake]', 'hosts = 2', 'shares_disks = true', 'delays = spawn:1.1', '[network]',
           'quota = network:100,subnet:100,port:-1,'
           'security_group:10,security_group_rule:100,router:10,floatingip:50,rbac_policy:10,subnetpool:10,trunk:50']
TEST_S = 900                 # seconds that one package may take
# in the order of the log: what a test prints belongs to the last name
EVENT = re.compile(r'^\s*(?:=== (?:RUN|CONT|NAME)\s+(\S+)|--- (PASS|FAIL|SKIP): (\S+) \(([\d.]+)s\))')
COLOR = re.compile('\x1b\\[[0-9;]*m')
OUTCOMES = {'PASS': 'passed', 'FAIL': 'failed', 'SKIP': 'skipped'}
# an empty disk of 1 MiB: header of version 2, one cluster each for the tables
QCOW2 = (b'QFI\xfb' + struct.pack('>IQIIQIIQQIIQ', 2, 0, 0, 16, 1 << 20, 0, 1, 0x30000, 0x10000, 1, 0, 0)).ljust(
    4 << 16, b'\0')
MEMBERS_ONLY = 'must be a non-admin'


def packages(root):
    """The directories with tests, such as compute/v2, of the services in the catalog."""
    found = {path.parent.relative_to(root).as_posix() for path in root.rglob('*_test.go')}
    return sorted(name for name in found if name.startswith(SERVICES) and not OTHER_PROJECTS.search(name))


def parse(text):
    """{test: Result} of what ``go test -v`` prints, without subtests."""
    results, lines, current = {}, {}, None
    for line in COLOR.sub('', text).splitlines():
        match = EVENT.match(line)
        if match is None:
            lines.setdefault(current, []).append(line.strip())
            continue
        current = (match[1] or match[3]).partition('/')[0]
        if match[2] and '/' not in match[3]:
            results[current] = suites.Result(OUTCOMES[match[2]], '\n'.join(lines.get(current, [])), float(match[4]))
    return {name: result._replace(text=reason(result.text)) for name, result in results.items()}


def reason(text):
    """The message of the assertion that ended a test."""
    lines = [line for line in text.splitlines() if re.match(r'\S+\.go:\d+: ', line)]
    told = [line for line in lines if 'Failure' in line or 'rror' in line or 'skip' in line.lower()
            or 'requires' in line or 'must be' in line or 'nable' in line]
    return ' '.join((told or lines or [text])[-1].split())


def run(binary, directory, environ, pattern, *options):
    """{test: Result} of a package, and what it printed."""
    command = [binary, '-test.v', '-test.timeout', f'{TEST_S}s', '-test.run', pattern or '.', *options]
    done = subprocess.run(command, cwd=directory, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors='replace')
    return parse(done.stdout), done.stdout


def main():
    given = common.parser(__doc__).parse_args()
    pin, = common.pins('gophercloud', 'go')
    source = common.source(pin, given.cached)
    names = [name for name in packages(source / ROOT) if not given.short or name in SHORT]
    tests = {}
    for name in names:
        tests[name] = common.built(f'{name.replace("/", "-")}.test', pin, lambda path, name=name: common.compile_go(
            source, 'test', '-c', '-tags', 'acceptance', '-o', path, f'./{ROOT}/{name}'), given.cached)
    begin, results = time.perf_counter(), {}
    with common.Cloud(OPTIONS, given.keep) as cloud, site() as proxy:
        cloud.proxy = proxy
        for name in names:
            results.update(_package(cloud, name, tests[name], source / ROOT / name, given.only))
    if given.only:
        results = {name: result for name, result in results.items() if re.search(given.only, name)}
    return common.figures('gophercloud', results, time.perf_counter() - begin, not given.only and not given.short)


def _package(cloud, name, binary, directory, only):
    """{test: Result} of a package, whose name is a part of the tests'."""
    begin = time.perf_counter()
    pattern = only.rpartition('.')[2] if only else ''
    found, text = run(binary, directory, environ(cloud, 'nova-admin'), pattern)
    members = [test for test, result in found.items() if MEMBERS_ONLY in result.text]
    if members:
        more, more_text = run(binary, directory, environ(cloud, 'nova-demo'), f'^({"|".join(members)})$')
        found, text = {**found, **more}, text + more_text
    (cloud.home / f'{name.replace("/", "-")}.log').write_text(text)
    print(f'{name}: {len(found)} tests, {sum(result.outcome == "failed" for result in found.values())} failed, '
          f'{time.perf_counter() - begin:.0f} s', flush=True)
    return {f'{name}.{test}': result for test, result in found.items()}


@contextlib.contextmanager
def site():
    """Context manager: URL of a proxy that answers each request with a small qcow2 image.

    A test downloads an image from the internet. The program asks the proxy, except for addresses of this machine.
    """
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header('Content-Length', str(len(QCOW2)))
            self.end_headers()
            self.wfile.write(QCOW2)

        def log_message(self, *args):
            pass
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f'http://127.0.0.1:{server.server_port}'
    finally:
        server.shutdown()
        server.server_close()


def environ(cloud, account):
    """The environment in which the tests find the cloud."""
    return cloud.environ(
        account, OS_DOMAIN_ID='default', OS_BRANCH='master', OS_IMAGE_ID=cloud.ids['image'],
        OS_FLAVOR_ID=cloud.ids['ephemeral.small'], OS_FLAVOR_ID_RESIZE=cloud.ids['ephemeral.large'],
        OS_POOL_NAME='public', OS_EXTGW_ID=cloud.ids['public'], OS_NETWORK_NAME='private', OS_LIVE_MIGRATE='1',
        OS_GUEST_AGENT='1', HTTP_PROXY=cloud.proxy)


if __name__ == '__main__':
    sys.exit(common.run(main))
