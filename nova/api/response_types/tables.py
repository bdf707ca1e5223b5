"""Mapping of operations to the Field tables of their responses."""
import dataclasses

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
from nova.api.projects import quota_sets
from nova.api.proxies import images
from nova.api.proxies import networks
from nova.api.proxies import volumes as volume_proxies
from nova.api.server_actions import guest
from nova.api.servers import fields as server_fields
from nova.api.servers import instance_actions
from nova.web.fields import Fields


@dataclasses.dataclass(frozen=True)
class Shown:
    """A table below a key of the response.

    many   the key has a list of rows
    """

    key: str
    table: Fields
    many: bool = False

    def at(self, version: int) -> dict[str, str]:
        """Return {path: type in words} at a version."""
        prefix = self.key + ('[].' if self.many else '.')
        found = {prefix + place: words for place, words in self.table.described(version).items()}
        if self.many:
            return {self.key: 'array required', self.key + '[]': 'object', **found}
        return {self.key: 'object required', **found}


# operation without parameter names
TABLES = {
    'GET /flavors': Shown('flavors', flavors.SUMMARY, many=True),
    'POST /flavors': Shown('flavor', flavors.VIEW),
    'GET /flavors/detail': Shown('flavors', flavors.VIEW, many=True),
    'GET /flavors/{}': Shown('flavor', flavors.VIEW),
    'PUT /flavors/{}': Shown('flavor', flavors.VIEW),
    'GET /images': Shown('images', images.SUMMARY, many=True),
    'GET /images/detail': Shown('images', images.VIEW, many=True),
    'GET /images/{}': Shown('image', images.VIEW),
    'GET /os-aggregates': Shown('aggregates', aggregates.VIEW, many=True),
    'POST /os-aggregates': Shown('aggregate', aggregates._BASE),
    'GET /os-aggregates/{}': Shown('aggregate', aggregates.VIEW),
    'PUT /os-aggregates/{}': Shown('aggregate', aggregates.VIEW),
    'POST /os-aggregates/{}/action add_host': Shown('aggregate', aggregates.VIEW),
    'POST /os-aggregates/{}/action remove_host': Shown('aggregate', aggregates.VIEW),
    'POST /os-aggregates/{}/action set_metadata': Shown('aggregate', aggregates.VIEW),
    'GET /os-hosts': Shown('hosts', hosts.VIEW, many=True),
    'GET /os-hypervisors': Shown('hypervisors', hypervisors.BASE, many=True),
    'GET /os-hypervisors/detail': Shown('hypervisors', hypervisors.VIEW, many=True),
    'GET /os-hypervisors/statistics': Shown('hypervisor_statistics', hypervisors.STATISTICS),
    'GET /os-hypervisors/{}': Shown('hypervisor', hypervisors.VIEW),
    'GET /os-hypervisors/{}/search': Shown('hypervisors', hypervisors.BASE, many=True),
    'GET /os-hypervisors/{}/servers': Shown('hypervisors', hypervisors.SUMMARY, many=True),
    'GET /os-hypervisors/{}/uptime': Shown('hypervisor', hypervisors.UPTIME),
    'POST /os-keypairs': Shown('keypair', keypairs.CREATED),
    'GET /os-keypairs/{}': Shown('keypair', keypairs.VIEW),
    'GET /os-migrations': Shown('migrations', migrations.MIGRATION, many=True),
    'GET /os-networks': Shown('networks', networks.ADMIN_VIEW, many=True),
    'GET /os-networks/{}': Shown('network', networks.ADMIN_VIEW),
    'GET /os-quota-class-sets/{}': Shown('quota_class_set', quota_sets.CLASS_LIMITS),
    'PUT /os-quota-class-sets/{}': Shown('quota_class_set', quota_sets.CLASS_LIMITS),
    'GET /os-quota-sets/{}': Shown('quota_set', quota_sets.LIMITS),
    'PUT /os-quota-sets/{}': Shown('quota_set', quota_sets.LIMITS),
    'GET /os-quota-sets/{}/defaults': Shown('quota_set', quota_sets.LIMITS),
    'GET /os-server-groups': Shown('server_groups', server_groups.VIEW, many=True),
    'POST /os-server-groups': Shown('server_group', server_groups.VIEW),
    'GET /os-server-groups/{}': Shown('server_group', server_groups.VIEW),
    'GET /os-services': Shown('services', services.VIEW, many=True),
    'PUT /os-services/{}': Shown('service', services.VIEW),
    'GET /os-snapshots': Shown('snapshots', volume_proxies.SNAPSHOT, many=True),
    'POST /os-snapshots': Shown('snapshot', volume_proxies.SNAPSHOT),
    'GET /os-snapshots/detail': Shown('snapshots', volume_proxies.SNAPSHOT, many=True),
    'GET /os-snapshots/{}': Shown('snapshot', volume_proxies.SNAPSHOT),
    'GET /os-volumes': Shown('volumes', volume_proxies.VOLUME, many=True),
    'POST /os-volumes': Shown('volume', volume_proxies.VOLUME),
    'GET /os-volumes/detail': Shown('volumes', volume_proxies.VOLUME, many=True),
    'GET /os-volumes/{}': Shown('volume', volume_proxies.VOLUME),
    'GET /os-tenant-networks': Shown('networks', networks.TENANT_VIEW, many=True),
    'GET /os-tenant-networks/{}': Shown('network', networks.TENANT_VIEW),
    'GET /servers': Shown('servers', server_fields.INDEX, many=True),
    'GET /servers/detail': Shown('servers', server_fields.DETAIL, many=True),
    'GET /servers/{}': Shown('server', server_fields.SHOW),
    'PUT /servers/{}': Shown('server', server_fields.UPDATE),
    'POST /servers/{}/action rebuild': Shown('server', server_fields.REBUILD),
    'GET /servers/{}/migrations': Shown('migrations', migrations.SERVER_MIGRATION, many=True),
    'GET /servers/{}/migrations/{}': Shown('migration', migrations.SERVER_MIGRATION),
    'GET /servers/{}/os-instance-actions': Shown('instanceActions', instance_actions.ACTION, many=True),
    'GET /servers/{}/os-instance-actions/{}': Shown('instanceAction', instance_actions.ACTION),
    'GET /servers/{}/os-interface': Shown('interfaceAttachments', interfaces.VIEW, many=True),
    'POST /servers/{}/os-interface': Shown('interfaceAttachment', interfaces.VIEW),
    'GET /servers/{}/os-interface/{}': Shown('interfaceAttachment', interfaces.VIEW),
    'GET /servers/{}/os-volume_attachments': Shown('volumeAttachments', volumes.VIEW, many=True),
    'GET /servers/{}/os-volume_attachments/{}': Shown('volumeAttachment', volumes.VIEW),
    'GET /servers/{}/shares': Shown('shares', shares.WHOLE, many=True),
    'POST /servers/{}/shares': Shown('share', shares.WHOLE),
    'GET /servers/{}/shares/{}': Shown('share', shares.WHOLE),
    'GET /servers/{}/topology': Shown('nodes', guest.NODE, many=True),
    'POST /os-instance-categories': Shown('instance_category', instance_categories.VIEW),
    'GET /os-instance-categories/{}': Shown('instance_category', instance_categories.VIEW),
    'PUT /os-instance-categories/{}': Shown('instance_category', instance_categories.VIEW),
    'GET /os-instance-categories': Shown('instance_categories', instance_categories.VIEW, many=True),
    'PUT /os-server-groups/{}': Shown('server_group', server_groups.VIEW),
    'POST /os-aggregates/{}/action os-host-maintenance:start': Shown('os-host-maintenance', maintenance.VIEW),
    'POST /os-aggregates/{}/action os-host-maintenance:stop': Shown('os-host-maintenance', maintenance.VIEW),
    'GET /os-aggregates/{}/os-host-maintenance': Shown('os-host-maintenance', maintenance.VIEW, many=True),
    'GET /os-aggregates/{}/os-host-maintenance/{}': Shown('os-host-maintenance', maintenance.VIEW),
    'GET /os-metrics': Shown('metrics', process_metrics.METRIC, many=True),
    'GET /os-cell-mappings': Shown('cell_mappings', cells.VIEW, many=True),
    'GET /os-audit': Shown('audit_records', audit.RECORD, many=True),
}
