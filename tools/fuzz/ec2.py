#!/usr/bin/env python3
"""Send generated requests to the EC2 API of a cloud in this process, with the fake driver: none may fail in the server.

    tools/fuzz/ec2.py [COUNT [SEED]]         # 20000 requests of seed 1; exit 1 when one was answered with 5xx
"""
import pathlib
import sys
import tempfile

from nova.tests.functional import cloud as whole
from nova.tests.fuzz import ec2_requests


def main(count=20000, seed=1):
    with tempfile.TemporaryDirectory() as directory, whole.running(pathlib.Path(directory), ['host1']) as cloud:
        user = cloud.client()
        user.upload_image(b'\0' * 1024, name='small')
        pair = user.post(f'/identity/v3/users/{user.user_id}/credentials/OS-EC2',
                         {'tenant_id': user.project_id}).json()['credential']
        client = ec2_requests.Client(cloud.url + '/services/Cloud', pair)
        codes, faults = ec2_requests.run(client, seed, count)
    for code, number in sorted(codes.items(), key=lambda item: -item[1]):
        print(f'{number:7} {code}')
    print(*faults[:50], sep='\n')
    print(f'{count} requests of seed {seed}: {len(faults)} answered with a fault of the server')
    return 1 if faults else 0


if __name__ == '__main__':
    sys.exit(main(*map(int, sys.argv[1:])))
