"""Mapping of operations to the tables of Field objects that build their responses."""
import dataclasses
from typing import Any

from nova.api.attachments import interfaces
from nova.api.attachments import shares
from nova.api.attachments import volumes
from nova.api.flavors import flavors
from nova.api.groups import instance_categories
from nova.api.groups import server_groups
from nova.api.hosts import aggregates
from nova.api.hosts import cells
from nova.api.hosts import hosts
from nova.api.hosts import hypervisors
from nova.api.hosts import maintenance
from nova.api.hosts import migrations
from nova.api.hosts import process_metrics
from nova.api.hosts import services
from nova.api.projects import audit
from nova.api.projects import keypairs
from nova.api.projects import permissions
from nova.api.projects import quota_sets
from nova.api.proxies import images
from nova.api.proxies import networks
from nova.api.proxies import volumes as volume_proxies
from nova.api.server_actions import guest
from nova.api.servers import fields as server_fields
from nova.api.servers import instance_actions
from nova.api.servers import usage_series
from nova.web.fields import Fields


@dataclasses.dataclass(frozen=True)
class Shown:
    """Table that describes the value of a key of the response.

    many   whether the value is a list of rows
    """

    key: str
    table: Fields
    many: bool = False

    def at(self, version: int) -> dict[str, str]:
        """Return {path: type} at a version, with types in the notation of nova.web.json_types."""
        prefix = self.key + ('[].' if self.many else '.')
        found = {prefix + place: words for place, words in self.table.described(version).items()}
        if self.many:
            return {self.key: 'array required', self.key + '[]': 'object', **found}
        return {self.key: 'object required', **found}


