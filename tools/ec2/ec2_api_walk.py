#!/usr/bin/env python3
"""Run the EC2 API's own project, ec2-api of PyPI, unmodified, on a cloud of this tree, and walk it with awscli.

    tools/ec2/ec2_api_walk.py [--environment DIRECTORY] [--clients DIRECTORY] [--only REGEX] [--log FILE]

ec2-api is installed into DIRECTORY (/tmp/nova-ec2-api), awscli into the other (/tmp/nova-ec2-api-clients), unless they
are there. The cloud is an all-in-one in this process, with the fake driver: its identity, compute, image, network and
block storage services are what ec2-api calls; the EC2 API of this tree is not called. Each step is printed:
"passes", "cannot" with the reason, or "FAILED". The exit code is 1 when a step did not end as STEPS says.

ec2-api needs older packages than today's (PACKAGES), and sends no token to /v3/ec2tokens, which identity services ask
for: a relay on loopback adds that of the service account, as a web server in front would.
"""
import argparse
import contextlib
import http.server
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import yaml

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TREE), str(TREE / 'tools')]

import ec2_walk
import local_cloud
import suites

from nova.tests.functional import cloud as whole

# Its database code passes 'autocommit', which SQLAlchemy 2 and oslo.db 13 do not know; sqlalchemy-migrate needs
# sqlalchemy.databases, which SQLAlchemy 2 has not, and pkg_resources, which setuptools 82 has not.
# Its request context passes 'user', which oslo.context 6 does not know.
PACKAGES = ['ec2-api==17.0.0', 'SQLAlchemy<2', 'oslo.db<13', 'oslo.context<6', 'setuptools<81']
CLIENTS = ['awscli==1.29.85']         # of ec2-api's time: today's sends ClientToken with requests that did not have it
CONF = '''
[DEFAULT]
api_paste_config = {paste}
state_path = {home}
ec2api_listen = 127.0.0.1
ec2api_listen_port = {port}
ec2api_workers = 1
keystone_ec2_tokens_url = {relay}/ec2tokens
external_network = outside
disable_ec2_classic = true
default_flavor = m1.tiny
my_ip = 127.0.0.1
[database]
connection = sqlite:///{home}/ec2.sqlite
[oslo_concurrency]
lock_path = {home}
[cache]
enabled = true
backend = dogpile.cache.memory
[keystone_authtoken]
auth_type = password
auth_url = {identity}
username = {username}
password = {password}
project_name = {project_name}
user_domain_name = Default
project_domain_name = Default
'''
# As the source distribution has it in etc/ec2api; the wheel has none.
PASTE = '''
[composite:ec2api]
use = egg:Paste#urlmap
/: ec2apicloud
[composite:ec2apicloud]
use = call:ec2api.api.auth:pipeline_factory
keystone = ec2apifaultwrap logrequest ec2apikeystoneauth cloudrequest ec2apiexecutor
[filter:ec2apifaultwrap]
paste.filter_factory = ec2api.api:FaultWrapper.factory
[filter:logrequest]
paste.filter_factory = ec2api.api:RequestLogging.factory
[filter:ec2apikeystoneauth]
paste.filter_factory = ec2api.api:EC2KeystoneAuth.factory
[filter:cloudrequest]
paste.filter_factory = ec2api.api:Requestify.factory
[app:ec2apiexecutor]
paste.app_factory = ec2api.api:Executor.factory
'''
START_S, STEP_S = 60, 60
RUN = ('run-instances --image-id {ami} --instance-type m1.tiny --key-name walk --security-group-ids {group} '
       '--subnet-id {subnet} --count 1 --client-token one --query Instances[0].InstanceId')
# Why a step ends with an error of this text.
NORMALIZED = ('InvalidPermission.NotFound', 'ec2-api compares all fields of a rule but those that it knows of, and '
              'normalized_cidr, which Neutron has, too, is none of them.')
BEHIND = ('update:device_id', 'ec2-api takes the port from the server in the network service, unknown to the compute '
          'service; here only services write device_id. The compute API detaches it.')
