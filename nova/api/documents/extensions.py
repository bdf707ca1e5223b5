"""Extensions: the constant list of version 2.1, and the plugins of the deployment."""
import functools

from nova import exception
from nova.api import extensions
from nova.api import request as api_request
from nova.web.params import Query
from nova.web.routes import Route

# alias: name. Also lists removed extensions of version 2.1, because old clients look for them.
EXTENSIONS = {
    'NMN': 'Multinic', 'OS-DCF': 'DiskConfig', 'OS-EXT-AZ': 'ExtendedAvailabilityZone',
    'OS-EXT-IMG-SIZE': 'ImageSize', 'OS-EXT-IPS': 'ExtendedIps', 'OS-EXT-IPS-MAC': 'ExtendedIpsMac',
    'OS-EXT-SRV-ATTR': 'ExtendedServerAttributes', 'OS-EXT-STS': 'ExtendedStatus',
    'OS-EXT-VIF-NET': 'ExtendedVIFNet', 'OS-FLV-DISABLED': 'FlavorDisabled',
    'OS-FLV-EXT-DATA': 'FlavorExtraData', 'OS-SCH-HNT': 'SchedulerHints', 'OS-SRV-USG': 'ServerUsage',
    'os-access-ips': 'AccessIPs', 'os-admin-actions': 'AdminActions', 'os-admin-password': 'AdminPassword',
    'os-agents': 'Agents', 'os-aggregates': 'Aggregates',
    'os-assisted-volume-snapshots': 'AssistedVolumeSnapshots', 'os-attach-interfaces': 'AttachInterfaces',
    'os-availability-zone': 'AvailabilityZone', 'os-baremetal-ext-status': 'BareMetalExtStatus',
    'os-baremetal-nodes': 'BareMetalNodes', 'os-block-device-mapping': 'BlockDeviceMapping',
    'os-block-device-mapping-v2-boot': 'BlockDeviceMappingV2Boot', 'os-cell-capacities': 'CellCapacities',
    'os-cells': 'Cells', 'os-certificates': 'Certificates', 'os-cloudpipe': 'Cloudpipe',
    'os-cloudpipe-update': 'CloudpipeUpdate', 'os-config-drive': 'ConfigDrive',
    'os-console-auth-tokens': 'ConsoleAuthTokens', 'os-console-output': 'ConsoleOutput',
    'os-consoles': 'Consoles', 'os-create-backup': 'CreateBackup', 'os-create-server-ext': 'Createserverext',
    'os-deferred-delete': 'DeferredDelete', 'os-evacuate': 'Evacuate',
    'os-extended-evacuate-find-host': 'ExtendedEvacuateFindHost',
    'os-extended-floating-ips': 'ExtendedFloatingIps', 'os-extended-hypervisors': 'ExtendedHypervisors',
    'os-extended-networks': 'ExtendedNetworks', 'os-extended-quotas': 'ExtendedQuotas',
    'os-extended-rescue-with-image': 'ExtendedRescueWithImage', 'os-extended-services': 'ExtendedServices',
    'os-extended-services-delete': 'ExtendedServicesDelete', 'os-extended-status': 'ExtendedStatus',
    'os-extended-volumes': 'ExtendedVolumes', 'os-fixed-ips': 'FixedIPs', 'os-flavor-access': 'FlavorAccess',
    'os-flavor-extra-specs': 'FlavorExtraSpecs', 'os-flavor-manage': 'FlavorManage',
    'os-flavor-rxtx': 'FlavorRxtx', 'os-flavor-swap': 'FlavorSwap', 'os-floating-ip-dns': 'FloatingIpDns',
    'os-floating-ip-pools': 'FloatingIpPools', 'os-floating-ips': 'FloatingIps',
    'os-floating-ips-bulk': 'FloatingIpsBulk', 'os-fping': 'Fping',
    'os-hide-server-addresses': 'HideServerAddresses', 'os-hosts': 'Hosts',
    'os-hypervisor-status': 'HypervisorStatus', 'os-hypervisors': 'Hypervisors',
    'os-instance-actions': 'InstanceActions', 'os-instance_usage_audit_log': 'OSInstanceUsageAuditLog',
    'os-keypairs': 'Keypairs', 'os-lock-server': 'LockServer', 'os-migrate-server': 'MigrateServer',
    'os-migrations': 'Migrations', 'os-multiple-create': 'MultipleCreate', 'os-networks': 'Networks',
    'os-networks-associate': 'NetworkAssociationSupport', 'os-pause-server': 'PauseServer',
    'os-personality': 'Personality', 'os-preserve-ephemeral-rebuild': 'PreserveEphemeralOnRebuild',
    'os-quota-class-sets': 'QuotaClasses', 'os-quota-sets': 'Quotas', 'os-rescue': 'Rescue',
    'os-security-group-default-rules': 'SecurityGroupDefaultRules', 'os-security-groups': 'SecurityGroups',
    'os-server-diagnostics': 'ServerDiagnostics', 'os-server-external-events': 'ServerExternalEvents',
    'os-server-group-quotas': 'ServerGroupQuotas', 'os-server-groups': 'ServerGroups',
    'os-server-list-multi-status': 'ServerListMultiStatus', 'os-server-password': 'ServerPassword',
    'os-server-sort-keys': 'ServerSortKeys', 'os-server-start-stop': 'ServerStartStop',
    'os-services': 'Services', 'os-shelve': 'Shelve', 'os-simple-tenant-usage': 'SimpleTenantUsage',
    'os-suspend-server': 'SuspendServer', 'os-tenant-networks': 'OSTenantNetworks',
    'os-used-limits': 'UsedLimits', 'os-used-limits-for-admin': 'UsedLimitsForAdmin',
    'os-user-data': 'UserData', 'os-user-quotas': 'UserQuotas', 'os-virtual-interfaces': 'VirtualInterfaces',
    'os-volume-attachment-update': 'VolumeAttachmentUpdate', 'os-volumes': 'Volumes',
}
_NAMESPACE = 'http://docs.openstack.org/compute/ext/fake_xml'
_UPDATED = '2014-12-03T00:00:00Z'
_RULE = 'os_compute_api:extensions'


