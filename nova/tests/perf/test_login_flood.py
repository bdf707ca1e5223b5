"""A flood of logins under random names: the other faces and the logins of others go on, on both thread models."""
import statistics
import time

import requests
import yaml

from nova.identity import passwords
from nova.tests import identity_fixture
from nova.tests import login_flood
from nova.tests.functional import cloud as cloud_fixture

ROUNDS = 11                     # as in production: a tenth of a second and more
PATHS = ('/compute/v2.1/servers', '/image/v2/images', '/network/v2.0/networks', '/identity/v3/auth/projects')
FLOOR_S = 0.25                  # what the machine itself does now and then


def gets(client, seconds):
    """Seconds of each GET of one client that asks the faces in turn."""
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        for path in PATHS:
            start = time.monotonic()
            assert client.get(path).status_code == 200
            found.append(time.monotonic() - start)
    return found


def hash_time():
    start = time.monotonic()
    passwords.hashed('x', ROUNDS)
    return time.monotonic() - start


def test_a_flood_of_logins_delays_nobody_else(tmp_path):
    with cloud_fixture.running(tmp_path, identity__password_hash_rounds=ROUNDS) as cloud:
        port = int(cloud.url.rpartition(':')[2])
        password = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-demo']['auth']['password']
        client = cloud.client()
        usual = statistics.median(gets(client, 1))
        with login_flood.running(port) as answers:
            found = gets(client, 3)
            one = hash_time()                    # with so little processor as there is now
            honest = [login_flood.ask(port, '127.0.0.2', login_flood.request('demo', password)) for _ in range(5)]
        assert set(answers) <= {401, 503} and answers[401] > 4
        assert statistics.median(found) <= 2 * usual + FLOOR_S, (usual, sorted(found)[-10:])
        assert [code for code, _seconds in honest] == [201] * 5
        assert statistics.median(seconds for _code, seconds in honest) <= 8 * one + FLOOR_S, (one, honest)


def test_a_full_queue_says_when_to_come_again(tmp_path):
    """With fewer places than threads for logins: an address that takes all is told so, another one has a place."""
    with cloud_fixture.running(tmp_path, identity__password_hash_rounds=ROUNDS) as cloud:
        port = int(cloud.url.rpartition(':')[2])
        cloud.identity.hashing._places = 4
        with login_flood.running(port, clients=24, address='127.0.0.1') as answers:
            refused = None
            while refused is None or refused.status_code != 503:         # from the address of the flood
                refused = requests.post(cloud.url + '/identity/v3/auth/tokens',
                                        json=identity_fixture.password_auth('nobody', 'x'), timeout=60)
            password = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-demo']['auth']['password']
            assert login_flood.ask(port, '127.0.0.2', login_flood.request('demo', password))[0] == 201
        assert refused.headers['Retry-After'] == '2' and refused.json()['error']['title'] == 'Service Unavailable'
        assert answers[503] > 0 and answers[401] > 0
