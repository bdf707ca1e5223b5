"""Types of the EC2 API: Operation (a row of the table of operations) and Request."""
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
import dataclasses
import functools
import time
from typing import Any, TypedDict

from nova.db import engine
from nova.ec2 import calls
from nova.ec2 import errors
from nova.ec2 import ids
from nova.ec2 import xml_cache
from nova.ec2.images import imports
from nova.json_types import JsonDocument
from nova.runtime import fairness
from nova.runtime import queues


PAGE = 1000                       # items in a page of a paginated list
MAX_SINGLE_READS = 8              # maximum resources that are read one by one; for more, the whole list is read
# {prefix: (service, list)} of resources with IDs computed from UUIDs: guest metadata or image properties may contain an
# ID that has no row yet. For instances see nova.db.ec2.ids
SHOWN_BEFORE = {'ami': ('image', 'images'), 'eni': ('network', 'ports'), 'snap': ('volume', 'snapshots'),
                'subnet': ('network', 'subnets')}
MAX_WAITS = 8                    # maximum waiting requests of a process; one project may have half of them


@dataclasses.dataclass(frozen=True)
class Bundles:
    """Functions and limits that imports of bundled images need.

    decrypt   (project ID, hexadecimal text) -> plain text; decrypts with the project's authority in nova-cert
    signed    (project ID, digest, signature: hexadecimal) -> True if a user of the project signed the digest
    limit     maximum size of an image in bytes
    imports   image imports of this process
    """

    decrypt: Callable[[str, str], str]
    signed: Callable[[str, str, str], bool]
    limit: int
    imports: imports.Imports


@dataclasses.dataclass(frozen=True)
class Request:
    """Request to the EC2 API, the first argument of handlers.

    caller       client of the cloud's services, with the rights of the user
    ids          converter of EC2 IDs
    api_db       the API database, with the tables of the EC2 API
    region       name of the region
    url          endpoint of the EC2 API
    request_id   ID of this request
    bundles      see Bundles; None: bundles are not supported
    waits        limit on requests that wait for a server, see ``waits``
    fragments    cache of XML responses
    own_network  whether the embedded network service serves metadata to guests
    began        monotonic start time
    """

    caller: calls.Caller
    ids: ids.Ids
    api_db: engine.Database
    region: str
    url: str
    request_id: str
    bundles: Bundles | None = None
    waits: fairness.ConcurrencyLimit = dataclasses.field(
        default_factory=lambda: fairness.ConcurrencyLimit(queues.EC2_WAITS, MAX_WAITS))
    fragments: xml_cache.XmlCache = dataclasses.field(default_factory=xml_cache.XmlCache)
    own_network: bool = True
    began: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def project_id(self) -> str:
        return self.caller.user.project_id

    @functools.cached_property
    def vpc(self) -> str:
        """ID of the project's default VPC."""
        return self.ids.one('vpc', ids.derived('vpc', self.project_id))

    def call(self, service: str, method: str, path: str, body: calls.Document | calls.Body | None = None,
             query: calls.Query | None = None, headers: dict[str, str] | None = None, hidden: bool = False) -> Any:
        """See ``calls.Caller.call``."""
        return self.caller.call(service, method, path, body, query, headers, hidden)

    def writes(self) -> None:
        """Announce a write to tables of the EC2 API: handlers call this before each write; it ends a dry run."""
        self.caller.writes()

    def uuid(self, prefix: str, shown: str) -> str:
        """See ``uuids``."""
        return self.uuids(prefix, [shown])[0]

    def uuids(self, prefix: str, given: Collection[str]) -> list[str]:
        """Return the UUIDs of IDs in a request, see ``ids.Ids.uuids``.

        If an ID has no row yet (see SHOWN_BEFORE), search the list of the resources that the caller can see. If IDs of
        several resources have the same digits, the oldest resource is meant.
        """
        try:
            return self.ids.uuids(prefix, given)
        except errors.Ec2Error as error:
            if prefix not in SHOWN_BEFORE or error.code != errors.NOT_FOUND[prefix][0]:
                raise
        service, noun = SHOWN_BEFORE[prefix]
        rows = sorted(self.pages(service, f'/{noun}', noun), key=lambda row: (row.get('created_at') or '', row['id']))
        self.ids.numbers(prefix, [row['id'] for row in rows])
        return self.ids.uuids(prefix, given)

    def find(self, prefix: str, shown: str, service: str, path: str) -> dict[str, Any]:
        """Return the document of a resource that is visible to the caller.

        :param path: path with ``{}`` in place of the UUID
        :raises Ec2Error: the ID is malformed or unknown
        """
        with errors.OnStatus(404, lambda _refused: errors.not_found(prefix, shown)):
            return dict(self.call(service, 'GET', path.format(self.uuid(prefix, shown))))

    def chosen(self, prefix: str, wanted: Sequence[str] | None, service: str, noun: str) -> list[Any]:
        """Return the requested items with all details. Without IDs, or with many, return all items of the project.

        :param noun: used for the path, the key of the list and, without its s, the key of one item
        :raises Ec2Error: a requested item does not exist
        """
        if wanted and len(wanted) <= MAX_SINGLE_READS:
            return [self.find(prefix, shown, service, f'/{noun}/{{}}')[noun.removesuffix('s')]
                    for shown in dict.fromkeys(wanted)]
        return self.pages(service, f'/{noun}/detail', noun)

    def pages(self, service: str, path: str, key: str, query: calls.Query | None = None,
              enough: Callable[[dict[str, Any]], bool] = lambda _last: False,
              headers: dict[str, str] | None = None) -> list[Any]:
        """Return all items of a paginated list.

        :param key: key of the list in the response
        :param query: filters of all pages
        :param enough: function(last item of a page) -> True if further pages are not needed
        """
        found: list[dict[str, Any]] = []
        place: dict[str, Any] = {'limit': PAGE}
        while True:
            document = self.call(service, 'GET', path, query={**(query or {}), **place}, headers=headers)
            rows = document[key]
            found += rows
            links = document.get(f'{key}_links') or []          # links of the network service: next, previous
            more = 'next' in document or any(link['rel'] == 'next' for link in links)
            whole = not rows or len(rows) < PAGE and not more
            if whole or enough(rows[-1]):
                return found
            place = {'limit': PAGE, 'marker': rows[-1]['id']}


