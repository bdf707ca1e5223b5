#!/usr/bin/env python3
"""Times DescribeInstances against GET /servers/detail of the same servers, and RunInstances against POST /servers.

usage: tools/bench/ec2_listing.py [--servers 1000] [--rounds 15] [--thread-model native]

One all-in-one is a process of its own, with the fake driver; servers have an address, a security group and two items of
metadata. The client is this one: one connection, requests signed and bodies built before the time begins, answers read
and not parsed. A server is built before the next request is made. Rounds ask for one after the other, so that each
meets the same neighbours; "in parts of" is the median of what each took in parts of the other in the same round. CPU is
the server's processor time for a request.
DescribeInstances keeps the text of instances that have not changed, here of all from the second round on; with a filter
("all rendered") it keeps none.
"""
import argparse
import http.client
import json
import os
import pathlib
import statistics
import sys
import time
import urllib.parse

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TREE), str(TREE / 'tools')]

import botocore.auth
import botocore.awsrequest
import botocore.credentials

import local_cloud

ROOM = ('[quota]', 'instances = -1', 'cores = -1', 'ram = -1',
        '[fake]', 'vcpus = 100000', 'memory_mb = 100000000', 'local_gb = 10000000', '[network]', 'driver = fake')
AT_ONCE = 50
PATH = '/services/Cloud'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--servers', type=int, default=1000)
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--thread-model', default='native', choices=('native', 'eventlet'))
    given = parser.parse_args()
    print(f'load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, {given.servers} servers, {given.thread_model}')
    cloud = local_cloud.LocalCloud('fake', ROOM, given.thread_model)
    try:
        cloud.start()
        Bench(cloud).run(given.servers, given.rounds)
    finally:
        cloud.end()
        cloud.close()
    return 0