@functools.cache
def _entries() -> api_request.Document:
    return {alias: {'alias': alias, 'name': name, 'description': f'{name} of the compute API.', 'links': [],
                    'namespace': _NAMESPACE, 'updated': _UPDATED}
            for alias, name in sorted(EXTENSIONS.items())}


def _entry_of(plugin: extensions.V3APIExtensionBase) -> api_request.Document:
    return {'alias': plugin.alias, 'name': plugin.name, 'description': (plugin.__doc__ or '').strip(), 'links': [],
            'namespace': _NAMESPACE, 'updated': _UPDATED}


def _is_shown(req: api_request.Request, plugin: extensions.V3APIExtensionBase) -> bool:
    rule = f'os_compute_api:{plugin.alias}:discoverable'
    return rule not in extensions.load().rules or req.allows(rule)


def index(req: api_request.Request) -> api_request.Document:
    plugins = [plugin for _alias, plugin in sorted(extensions.load().extensions.items()) if _is_shown(req, plugin)]
    return {'extensions': [*_entries().values(), *map(_entry_of, plugins)]}


def show(req: api_request.Request, id: str) -> api_request.Document:
    if id in EXTENSIONS:
        return {'extension': _entries()[id]}
    plugin = extensions.find(id)
    if not _is_shown(req, plugin):
        raise exception.ExtensionNotFound(alias=id)
    return {'extension': _entry_of(plugin)}


ROUTES = (
    Route('GET', '/extensions', index, policy=_RULE, query=Query(closed=102), any_scope=True),
    Route('GET', '/extensions/{id}', show, policy=_RULE, query=Query(closed=102), errors=(404,), any_scope=True),
)
