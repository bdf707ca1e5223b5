#!/usr/bin/env python3
"""Make the dashboard's picture of the README: start an all-in-one with the fake driver, create a few servers, and
photograph the list in Chromium.

    tools/dashboard_picture.py [--output doc/source/_static/dashboard.png]

Chromium and its driver are packages of Debian (chromium, chromium-driver). Selenium is part of the test extra.
"""
import argparse
import http.client
import json
import pathlib
import sys
import tempfile
import time
from typing import Any

TREE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TREE), str(TREE / 'tools')]
import local_cloud
from nova.tests.integration import browser as browsers

PICTURE = TREE / 'doc/source/_static/dashboard.png'
SIZE = 1120, 640                  # CSS pixels: a width that GitHub and the documentation show without scaling up
LARGEST_BYTES = 150_000
SERVERS = (('web-1', '2'), ('web-2', '2'), ('database', '3'), ('build', '1'), ('mail', '1'))      # name, flavor
STOPPED = 'build'
ACTIVE_S, MOTION_S = 120, 0.5


def make_servers(cloud: local_cloud.LocalCloud, client_token: str) -> None:
    """Create the servers as the demo user, and stop one of them.

    :raises RuntimeError: the API refuses a request, or a server does not become active in time
    """
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(1024))
        file.flush()
        image = cloud.add_image('debian', file.name, 'raw')
    cloud.token = client_token
    made = {name: cloud.json('POST', '/servers', {'server': {
        'name': name, 'imageRef': image, 'flavorRef': flavor, 'networks': 'auto'}}, version='2.96')['server']['id']
        for name, flavor in SERVERS}
    for server in made.values():
        wait_for(cloud, server, 'ACTIVE')
    cloud.call('POST', f'/servers/{made[STOPPED]}/action', {'os-stop': None})
    wait_for(cloud, made[STOPPED], 'SHUTOFF')


def wait_for(cloud: local_cloud.LocalCloud, server: str, status: str) -> None:
    deadline = time.monotonic() + ACTIVE_S
    while (found := cloud.json('GET', f'/servers/{server}')['server']['status']) != status:
        if found == 'ERROR' or time.monotonic() > deadline:
            raise RuntimeError(f'server {server} is {found} and not {status}')
        time.sleep(0.2)


def log_in(cloud: local_cloud.LocalCloud, name: str) -> tuple[str, str, str]:
    """(token, user, password) of an account in clouds.yaml, in its own project."""
    user, password = cloud.account(f'nova-{name}')
    body: dict[str, Any] = {'auth': {'identity': {'methods': ['password'], 'password': {'user': {
        'name': user, 'password': password, 'domain': {'id': 'default'}}}},
        'scope': {'project': {'name': name, 'domain': {'id': 'default'}}}}}
    connection = http.client.HTTPConnection('127.0.0.1', cloud.port)
    connection.request('POST', '/identity/v3/auth/tokens', json.dumps(body), {'Content-Type': 'application/json'})
    reply = connection.getresponse()
    reply.read()
    return reply.headers['X-Subject-Token'], user, password


def photograph(url: str, user: str, password: str, output: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory(prefix='nova-dashboard-picture.') as profile:
        browser = browsers.Browser(url, profile, SIZE)
        try:
            browser.login(user, password)
            browser.go('/servers', 'Servers')
            browser.says(SERVERS[0][0])
            time.sleep(MOTION_S)
            browser.picture(output)
        finally:
            browser.quit()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n\n')[0])
    parser.add_argument('--output', type=pathlib.Path, default=PICTURE)
    output = parser.parse_args().output
    cloud = local_cloud.LocalCloud(options=['[network]', 'driver = fake', 'project_ranges = 0.0.0.0/0'])
    try:
        cloud.start()
        token, user, password = log_in(cloud, 'demo')
        make_servers(cloud, token)
        photograph(f'http://127.0.0.1:{cloud.port}', user, password, output)
    finally:
        cloud.close()
    size = output.stat().st_size
    print(f'{output}: {size} bytes')
    return int(size > LARGEST_BYTES)


if __name__ == '__main__':
    sys.exit(main())
