#!/usr/bin/env python3
"""Walk the EC2 API of a cloud with clients as their makers release them: awscli, apache-libcloud, Ansible's amazon.aws.

    tools/ec2_walk.py [--environment DIRECTORY] [--only awscli|libcloud|ansible]

The clients are installed into DIRECTORY (/tmp/nova-ec2-clients) unless they are there. The cloud is an all-in-one in
this process, with the fake driver; it ends with the walk. Each step is printed; the exit code is 1 when a client
failed, or when awscli did not ask for an operation of the table.
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TREE), str(TREE / 'tools')]

import suites

from nova.ec2 import table
from nova.tests.functional import cloud as whole

CLIENTS = ['awscli>=1.40', 'apache-libcloud>=3.8', 'ansible>=10', 'boto3']
SCRIPTS = TREE / 'tools' / 'ec2'
REGION, CIDR = 'RegionOne', '10.77.0.0/24'
TAGS = "'ResourceType={},Tags=[{{Key=Name,Value=walk}}]'"
RULE = '--protocol tcp --port 22 --cidr 10.0.0.0/8'
TEMPLATE = """'{"ImageId":"{ami}","InstanceType":"m1.tiny"}'"""
RUN = ('run-instances --image-id {ami} --instance-type m1.tiny --key-name walk --security-group-ids {group} '
       '--subnet-id {subnet} --user-data file://{home}/key.pub --count 1 --client-token one --tag-specifications '
       + TAGS.format('instance') + ' --query Instances[0].InstanceId')
# (name that later steps have for what is printed, command of aws ec2); a name that begins with ! is a wanted error
AWSCLI = (
    ('', 'describe-regions'), ('zone', 'describe-availability-zones --query AvailabilityZones[0].ZoneName'),
    ('', 'describe-account-attributes'), ('vpc', 'describe-vpcs --query Vpcs[0].VpcId'),
    ('', 'describe-vpc-attribute --vpc-id {vpc} --attribute enableDnsSupport'),
    ('', "modify-vpc-attribute --vpc-id {vpc} --enable-dns-support '{{\"Value\":true}}'"),
    ('subnet', 'describe-subnets --filters Name=cidr-block,Values=' + CIDR + ' --query Subnets[0].SubnetId'),
    ('', 'describe-instance-types --instance-types m1.tiny'),
    ('', 'describe-instance-type-offerings --filters Name=instance-type,Values=m1.tiny'),
    ('ami', 'describe-images --owners self amazon --query Images[0].ImageId'),
    ('', 'describe-image-attribute --image-id {ami} --attribute description'),
    ('', 'create-key-pair --key-name walk --query KeyMaterial'),
    ('', 'import-key-pair --key-name brought --public-key-material fileb://{home}/key.pub'),
    ('', 'describe-key-pairs --key-names walk brought'), ('', 'delete-key-pair --key-name brought'),
    ('made_vpc', 'create-vpc --cidr-block 10.90.0.0/16 --query Vpc.VpcId'),
    ('made_subnet', 'create-subnet --vpc-id {made_vpc} --cidr-block 10.90.1.0/24 --query Subnet.SubnetId'),
    ('', 'modify-subnet-attribute --subnet-id {made_subnet} --no-map-public-ip-on-launch'),
    ('!InvalidSubnet.Conflict', 'create-subnet --vpc-id {made_vpc} --cidr-block 10.90.1.128/25'),
    ('igw', 'create-internet-gateway --query InternetGateway.InternetGatewayId'),
    ('', 'attach-internet-gateway --internet-gateway-id {igw} --vpc-id {made_vpc}'),
    ('', 'describe-internet-gateways --internet-gateway-ids {igw}'),
    ('table', 'create-route-table --vpc-id {made_vpc} --query RouteTable.RouteTableId'),
    ('', 'create-route --route-table-id {table} --destination-cidr-block 0.0.0.0/0 --gateway-id {igw}'),
    ('', 'replace-route --route-table-id {table} --destination-cidr-block 0.0.0.0/0 --gateway-id {igw}'),
    ('held', 'associate-route-table --route-table-id {table} --subnet-id {made_subnet} --query AssociationId'),
    ('held', 'replace-route-table-association --association-id {held} --route-table-id {table} '
             '--query NewAssociationId'),
    ('', 'describe-route-tables --route-table-ids {table}'),
    ('', 'disassociate-route-table --association-id {held}'),
    ('', 'delete-route --route-table-id {table} --destination-cidr-block 0.0.0.0/0'),
    ('', 'delete-route-table --route-table-id {table}'),
    ('!DependencyViolation', 'delete-vpc --vpc-id {made_vpc}'),
    ('', 'detach-internet-gateway --internet-gateway-id {igw} --vpc-id {made_vpc}'),
    ('', 'delete-internet-gateway --internet-gateway-id {igw}'),
    ('dopt', 'create-dhcp-options --dhcp-configurations Key=domain-name-servers,Values=192.0.2.1 '
             '--query DhcpOptions.DhcpOptionsId'),
    ('', 'associate-dhcp-options --dhcp-options-id {dopt} --vpc-id {made_vpc}'),
    ('', 'describe-dhcp-options --dhcp-options-ids {dopt}'),
    ('!DependencyViolation', 'delete-dhcp-options --dhcp-options-id {dopt}'),
    ('', 'associate-dhcp-options --dhcp-options-id default --vpc-id {made_vpc}'),
    ('', 'delete-dhcp-options --dhcp-options-id {dopt}'),
    ('', 'delete-subnet --subnet-id {made_subnet}'), ('', 'delete-vpc --vpc-id {made_vpc}'),
    ('group', 'create-security-group --group-name walk --description walk --vpc-id {vpc} --query GroupId'),
    ('rule', 'authorize-security-group-ingress --group-id {group} ' + RULE
     + ' --query SecurityGroupRules[0].SecurityGroupRuleId'),
    ('', 'authorize-security-group-egress --group-id {group} --protocol udp --port 53 --cidr 10.0.0.0/8'),
    ('', 'describe-security-groups --group-ids {group}'),
    ('', 'describe-security-group-rules --filters Name=group-id,Values={group}'),
    ('', 'update-security-group-rule-descriptions-ingress --group-id {group} --security-group-rule-descriptions '
         'SecurityGroupRuleId={rule},Description=ssh'),
    ('', 'update-security-group-rule-descriptions-egress --group-id {group} --ip-permissions '
         "'IpProtocol=udp,FromPort=53,ToPort=53,IpRanges=[{{CidrIp=10.0.0.0/8,Description=names}}]'"),
    ('', 'modify-security-group-rules --group-id {group} --security-group-rules '
         "'SecurityGroupRuleId={rule},SecurityGroupRule={{IpProtocol=tcp,FromPort=22,ToPort=22,CidrIpv4=10.0.0.0/8}}'"),
    ('', 'revoke-security-group-ingress --group-id {group} --security-group-rule-ids {rule}'),
    ('', 'revoke-security-group-egress --group-id {group} --protocol udp --port 53 --cidr 10.0.0.0/8'),
    ('', 'create-placement-group --group-name walk --strategy spread'), ('', 'describe-placement-groups'),
    ('!DryRunOperation', 'run-instances --dry-run --image-id {ami} --instance-type m1.tiny'),
    ('i', RUN), ('i', RUN),                                           # the same one, by its token
    ('', 'wait instance-running --instance-ids {i}'), ('', 'describe-instances --filters Name=tag:Name,Values=walk'),
    ('', 'describe-instance-status --instance-ids {i}'), ('', 'wait instance-status-ok --instance-ids {i}'),
    *(('', 'describe-instance-attribute --instance-id {i} --attribute ' + name) for name in (
        'instanceType', 'userData', 'disableApiTermination', 'groupSet', 'instanceInitiatedShutdownBehavior')),
    ('', 'modify-instance-attribute --instance-id {i} --no-disable-api-termination'),
    ('', 'modify-instance-metadata-options --instance-id {i} --http-tokens required'),
    ('!UnsupportedOperation', 'monitor-instances --instance-ids {i}'), ('', 'unmonitor-instances --instance-ids {i}'),
    ('', 'get-console-output --instance-id {i}'), ('', 'get-console-screenshot --instance-id {i} --query InstanceId'),
    ('', 'get-password-data --instance-id {i}'),
    ('eni', 'describe-network-interfaces --filters Name=attachment.instance-id,Values={i} --query '
     'NetworkInterfaces[0].NetworkInterfaceId'),
    ('made_eni', 'create-network-interface --subnet-id {subnet} --groups {group} --query '
                 'NetworkInterface.NetworkInterfaceId'),
    ('', 'modify-network-interface-attribute --network-interface-id {made_eni} --description second'),
    ('', 'describe-network-interface-attribute --network-interface-id {made_eni} --attribute description'),
    ('held', 'attach-network-interface --network-interface-id {made_eni} --instance-id {i} --device-index 1 '
             '--query AttachmentId'),
    ('', 'detach-network-interface --attachment-id {held}'),
    ('', 'wait network-interface-available --network-interface-ids {made_eni}'),
    ('', 'delete-network-interface --network-interface-id {made_eni}'),
    ('eip', 'allocate-address --domain vpc --query AllocationId'),
    ('assoc', 'associate-address --allocation-id {eip} --instance-id {i} --query AssociationId'),
    ('', 'describe-addresses --allocation-ids {eip}'), ('', 'disassociate-address --association-id {assoc}'),
    ('', 'release-address --allocation-id {eip}'),
    ('vol', 'create-volume --size 1 --availability-zone {zone} --tag-specifications ' + TAGS.format('volume')
     + ' --query VolumeId'),
    ('', 'wait volume-available --volume-ids {vol}'),
    ('', 'attach-volume --volume-id {vol} --instance-id {i} --device /dev/vdb'),
    ('', 'wait volume-in-use --volume-ids {vol}'), ('', 'detach-volume --volume-id {vol}'),
    ('', 'wait volume-available --volume-ids {vol}'), ('', 'modify-volume --volume-id {vol} --size 2'),
    ('', 'describe-volume-status --volume-ids {vol}'), ('', 'describe-volumes-modifications --volume-ids {vol}'),
    ('', 'describe-volume-attribute --volume-id {vol} --attribute autoEnableIO'),
    ('snap', 'create-snapshot --volume-id {vol} --description walk --query SnapshotId'),
    ('', 'describe-snapshot-attribute --snapshot-id {snap} --attribute createVolumePermission'),
    ('', 'wait snapshot-completed --snapshot-ids {snap}'), ('', 'describe-snapshots --owner-ids self'),
    ('registered', 'register-image --name registered --root-device-name /dev/vda --block-device-mappings '
                   'DeviceName=/dev/vda,Ebs={{SnapshotId={snap}}} --query ImageId'),
    ('', 'describe-images --image-ids {registered}'), ('', 'deregister-image --image-id {registered}'),
    ('', 'delete-snapshot --snapshot-id {snap}'), ('', 'describe-volumes --volume-ids {vol}'),
    ('', 'wait volume-available --volume-ids {vol}'),
    ('', 'delete-volume --volume-id {vol}'), ('', 'wait volume-deleted --volume-ids {vol}'),
    ('', 'create-tags --resources {i} --tags Key=a,Value=b'),
    ('', 'describe-tags --filters Name=resource-id,Values={i}'),
    ('', 'delete-tags --resources {i} --tags Key=a'), ('', 'reboot-instances --instance-ids {i}'),
    ('', 'wait instance-running --instance-ids {i}'), ('', 'stop-instances --instance-ids {i}'),
    ('', 'wait instance-stopped --instance-ids {i}'),
    ('', 'modify-instance-attribute --instance-id {i} --instance-type m1.small'),
    ('', 'start-instances --instance-ids {i}'),
    ('', 'wait instance-running --instance-ids {i}'),
    ('made', 'create-image --instance-id {i} --name made --query ImageId'),
    ('', 'wait image-available --image-ids {made}'),
    ('', 'modify-image-attribute --image-id {made} --launch-permission Add=[{{UserId=0123456789abcdef}}]'),
    ('', 'modify-image-attribute --image-id {made} --launch-permission Remove=[{{UserId=0123456789abcdef}}]'),
    ('!UnauthorizedOperation', 'modify-image-attribute --image-id {made} --launch-permission Add=[{{Group=all}}]'),
    ('', 'reset-image-attribute --image-id {made} --attribute launchPermission'),
    ('', 'deregister-image --image-id {made}'),
    ('lt', 'create-launch-template --launch-template-name walk --launch-template-data ' + TEMPLATE
     + ' --query LaunchTemplate.LaunchTemplateId'),
    ('', 'create-launch-template-version --launch-template-id {lt} --source-version 1 --launch-template-data '
     "'{\"KeyName\":\"walk\"}'"),
    ('', 'describe-launch-template-versions --launch-template-id {lt}'),
    ('', 'modify-launch-template --launch-template-id {lt} --default-version 2'), ('', 'describe-launch-templates'),
    ('second', 'run-instances --launch-template LaunchTemplateName=walk --query Instances[0].InstanceId'),
    ('', 'delete-launch-template-versions --launch-template-id {lt} --versions 1'),
    ('', 'delete-launch-template --launch-template-id {lt}'),
    ('', 'terminate-instances --instance-ids {i} {second}'),
    ('', 'wait instance-terminated --instance-ids {i} {second}'),
    ('', 'delete-placement-group --group-name walk'), ('', 'delete-security-group --group-id {group}'),
    ('', 'delete-key-pair --key-name walk'),
    ('!InvalidInstanceID.NotFound', 'describe-instances --instance-ids i-00000000000000dea'),
    ('', 'describe-spot-instance-requests'), ('!UnsupportedOperation', 'describe-spot-datafeed-subscription'),
    ('!InvalidAction', 'get-ipam-discovered-accounts --ipam-resource-discovery-id x --discovery-region x'),
)


def networks(admin, client):
    """A network of the project, which a router joins with an external one that has addresses."""
    def make(by, kind, **values):
        answer = by.post(f'/network/v2.0/{kind}s', {kind: values})
        answer.raise_for_status()
        return answer.json()[kind]['id']
    outside = make(admin, 'network', name='outside', **{'router:external': True})
    make(admin, 'subnet', network_id=outside, cidr='203.0.113.0/24', ip_version=4)
    private = make(client, 'network', name='private')
    subnet = make(client, 'subnet', network_id=private, cidr=CIDR, ip_version=4)
    router = make(client, 'router', name='out', external_gateway_info={'network_id': outside})
    client.put(f'/network/v2.0/routers/{router}/add_router_interface', {'subnet_id': subnet}).raise_for_status()


def environ(cloud, directory, home):
    """The environment of a client of EC2: with keys of the project demo.

    :param directory: where the clients are
    :param home: of their configuration, and of their files
    """
    client = cloud.client()
    pair = client.post(f'/identity/v3/users/{client.user_id}/credentials/OS-EC2', {
        'tenant_id': client.project_id}).json()['credential']
    subprocess.run(['ssh-keygen', '-q', '-t', 'rsa', '-N', '', '-f', home / 'key'], check=True)
    (home / 'key').chmod(0o600)
    return suites.environ(
        directory / 'bin', HOME=str(home), AWS_ACCESS_KEY_ID=pair['access'], AWS_SECRET_ACCESS_KEY=pair['secret'],
        AWS_DEFAULT_REGION=REGION, AWS_REGION=REGION, AWS_ENDPOINT_URL=cloud.url + '/services/Cloud',
        AWS_MAX_ATTEMPTS='1', AWS_EC2_METADATA_DISABLED='true', AWS_PAGER='', ANSIBLE_LOCALHOST_WARNING='false',
        LC_ALL='C.UTF-8', ANSIBLE_NOCOLOR='1', EC2_WALK_KEY=str(home / 'key.pub'), EC2_WALK_CIDR=CIDR)


class Walk:
    """
    :param directory: where the clients are
    :param home: of their configuration, and of their files
    """

    def __init__(self, cloud, directory, home):
        cloud.client().upload_image(b'\0' * 1024, name='small')
        networks(cloud.admin(), cloud.client())
        self.directory, self.home, self.failed = directory, home, []
        self.environ = environ(cloud, directory, home)

    def run(self, what, command, wanted=''):
        """Return the output of a command. A failure is shown and counted.

        :param wanted: the error that it has to end with
        """
        done = subprocess.run(command, env=self.environ, cwd=self.home, capture_output=True, text=True, timeout=600)
        printed = done.stdout + done.stderr
        good = wanted in printed if wanted else not done.returncode
        print('ok    ' if good else 'FAILED', what, flush=True)
        if not good:
            self.failed.append(what)
            print('       ' + printed.strip()[-1500:].replace('\n', '\n       '), flush=True)
        return done.stdout.strip()

    def awscli(self):
        known = {'home': self.home}
        for name, text in AWSCLI:
            for key, value in known.items():
                text = text.replace('{' + key + '}', str(value))
            text = text.replace('{{', '{').replace('}}', '}')
            wanted = name[1:] if name.startswith('!') else ''
            printed = self.run(f'aws ec2 {text}', ['aws', 'ec2', *shlex.split(text), '--output', 'text'], wanted)
            if name and not wanted:
                known[name] = printed.split()[0] if printed else 'nothing'

    def libcloud(self):
        done = subprocess.run([self.directory / 'bin' / 'python', SCRIPTS / 'libcloud_walk.py'], env=self.environ,
                              capture_output=True, text=True, timeout=600)
        print(done.stdout, end='')
        if done.returncode:
            self.failed.append('libcloud')
            print('FAILED libcloud\n' + done.stderr[-3000:])

    def ansible(self):
        self.run('ansible-playbook tools/ec2/walk.yml', [
            'ansible-playbook', '-i', 'localhost,', '-c', 'local', '-e',
            f'ansible_python_interpreter={self.directory}/bin/python', SCRIPTS / 'walk.yml'])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--environment', type=pathlib.Path, default=pathlib.Path('/tmp/nova-ec2-clients'))
    parser.add_argument('--only', choices=('awscli', 'libcloud', 'ansible'))
    given = parser.parse_args()
    suites.install(given.environment, CLIENTS)
    with tempfile.TemporaryDirectory(prefix='nova-ec2-walk.') as home, whole.running(
            pathlib.Path(home) / 'cloud', ['host1']) as cloud:
        walk = Walk(cloud, given.environment, pathlib.Path(home))
        for name in [given.only] if given.only else ('awscli', 'libcloud', 'ansible'):
            print(f'---- {name}')
            getattr(walk, name)()
    requested = {re.sub('(^|-)(.)', lambda found: found[2].upper(), text.split()[0]) for _name, text in AWSCLI}
    left = [] if given.only else sorted(table.OPERATIONS.keys() - requested)
    print(f'{len(walk.failed)} steps failed' + (f'; not requested: {", ".join(left)}' if left else ''))
    return 1 if walk.failed or left else 0


if __name__ == '__main__':
    sys.exit(main())
