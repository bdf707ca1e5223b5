"""Extensions: a list that has not changed since microversions took their place."""
import functools

from nova import exception
from nova.api.params import Query
from nova.api.routes import Route

# alias: name
EXTENSIONS = {
    'NMN': 'Multinic', 'OS-DCF': 'DiskConfig', 'OS-EXT-AZ': 'ExtendedAvailabilityZone',
    'OS-EXT-IMG-SIZE': 'ImageSize', 'OS-EXT-IPS': 'ExtendedIps', 'OS-EXT-IPS-MAC': 'ExtendedIpsMac',
    'OS-EXT-SRV-ATTR': 'ExtendedServerAttributes', 'OS-EXT-STS': 'ExtendedStatus',
    'OS-FLV-DISABLED': 'FlavorDisabled', 'OS-FLV-EXT-DATA': 'FlavorExtraData', 'OS-SCH-HNT': 'SchedulerHints',
    'OS-SRV-USG': 'ServerUsage', 'os-admin-actions': 'AdminActions', 'os-aggregates': 'Aggregates',
    'os-assisted-volume-snapshots': 'AssistedVolumeSnapshots', 'os-attach-interfaces': 'AttachInterfaces',
    'os-availability-zone': 'AvailabilityZone', 'os-baremetal-nodes': 'BareMetalNodes',
    'os-block-device-mapping': 'BlockDeviceMapping',
    'os-block-device-mapping-v2-boot': 'BlockDeviceMappingV2Boot', 'os-config-drive': 'ConfigDrive',
    'os-console-auth-tokens': 'ConsoleAuthTokens', 'os-console-output': 'ConsoleOutput',
    'os-create-backup': 'CreateBackup', 'os-create-server-ext': 'Createserverext',
    'os-deferred-delete': 'DeferredDelete', 'os-evacuate': 'Evacuate', 'os-extended-status': 'ExtendedStatus',
    'os-extended-volumes': 'ExtendedVolumes', 'os-flavor-access': 'FlavorAccess',
    'os-flavor-extra-specs': 'FlavorExtraSpecs', 'os-flavor-manage': 'FlavorManage',
    'os-flavor-rxtx': 'FlavorRxtx', 'os-flavor-swap': 'FlavorSwap', 'os-floating-ip-pools': 'FloatingIpPools',
    'os-floating-ips': 'FloatingIps', 'os-hide-server-addresses': 'HideServerAddresses', 'os-hosts': 'Hosts',
    'os-hypervisor-status': 'HypervisorStatus', 'os-hypervisors': 'Hypervisors',
    'os-instance-actions': 'InstanceActions', 'os-instance_usage_audit_log': 'OSInstanceUsageAuditLog',
    'os-keypairs': 'Keypairs', 'os-lock-server': 'LockServer', 'os-migrate-server': 'MigrateServer',
    'os-migrations': 'Migrations', 'os-multiple-create': 'MultipleCreate', 'os-networks': 'Networks',
    'os-pause-server': 'PauseServer', 'os-personality': 'Personality',
    'os-preserve-ephemeral-rebuild': 'PreserveEphemeralOnRebuild', 'os-quota-class-sets': 'QuotaClasses',
    'os-quota-sets': 'Quotas', 'os-remote-consoles': 'Consoles', 'os-rescue': 'Rescue',
    'os-security-groups': 'SecurityGroups', 'os-server-diagnostics': 'ServerDiagnostics',
    'os-server-external-events': 'ServerExternalEvents', 'os-server-group-quotas': 'ServerGroupQuotas',
    'os-server-groups': 'ServerGroups', 'os-server-list-multi-status': 'ServerListMultiStatus',
    'os-server-password': 'ServerPassword', 'os-server-sort-keys': 'ServerSortKeys',
    'os-server-start-stop': 'ServerStartStop', 'os-services': 'Services', 'os-shelve': 'Shelve',
    'os-simple-tenant-usage': 'SimpleTenantUsage', 'os-suspend-server': 'SuspendServer',
    'os-tenant-networks': 'OSTenantNetworks', 'os-used-limits': 'UsedLimits',
    'os-used-limits-for-admin': 'UsedLimitsForAdmin', 'os-user-data': 'UserData',
    'os-user-quotas': 'UserQuotas', 'os-virtual-interfaces': 'VirtualInterfaces',
    'os-volume-attachment-update': 'VolumeAttachmentUpdate', 'os-volumes': 'Volumes',
    'flavors': 'Flavors', 'image-metadata': 'ImageMetadata', 'image-size': 'ImageSize', 'images': 'Images',
    'ips': 'Ips', 'limits': 'Limits', 'server-metadata': 'ServerMetadata', 'servers': 'Servers',
    'versions': 'Versions',
}
_NAMESPACE = 'https://docs.openstack.org/compute/ext/fake_namespace'
_UPDATED = '2014-12-03T00:00:00Z'
_RULE = 'os_compute_api:extensions'


@functools.cache
def _entries():
    return {alias: {'alias': alias, 'name': name, 'description': f'{name} of the compute API.', 'links': [],
                    'namespace': _NAMESPACE, 'updated': _UPDATED}
            for alias, name in sorted(EXTENSIONS.items())}


def index(req):
    return {'extensions': list(_entries().values())}


def show(req, id):
    if id not in EXTENSIONS:
        raise exception.ExtensionNotFound(alias=id)
    return {'extension': _entries()[id]}


ROUTES = (
    Route('GET', '/extensions', index, policy=_RULE, query=Query(closed=102)),
    Route('GET', '/extensions/{id}', show, policy=_RULE, query=Query(closed=102), errors=(404,)),
)
