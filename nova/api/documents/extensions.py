"""Extensions: the constant list of version 2.1, and the plugins of the deployment."""
import functools

from nova import exception
from nova.api import extensions
from nova.api import request as api_request
from nova.json_types import JsonDocument
from nova.web.params import Query
from nova.web.routes import Route

# Extensions of version 2.1 whose name is their alias in camel case. Removed extensions are listed because old clients
# look for them.
_ALIASES = '''
    os-admin-actions os-admin-password os-agents os-aggregates os-assisted-volume-snapshots os-attach-interfaces
    os-availability-zone os-block-device-mapping os-block-device-mapping-v2-boot os-cell-capacities os-cells
    os-certificates os-cloudpipe os-cloudpipe-update os-config-drive os-console-auth-tokens os-console-output
    os-consoles os-create-backup os-deferred-delete os-evacuate os-extended-evacuate-find-host os-extended-floating-ips
    os-extended-hypervisors os-extended-networks os-extended-quotas os-extended-rescue-with-image os-extended-services
    os-extended-services-delete os-extended-status os-extended-volumes os-flavor-access os-flavor-extra-specs
    os-flavor-manage os-flavor-rxtx os-flavor-swap os-floating-ip-dns os-floating-ip-pools os-floating-ips
    os-floating-ips-bulk os-fping os-hide-server-addresses os-hosts os-hypervisor-status os-hypervisors
    os-instance-actions os-keypairs os-lock-server os-migrate-server os-migrations os-multiple-create os-networks
    os-pause-server os-personality os-rescue os-security-group-default-rules os-security-groups os-server-diagnostics
    os-server-external-events os-server-group-quotas os-server-groups os-server-list-multi-status os-server-password
    os-server-sort-keys os-server-start-stop os-services os-shelve os-simple-tenant-usage os-suspend-server
    os-used-limits os-used-limits-for-admin os-user-data os-user-quotas os-virtual-interfaces
    os-volume-attachment-update os-volumes
'''.split()
# alias: name
EXTENSIONS = {
    **{alias: alias.removeprefix('os-').title().replace('-', '') for alias in _ALIASES},
    'NMN': 'Multinic', 'OS-DCF': 'DiskConfig', 'OS-EXT-AZ': 'ExtendedAvailabilityZone', 'OS-EXT-IMG-SIZE': 'ImageSize',
    'OS-EXT-IPS': 'ExtendedIps', 'OS-EXT-IPS-MAC': 'ExtendedIpsMac', 'OS-EXT-SRV-ATTR': 'ExtendedServerAttributes',
    'OS-EXT-STS': 'ExtendedStatus', 'OS-EXT-VIF-NET': 'ExtendedVIFNet', 'OS-FLV-DISABLED': 'FlavorDisabled',
    'OS-FLV-EXT-DATA': 'FlavorExtraData', 'OS-SCH-HNT': 'SchedulerHints', 'OS-SRV-USG': 'ServerUsage',
    'os-access-ips': 'AccessIPs', 'os-baremetal-ext-status': 'BareMetalExtStatus',
    'os-baremetal-nodes': 'BareMetalNodes', 'os-create-server-ext': 'Createserverext', 'os-fixed-ips': 'FixedIPs',
    'os-instance_usage_audit_log': 'OSInstanceUsageAuditLog', 'os-networks-associate': 'NetworkAssociationSupport',
    'os-preserve-ephemeral-rebuild': 'PreserveEphemeralOnRebuild', 'os-quota-class-sets': 'QuotaClasses',
    'os-quota-sets': 'Quotas', 'os-tenant-networks': 'OSTenantNetworks',
}
_NAMESPACE = 'http://docs.openstack.org/compute/ext/fake_xml'
_UPDATED = '2014-12-03T00:00:00Z'
_RULE = 'os_compute_api:extensions'


@functools.cache
def _entries() -> JsonDocument:
    return {alias: {'alias': alias, 'name': name, 'description': f'{name} of the compute API.', 'links': [],
                    'namespace': _NAMESPACE, 'updated': _UPDATED}
            for alias, name in sorted(EXTENSIONS.items())}


def _entry_of(plugin: extensions.V3APIExtensionBase) -> JsonDocument:
    return {'alias': plugin.alias, 'name': plugin.name, 'description': (plugin.__doc__ or '').strip(), 'links': [],
            'namespace': _NAMESPACE, 'updated': _UPDATED}


def _is_shown(req: api_request.Request, plugin: extensions.V3APIExtensionBase) -> bool:
    rule = f'os_compute_api:{plugin.alias}:discoverable'
    return rule not in extensions.load().rules or req.allows(rule)


def index(req: api_request.Request) -> JsonDocument:
    plugins = [plugin for _alias, plugin in sorted(extensions.load().extensions.items()) if _is_shown(req, plugin)]
    return {'extensions': [*_entries().values(), *map(_entry_of, plugins)]}


def show(req: api_request.Request, id: str) -> JsonDocument:
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