Structure = dict[str, Any]        # {name in the model: value} of a structured parameter


class Tag(TypedDict, total=False):
    """A tag in a request."""

    Key: str
    Value: str


class TagSpecification(TypedDict, total=False):
    """Tags of the resources of one type that a request creates."""

    ResourceType: str
    Tags: list[Tag]


class Filter(TypedDict, total=False):
    """A filter of a Describe operation."""

    Name: str
    Values: list[str]


# Supported parameters of all operations. Any: the type differs in operations on attributes.
Given = TypedDict('Given', {
    'AllAvailabilityZones': bool, 'AllRegions': bool, 'AllocationId': str, 'AllocationIds': list[str],
    'AllowReassociation': bool, 'Architecture': str, 'AssociatePublicIpAddress': bool, 'AssociationId': str,
    'Attachment': Structure, 'AttachmentId': str, 'Attribute': str, 'AttributeNames': list[str],
    'AvailabilityZone': str, 'AvailabilityZoneId': str, 'BlockDeviceMappings': list[Structure], 'BootMode': str,
    'CidrBlock': str, 'CidrIp': str, 'ClientToken': str, 'DefaultVersion': str, 'Description': Any,
    'DestinationCidrBlock': str, 'Device': str, 'DeviceIndex': int, 'DhcpConfigurations': list[Structure],
    'DhcpOptionsId': str, 'DhcpOptionsIds': list[str], 'DisableApiStop': Any, 'DisableApiTermination': Any,
    'Domain': str, 'EbsOptimized': Structure, 'EnaSupport': Any, 'EnableDnsHostnames': Structure,
    'EnableDnsSupport': Structure, 'EnableNetworkAddressUsageMetrics': Structure, 'ExecutableUsers': list[str],
    'Filters': list[Filter], 'Force': bool, 'FromPort': int, 'GatewayId': str, 'GroupId': str, 'GroupIds': list[str],
    'GroupName': str, 'GroupNames': list[str], 'Groups': list[str], 'Hibernate': bool, 'HttpEndpoint': str,
    'HttpProtocolIpv6': str, 'HttpPutResponseHopLimit': int, 'HttpTokens': str, 'ImageId': str, 'ImageIds': list[str],
    'ImageLocation': str, 'IncludeAllInstances': bool, 'IncludeDeprecated': bool, 'IncludeDisabled': bool,
    'IncludePublicKey': bool, 'InstanceCategory': str, 'InstanceId': str, 'InstanceIds': list[str],
    'InstanceInitiatedShutdownBehavior': Any, 'InstanceMetadataTags': str, 'InstanceType': Any,
    'InstanceTypes': list[str], 'InternetGatewayId': str, 'InternetGatewayIds': list[str],
    'IpPermissions': list[Structure], 'IpProtocol': str, 'Kernel': Structure, 'KernelId': str, 'KeyFormat': str,
    'KeyName': str, 'KeyNames': list[str], 'KeyPairId': str, 'KeyPairIds': list[str], 'KeyType': str, 'Latest': bool,
    'LaunchPermission': Structure, 'LaunchTemplate': Structure, 'LaunchTemplateData': Structure,
    'LaunchTemplateId': str, 'LaunchTemplateIds': list[str], 'LaunchTemplateName': str,
    'LaunchTemplateNames': list[str], 'LocationType': str, 'MapPublicIpOnLaunch': Structure, 'MaxCount': int,
    'MaxResults': int, 'MaxVersion': str, 'MetadataOptions': Structure, 'MinCount': int, 'MinVersion': str,
    'Name': str, 'NetworkBorderGroup': str, 'NetworkInterfaceId': str, 'NetworkInterfaceIds': list[str],
    'NetworkInterfaces': list[Structure], 'NextToken': str, 'NoReboot': bool, 'OperationType': str,
    'OwnerIds': list[str], 'Owners': list[str], 'Placement': Structure, 'PrivateIpAddress': str,
    'PrivateIpAddresses': list[Structure], 'PublicIp': str, 'PublicIps': list[str], 'PublicKeyMaterial': bytes,
    'Ramdisk': Structure, 'RamdiskId': str, 'RegionNames': list[str], 'Resources': list[str], 'RootDeviceName': str,
    'RouteTableId': str, 'RouteTableIds': list[str], 'SecurityGroupIds': list[str],
    'SecurityGroupRuleDescriptions': list[Structure], 'SecurityGroupRuleIds': list[str],
    'SecurityGroupRules': list[Structure], 'SecurityGroups': list[str], 'Size': int, 'SnapshotId': str,
    'SnapshotIds': list[str], 'SourceDestCheck': Structure, 'SourceSecurityGroupName': str, 'SourceVersion': str,
    'SpreadLevel': str, 'SriovNetSupport': Any, 'Strategy': str, 'SubnetId': str, 'SubnetIds': list[str],
    'TagSpecifications': list[TagSpecification], 'Tags': list[Tag], 'ToPort': int, 'UserData': Any,
    'UserGroups': list[str], 'UserIds': list[str], 'Value': str, 'VersionDescription': str, 'Versions': list[str],
    'VirtualizationType': str, 'VolumeId': str, 'VolumeIds': list[str], 'VolumeType': str, 'VpcId': str,
    'VpcIds': list[str], 'WakeUp': bool, 'ZoneIds': list[str], 'ZoneNames': list[str]}, total=False)
Handler = Callable[[Request, Given], JsonDocument]


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation.

    name       name in EC2's documentation
    handler    (request, given) -> values of the response; keys are names in botocore's model
    takes      supported parameters (names in the model); others are refused
    ignores    accepted parameters without effect
    makes      kind of resource that the operation creates, a key of errors.QUOTA, or None
    """

    name: str
    handler: Handler
    takes: frozenset[str] = frozenset()
    ignores: frozenset[str] = frozenset()
    makes: str | None = None


def row(name: str, handler: Handler, takes: str = '', ignores: str = '', makes: str | None = None) -> Operation:
    """Build an Operation; parameters are separated by spaces."""
    return Operation(name, handler, frozenset(takes.split()), frozenset(ignores.split()), makes)


PAGED = ' Filters MaxResults NextToken'