FORGOTTEN = ('InvalidInstanceID.NotFound', 'ec2-api forgets an instance as soon as its server is gone.')
NO_VPN = ('NotFound', 'The network service of an all-in-one has no VPNaaS.')
# (name that later steps have for what is printed, command of aws ec2, (what it fails with, why))
STEPS = (
    ('', 'describe-regions'), ('', 'describe-availability-zones'), ('', 'describe-account-attributes'),
    ('default', 'describe-vpcs --query Vpcs[0].VpcId'),
    ('ami', 'describe-images --query Images[0].ImageId'),
    ('', 'create-key-pair --key-name walk --query KeyMaterial'),
    ('', 'import-key-pair --key-name brought --public-key-material fileb://{home}/key.pub'),
    ('', 'describe-key-pairs --key-names walk brought'), ('', 'delete-key-pair --key-name brought'),
    ('vpc', 'create-vpc --cidr-block 10.90.0.0/16 --query Vpc.VpcId'),
    ('subnet', 'create-subnet --vpc-id {vpc} --cidr-block 10.90.1.0/24 --query Subnet.SubnetId'),
    ('', 'describe-subnets --subnet-ids {subnet}'),
    ('igw', 'create-internet-gateway --query InternetGateway.InternetGatewayId'),
    ('', 'attach-internet-gateway --internet-gateway-id {igw} --vpc-id {vpc}'),
    ('', 'describe-internet-gateways --internet-gateway-ids {igw}'),
    ('rtb', 'create-route-table --vpc-id {vpc} --query RouteTable.RouteTableId'),
    ('', 'create-route --route-table-id {rtb} --destination-cidr-block 0.0.0.0/0 --gateway-id {igw}'),
    ('assoc', 'associate-route-table --route-table-id {rtb} --subnet-id {subnet} --query AssociationId'),
    ('', 'describe-route-tables --route-table-ids {rtb}'),
    ('dopt', 'create-dhcp-options --dhcp-configurations Key=domain-name-servers,Values=10.90.0.2 '
             '--query DhcpOptions.DhcpOptionsId'),
    ('', 'associate-dhcp-options --dhcp-options-id {dopt} --vpc-id {vpc}'),
    ('', 'describe-dhcp-options --dhcp-options-ids {dopt}'),
    ('group', 'create-security-group --group-name walk --description walk --vpc-id {vpc} --query GroupId'),
    ('', 'authorize-security-group-ingress --group-id {group} --protocol tcp --port 22 --cidr 10.0.0.0/8'),
    ('', 'authorize-security-group-ingress --group-id {group} --protocol tcp --port 80 --cidr 0.0.0.0/0'),
    ('', 'describe-security-groups --group-ids {group}'),
    ('', 'revoke-security-group-ingress --group-id {group} --protocol tcp --port 22 --cidr 10.0.0.0/8', NORMALIZED),
    ('', 'revoke-security-group-ingress --group-id {group} --protocol tcp --port 80 --cidr 0.0.0.0/0'),
    ('i', RUN), ('', 'wait instance-running --instance-ids {i}'), ('', 'describe-instances --instance-ids {i}'),
    ('', 'create-tags --resources {i} --tags Key=Name,Value=walk'),
    ('', 'describe-instances --filters Name=tag:Name,Values=walk'), ('', 'describe-tags'),
    ('', 'delete-tags --resources {i} --tags Key=Name'),
    ('', 'describe-instance-attribute --instance-id {i} --attribute instanceType'),
    ('', 'describe-instance-attribute --instance-id {i} --attribute userData'),
    # not by --disable-api-termination, which it takes and does not keep
    ('', 'modify-instance-attribute --instance-id {i} --attribute disableApiTermination --value true'),
    ('!OperationNotPermitted', 'terminate-instances --instance-ids {i}'),
    ('', 'modify-instance-attribute --instance-id {i} --attribute disableApiTermination --value false'),
    ('', 'get-console-output --instance-id {i}'), ('', 'get-password-data --instance-id {i}'),
    ('', 'reboot-instances --instance-ids {i}'), ('', 'wait instance-running --instance-ids {i}'),
    ('', 'stop-instances --instance-ids {i}'), ('', 'wait instance-stopped --instance-ids {i}'),
    ('', 'start-instances --instance-ids {i}'), ('', 'wait instance-running --instance-ids {i}'),
    ('eip', 'allocate-address --domain vpc --query AllocationId'),
    ('eipassoc', 'associate-address --allocation-id {eip} --instance-id {i} --query AssociationId'),
    ('', 'describe-addresses --allocation-ids {eip}'), ('', 'disassociate-address --association-id {eipassoc}'),
    ('', 'release-address --allocation-id {eip}'),
    ('eni', 'create-network-interface --subnet-id {subnet} --query NetworkInterface.NetworkInterfaceId'),
    ('', 'assign-private-ip-addresses --network-interface-id {eni} --private-ip-addresses 10.90.1.77'),
    ('', 'unassign-private-ip-addresses --network-interface-id {eni} --private-ip-addresses 10.90.1.77'),
    ('attachment', 'attach-network-interface --network-interface-id {eni} --instance-id {i} --device-index 1 '
                   '--query AttachmentId'),
    ('', 'describe-network-interfaces --network-interface-ids {eni}'),
    ('', 'describe-network-interface-attribute --network-interface-id {eni} --attribute attachment'),
    ('', 'detach-network-interface --attachment-id {attachment}', BEHIND),
    ('vol', 'create-volume --size 1 --availability-zone nova --query VolumeId'),
    ('', 'wait volume-available --volume-ids {vol}'),
    ('', 'attach-volume --volume-id {vol} --instance-id {i} --device /dev/vdb'),
    ('', 'wait volume-in-use --volume-ids {vol}'), ('', 'describe-volumes --volume-ids {vol}'),
    ('', 'detach-volume --volume-id {vol}'), ('', 'wait volume-available --volume-ids {vol}'),
    ('', 'delete-volume --volume-id {vol}'),
    # an instance of a volume: of 'bootable', which the block storage service has copied from the image
    ('root', 'describe-volumes --query Volumes[0].VolumeId'),
    ('snap', 'create-snapshot --volume-id {root} --query SnapshotId'),
    ('', 'wait snapshot-completed --snapshot-ids {snap}'), ('', 'describe-snapshots --snapshot-ids {snap}'),
    ('registered', 'register-image --name registered --root-device-name /dev/vda --block-device-mappings '
                   '"DeviceName=/dev/vda,Ebs={{SnapshotId={snap}}}" --query ImageId'),
    ('v', 'run-instances --image-id {registered} --instance-type m1.tiny --subnet-id {subnet} '
          '--query Instances[0].InstanceId'),
    ('', 'wait instance-running --instance-ids {v}'),
    ('made', 'create-image --instance-id {v} --name made --query ImageId'),
    ('', 'wait image-available --image-ids {made}'),
    ('', 'describe-image-attribute --image-id {made} --attribute blockDeviceMapping'),
    ('', 'modify-image-attribute --image-id {made} --description walked'),
    ('', 'deregister-image --image-id {made}'), ('', 'deregister-image --image-id {registered}'),
    ('', 'terminate-instances --instance-ids {i} {v}'),
    ('', 'wait instance-terminated --instance-ids {i}', FORGOTTEN),
    ('', 'wait instance-terminated --instance-ids {v}', FORGOTTEN),
    ('', 'describe-instances'),                     # which forgets the interfaces of both
    ('', 'delete-network-interface --network-interface-id {eni}'),
    ('', 'delete-snapshot --snapshot-id {snap}'),
    ('vgw', 'create-vpn-gateway --type ipsec.1 --query VpnGateway.VpnGatewayId'),
    ('cgw', 'create-customer-gateway --type ipsec.1 --public-ip 203.0.113.9 --query CustomerGateway.CustomerGatewayId'),
    ('', 'create-vpn-connection --type ipsec.1 --customer-gateway-id {cgw} --vpn-gateway-id {vgw} '
         '--options StaticRoutesOnly=true', NO_VPN),
    ('', 'delete-customer-gateway --customer-gateway-id {cgw}'), ('', 'delete-vpn-gateway --vpn-gateway-id {vgw}'),
    ('', 'disassociate-route-table --association-id {assoc}'), ('', 'delete-route-table --route-table-id {rtb}'),
    ('', 'detach-internet-gateway --internet-gateway-id {igw} --vpc-id {vpc}'),
    ('', 'delete-internet-gateway --internet-gateway-id {igw}'),
    ('', 'delete-security-group --group-id {group}'), ('!DependencyViolation', 'delete-vpc --vpc-id {vpc}'),
    ('', 'delete-subnet --subnet-id {subnet}'), ('', 'delete-vpc --vpc-id {vpc}'),
    ('', 'delete-dhcp-options --dhcp-options-id {dopt}'), ('', 'delete-key-pair --key-name walk'),
)