# (key of the response, table, operations without parameter names)
_OBJECTS: tuple[tuple[Any, ...], ...] = (
    ('flavor', flavors.VIEW, 'POST /flavors', 'GET /flavors/{}', 'PUT /flavors/{}'),
    ('image', images.VIEW, 'GET /images/{}'),
    ('aggregate', aggregates._BASE, 'POST /os-aggregates'),
    ('aggregate', aggregates.VIEW, 'GET /os-aggregates/{}', 'PUT /os-aggregates/{}',
     *(f'POST /os-aggregates/{{}}/action {action}' for action in ('add_host', 'remove_host', 'set_metadata'))),
    ('hypervisor_statistics', hypervisors.STATISTICS, 'GET /os-hypervisors/statistics'),
    ('hypervisor', hypervisors.VIEW, 'GET /os-hypervisors/{}'),
    ('hypervisor', hypervisors.UPTIME, 'GET /os-hypervisors/{}/uptime'),
    ('keypair', keypairs.CREATED, 'POST /os-keypairs'),
    ('keypair', keypairs.VIEW, 'GET /os-keypairs/{}'),
    ('network', networks.ADMIN_VIEW, 'GET /os-networks/{}'),
    ('network', networks.TENANT_VIEW, 'GET /os-tenant-networks/{}'),
    ('quota_class_set', quota_sets.CLASS_LIMITS, 'GET /os-quota-class-sets/{}', 'PUT /os-quota-class-sets/{}'),
    ('quota_set', quota_sets.LIMITS, 'GET /os-quota-sets/{}', 'PUT /os-quota-sets/{}',
     'GET /os-quota-sets/{}/defaults'),
    ('server_group', server_groups.VIEW, 'POST /os-server-groups', 'GET /os-server-groups/{}',
     'PUT /os-server-groups/{}'),
    ('service', services.VIEW, 'PUT /os-services/{}'),
    ('snapshot', volume_proxies.SNAPSHOT, 'POST /os-snapshots', 'GET /os-snapshots/{}'),
    ('volume', volume_proxies.VOLUME, 'POST /os-volumes', 'GET /os-volumes/{}'),
    ('metrics', usage_series.METRICS, 'GET /servers/{}/os-metrics', 'GET /os-hypervisors/{}/os-metrics'),
    ('server', server_fields.SHOW, 'GET /servers/{}'),
    ('server', server_fields.UPDATE, 'PUT /servers/{}'),
    ('server', server_fields.REBUILD, 'POST /servers/{}/action rebuild'),
    ('migration', migrations.SERVER_MIGRATION, 'GET /servers/{}/migrations/{}'),
    ('instanceAction', instance_actions.ACTION, 'GET /servers/{}/os-instance-actions/{}'),
    ('interfaceAttachment', interfaces.VIEW, 'POST /servers/{}/os-interface', 'GET /servers/{}/os-interface/{}'),
    ('volumeAttachment', volumes.VIEW, 'GET /servers/{}/os-volume_attachments/{}'),
    ('share', shares.WHOLE, 'POST /servers/{}/shares', 'GET /servers/{}/shares/{}'),
    ('instance_category', instance_categories.VIEW, 'POST /os-instance-categories', 'GET /os-instance-categories/{}',
     'PUT /os-instance-categories/{}'),
    ('os-host-maintenance', maintenance.VIEW, 'POST /os-aggregates/{}/action os-host-maintenance:start',
     'POST /os-aggregates/{}/action os-host-maintenance:stop', 'GET /os-aggregates/{}/os-host-maintenance/{}'),
)
_LISTS: tuple[tuple[Any, ...], ...] = (
    ('flavors', flavors.SUMMARY, 'GET /flavors'),
    ('flavors', flavors.VIEW, 'GET /flavors/detail'),
    ('images', images.SUMMARY, 'GET /images'),
    ('images', images.VIEW, 'GET /images/detail'),
    ('aggregates', aggregates.VIEW, 'GET /os-aggregates'),
    ('hosts', hosts.VIEW, 'GET /os-hosts'),
    ('hypervisors', hypervisors.BASE, 'GET /os-hypervisors', 'GET /os-hypervisors/{}/search'),
    ('hypervisors', hypervisors.VIEW, 'GET /os-hypervisors/detail'),
    ('hypervisors', hypervisors.SUMMARY, 'GET /os-hypervisors/{}/servers'),
    ('migrations', migrations.MIGRATION, 'GET /os-migrations'),
    ('networks', networks.ADMIN_VIEW, 'GET /os-networks'),
    ('networks', networks.TENANT_VIEW, 'GET /os-tenant-networks'),
    ('server_groups', server_groups.VIEW, 'GET /os-server-groups'),
    ('services', services.VIEW, 'GET /os-services'),
    ('snapshots', volume_proxies.SNAPSHOT, 'GET /os-snapshots', 'GET /os-snapshots/detail'),
    ('volumes', volume_proxies.VOLUME, 'GET /os-volumes', 'GET /os-volumes/detail'),
    ('servers', server_fields.INDEX, 'GET /servers'),
    ('servers', server_fields.DETAIL, 'GET /servers/detail'),
    ('migrations', migrations.SERVER_MIGRATION, 'GET /servers/{}/migrations'),
    ('instanceActions', instance_actions.ACTION, 'GET /servers/{}/os-instance-actions'),
    ('interfaceAttachments', interfaces.VIEW, 'GET /servers/{}/os-interface'),
    ('volumeAttachments', volumes.VIEW, 'GET /servers/{}/os-volume_attachments'),
    ('shares', shares.WHOLE, 'GET /servers/{}/shares'),
    ('nodes', guest.NODE, 'GET /servers/{}/topology'),
    ('instance_categories', instance_categories.VIEW, 'GET /os-instance-categories'),
    ('os-host-maintenance', maintenance.VIEW, 'GET /os-aggregates/{}/os-host-maintenance'),
    ('metrics', process_metrics.METRIC, 'GET /os-metrics'),
    ('permissions', permissions.PERMISSION, 'GET /os-permissions'),
    ('cell_mappings', cells.VIEW, 'GET /os-cell-mappings'),
    ('audit_records', audit.RECORD, 'GET /os-audit'),
)
TABLES = {operation: Shown(key, table, many) for many, rows in ((False, _OBJECTS), (True, _LISTS))
          for key, table, *operations in rows for operation in operations}
