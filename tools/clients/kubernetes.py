#!/usr/bin/env python3
"""Run Kubernetes' cloud-provider-openstack against an all-in-one with the fake driver.

    tools/clients/kubernetes.py [--keep] [--short] [--only REGEX]

The program in the directory ``kubernetes`` has the unmodified packages of the controller manager (nodes, their end,
routes), of the Cinder CSI driver and of the plugins for keys and tokens, with client-go's fake API. csi-test, the
conformance tests of CSI drivers, gives the tests whose names begin with ``sanity``. The tests ``TestCapo`` repeat the
calls of the Cluster API provider.
"""
import hashlib
import re
import sys
import time

import common
import gophercloud
import suites

SOURCE = common.HERE / 'kubernetes'
ACCOUNT = 'nova-demo'        # these programs are members of a project
FLAVOR = 'm1.nano'
SANITY = 'TestSanity'
SHORT = 'TestInstance(Exists|Metadata$)|TestRoutes$|TestVolume(CreateTwice|Publish$)|TestSnapshot$|TestCapo[NSE]'
MARKS = re.compile(r'\[(?:It|Controller Server)\] |(?<=classname=")CSI Driver Test Suite(?=")')


def main():
    given = common.parser(__doc__).parse_args()
    pin, = common.pins('kubernetes', 'go')
    common.source(pin, given.cached)
    tests = common.built(f'{digest()}.test', pin, build, given.cached)
    begin = time.perf_counter()
    with common.Cloud(keep=given.keep) as cloud:
        pattern = given.only or (SHORT if given.short else '.')
        report = cloud.home / 'sanity.xml'
        results, text = gophercloud.run(tests, SOURCE, environ(cloud), pattern, f'-ginkgo.junit-report={report}')
        (cloud.home / 'kubernetes.log').write_text(text)
        if results.pop(SANITY, None):
            results.update(specs(report.read_text()))
    return common.figures('kubernetes', results, time.perf_counter() - begin, not given.only and not given.short)


def digest():
    """A name for the program's sources: a build of others is not run."""
    found = hashlib.sha256()
    for path in sorted(SOURCE.iterdir()):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def build(path):
    for old in path.parent.glob('*.test'):
        old.unlink()
    common.compile_go(SOURCE, 'test', '-c', '-o', path, '.')


def specs(text):
    """{test: Result} of csi-test's report."""
    return {f'sanity {name}': result for name, result in suites.junit(MARKS.sub('', text)).items()}


def environ(cloud):
    """The environment in which the tests find the cloud."""
    return cloud.environ(ACCOUNT, OS_DOMAIN_ID='default', OS_IMAGE_ID=cloud.ids['image'], FLAVOR_NAME=FLAVOR,
                         OS_FLAVOR_ID=cloud.ids[FLAVOR], OS_EXTGW_ID=cloud.ids['public'])


if __name__ == '__main__':
    sys.exit(common.run(main))