class Relay(http.server.BaseHTTPRequestHandler):
    """Hands /ec2tokens on with the token of a service account.

    identity, token   set by ``relay``
    """

    protocol_version = 'HTTP/1.1'
    identity = token = ''

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        request = urllib.request.Request(self.identity + self.path, body, {
            'Content-Type': 'application/json', 'X-Auth-Token': self.token})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                code, headers, text = answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            code, headers, text = error.code, error.headers, error.read()
        self.send_response(code)
        for name in ('Content-Type', 'X-Subject-Token'):
            if headers.get(name):
                self.send_header(name, headers[name])
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_arguments):
        pass


@contextlib.contextmanager
def relay(identity, token):
    """URL of a Relay."""
    handler = type('Handler', (Relay,), {'identity': identity, 'token': token})
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f'http://127.0.0.1:{server.server_port}'
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def serving(directory, home, cloud, relayed):
    """URL of a running ec2-api.

    :param directory: its environment
    :param home: of its files
    :param relayed: URL that takes /ec2tokens
    """
    account = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-admin']['auth']
    port = local_cloud.free_port()
    (home / 'api-paste.ini').write_text(PASTE)
    (home / 'ec2api.conf').write_text(CONF.format(
        home=home, paste=home / 'api-paste.ini', port=port, relay=relayed, identity=cloud.url + '/identity/v3',
        **{name: account[name] for name in ('username', 'password', 'project_name')}))
    environ = suites.environ(directory / 'bin', HOME=str(home))
    with open(home / 'ec2-api.out', 'ab') as log:
        def command(name, *words):
            return [directory / 'bin' / name, '--config-file', home / 'ec2api.conf', *words]
        subprocess.run(command('ec2-api-manage', 'db_sync'), env=environ, check=True, stdout=log, stderr=log)
        process = subprocess.Popen(command('ec2-api', '--debug'), env=environ, stdout=log, stderr=log)
    try:
        url, deadline = f'http://127.0.0.1:{port}', time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 1):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError('ec2-api does not start:\n' + (home / 'ec2-api.out').read_text()[-3000:])
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait()