class Bench:
    def __init__(self, cloud):
        self.cloud = cloud
        empty = cloud.state / 'empty.img'
        empty.write_bytes(b'\0' * 4096)
        self.image = cloud.add_image('bench', empty, 'raw')
        cloud.json('POST', '/flavors', {'flavor': {'name': 'bench', 'ram': 64, 'vcpus': 1, 'disk': 1, 'id': 'bench'}})
        network = self.made('network', name='bench')
        self.made('subnet', network_id=network, cidr='10.64.0.0/18', ip_version=4)
        cloud.call('PUT', f'/v2.0/quotas/{self.project()}', {'quota': {'port': -1}}, service='network')
        self.server = {'name': 'bench', 'flavorRef': 'bench', 'imageRef': self.image, 'networks': [{'uuid': network}],
                       'metadata': {'Name': 'bench', 'role': 'web'}}
        user = self.token()['user']['id']
        pair = cloud.json('POST', f'/v3/users/{user}/credentials/OS-EC2', {'tenant_id': self.project()},
                          service='identity')['credential']
        self.keys = botocore.credentials.Credentials(pair['access'], pair['secret'])
        self.connection = http.client.HTTPConnection('127.0.0.1', cloud.port, timeout=300)

    def made(self, kind, **values):
        return self.cloud.json('POST', f'/v2.0/{kind}s', {kind: values}, service='network')[kind]['id']

    def token(self):
        connection = http.client.HTTPConnection('127.0.0.1', self.cloud.port)
        connection.request('GET', '/identity/v3/auth/tokens', headers={
            'X-Auth-Token': self.cloud.token, 'X-Subject-Token': self.cloud.token})
        return json.loads(connection.getresponse().read())['token']

    def project(self):
        return self.token()['project']['id']

    # ---- requests: what is sent

    def ec2(self, action, **parameters):
        body = urllib.parse.urlencode({'Action': action, 'Version': '2016-11-15', **parameters})
        request = botocore.awsrequest.AWSRequest(
            'POST', f'http://127.0.0.1:{self.cloud.port}{PATH}/', data=body,
            headers={'Content-Type': 'application/x-www-form-urlencoded; charset=utf-8'})
        botocore.auth.SigV4Auth(self.keys, 'ec2', 'RegionOne').add_auth(request)
        return 'POST', PATH + '/', body, dict(request.headers)

    def compute(self, method, path, body=None):
        base = urllib.parse.urlsplit(self.cloud.endpoints['compute']).path.rstrip('/')
        return method, base + path, body and json.dumps(body), {
            'X-Auth-Token': self.cloud.token, 'OpenStack-API-Version': 'compute 2.91',
            'Content-Type': 'application/json'}

    def timed(self, request):
        """(milliseconds, processor time of the server in milliseconds, answer) of a request."""
        cpu, begun = self.cloud.cpu_s(), time.perf_counter()
        self.connection.request(*request)
        answer = self.connection.getresponse()
        text = answer.read()
        took = time.perf_counter() - begun
        if answer.status >= 300:
            raise RuntimeError(f'{request[:2]}: {answer.status} {text[:400]!r}')
        return took * 1000, (self.cloud.cpu_s() - cpu) * 1000, text

    # ---- what is measured

    def run(self, count, rounds):
        self.fill(count)
        print(f'{"":32} {"median":>10} {"CPU":>10}')
        listed = self.compare('GET /servers/detail', lambda: self.compute('GET', '/servers/detail?limit=1000'),
                              'DescribeInstances', lambda: self.ec2('DescribeInstances'), rounds)
        assert listed[0].count(b'"OS-EXT-STS:vm_state"') == listed[1].count(b'<instanceId>') == count, 'other servers'
        self.compare('GET /servers/detail', lambda: self.compute('GET', '/servers/detail?limit=1000'),
                     'DescribeInstances, all rendered', lambda: self.ec2('DescribeInstances', **{
                         'Filter.1.Name': 'image-id', 'Filter.1.Value.1': '*'}), rounds)
        image = self.ec2_id('DescribeImages', 'imageId')
        network = self.ec2_id('DescribeSubnets', 'subnetId', **{
            'Filter.1.Name': 'cidr-block', 'Filter.1.Value.1': '10.64.0.0/18'})
        self.compare('POST /servers', lambda: self.compute('POST', '/servers', {'server': self.server}),
                     'RunInstances', lambda: self.ec2('RunInstances', ImageId=image, InstanceType='bench', MinCount=1,
                                                      MaxCount=1, SubnetId=network), rounds, self.settle)

    def ec2_id(self, action, name, **more):
        text = self.timed(self.ec2(action, **more))[2].decode()
        return text.partition(f'<{name}>')[2].partition('<')[0]

    def compare(self, first, ask_first, second, ask_second, rounds, settle=lambda: None):
        """Time two requests in turns, and print a row of each.

        :param settle: called after each one: no request shares the processors with what the one before has begun
        """
        rows = {first: ([], []), second: ([], [])}
        for _round in range(rounds):
            texts = []
            for name, ask in ((first, ask_first), (second, ask_second)):
                took, cpu, text = self.timed(ask())
                rows[name][0].append(took)
                rows[name][1].append(cpu)
                texts.append(text)
                settle()
        part = statistics.median(b / a for a, b in zip(rows[first][0], rows[second][0], strict=True))
        cpu = sum(rows[second][1]) / max(1, sum(rows[first][1]))
        for name, (took, worked) in rows.items():
            print(f'{name:32} {statistics.median(took):7.1f} ms {statistics.mean(worked):7.1f} ms'
                  + (f'   {part:.2f} in parts of {first}, {cpu:.2f} of its CPU' if name == second else ''), flush=True)
        return texts

    def settle(self):
        """Wait until no server is being built."""
        while self.cloud.json('GET', '/servers?status=BUILD&limit=1')['servers']:
            time.sleep(0.1)

    def fill(self, count):
        for begin in range(0, count, AT_ONCE):
            many = min(AT_ONCE, count - begin)
            self.cloud.json('POST', '/servers', {'server': {**self.server, 'min_count': many, 'max_count': many}},
                            version='2.91')
            self.settle()
        wrong = self.cloud.json('GET', '/servers/detail?status=ERROR&limit=1')['servers']
        if wrong:
            raise RuntimeError(f'a server failed: {wrong[0].get("fault")}')


if __name__ == '__main__':
    sys.exit(main())