class Walk:
    """
    failed   steps that did not end as STEPS says

    :param environ: of awscli
    :param home: where it runs
    """

    def __init__(self, environ, home):
        self.environ, self.home, self.failed = environ, home, []

    def run(self, only):
        """Go through the steps, and print what became of them."""
        known, passed, cannot = {'home': self.home}, 0, 0
        for name, text, *expected in STEPS:
            if only and not re.search(only, text):
                continue
            for key, value in known.items():
                text = text.replace('{' + key + '}', str(value))
            text = text.replace('{{', '{').replace('}}', '}')
            printed, refusal = self._aws(text)
            wanted, reason = expected[0] if expected else (name[1:] if name.startswith('!') else '', '')
            good = wanted in refusal if wanted else not refusal
            passed += good and not reason
            cannot += good and bool(reason)
            print(f'{"FAILED" if not good else "cannot" if reason else "passes"}  {text}', flush=True)
            if reason or not good:
                print(f'        {reason if good else refusal or "passes, which was not expected"}', flush=True)
            if not good:
                self.failed.append(text)
            if name and not refusal:
                known[name] = printed.split()[0] if printed.split() else 'nothing'
        print(f'{passed + cannot + len(self.failed)} steps: {passed} pass, {cannot} cannot, {len(self.failed)} failed')

    def _aws(self, text):
        """(what a command of aws ec2 printed, why it failed)"""
        try:
            done = subprocess.run(['aws', 'ec2', *shlex.split(text), '--output', 'text'], env=self.environ,
                                  cwd=self.home, capture_output=True, text=True, timeout=STEP_S)
        except subprocess.TimeoutExpired:
            return '', f'nothing within {STEP_S} s'
        return done.stdout, ' '.join((done.stderr or done.stdout).split())[-400:] if done.returncode else ''


def prepare(cloud):
    """An image, a volume of it, and networks."""
    client = cloud.client()
    image = client.upload_image(b'\0' * 1024, name='small')
    client.post('/volume/v3/volumes', {'volume': {'size': 1, 'imageRef': image, 'name': 'bootable'}}).raise_for_status()
    ec2_walk.networks(cloud.admin(), client)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--environment', type=pathlib.Path, default=pathlib.Path('/tmp/nova-ec2-api'))
    parser.add_argument('--clients', type=pathlib.Path, default=pathlib.Path('/tmp/nova-ec2-api-clients'))
    parser.add_argument('--only', help='steps whose command this expression is found in')
    parser.add_argument('--log', type=pathlib.Path, help='where the log of ec2-api goes')
    given = parser.parse_args()
    suites.install(given.environment, PACKAGES)
    suites.install(given.clients, CLIENTS)
    with contextlib.ExitStack() as stack:
        home = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='nova-ec2-api.')))
        cloud = stack.enter_context(whole.running(home / 'cloud', ['host1']))
        prepare(cloud)
        identity = cloud.url + '/identity/v3'
        relayed = stack.enter_context(relay(identity, cloud.client('nova-service').token))
        environ = ec2_walk.environ(cloud, given.clients, home)
        environ['AWS_ENDPOINT_URL'] = stack.enter_context(serving(given.environment, home, cloud, relayed))
        if given.log:
            stack.callback(lambda: given.log.write_bytes((home / 'ec2-api.out').read_bytes()))
        walk = Walk(environ, home)
        walk.run(given.only)
    return 1 if walk.failed else 0


if __name__ == '__main__':
    sys.exit(main())
