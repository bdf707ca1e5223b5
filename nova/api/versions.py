"""Microversions of the compute API, one row each.

The newest version, the version document and the documentation are derived from HISTORY. Code tests a behaviour by its
name: ``req.has('keypair_import_only')``.
"""
from nova.web.versions import HEADER
from nova.web.versions import Microversions

__all__ = ('COMPUTE', 'HEADER', 'HISTORY', 'LEGACY_HEADER', 'MAX_VERSION', 'MIN_VERSION', 'SINCE', 'VARY', 'headers',
           'negotiate', 'parse', 'text')

# (minor version, name of the behaviour, change)
HISTORY = (
    (1, 'start', 'Initial version: semantics of v2.0 with strict JSON-Schema validation'),
    (2, 'keypair_types', 'Keypair type (ssh, x509); create returns 201 (was 200), delete 204 (was 202)'),
    (3, 'extended_attributes',
     'OS-EXT-SRV-ATTR adds reservation_id, launch_index, ramdisk_id, kernel_id, hostname, root_device_name, '
     'user_data; delete_on_termination in os-extended-volumes:volumes_attached'),
    (4, 'fixed_ip_reserved', 'Fixed IPs show whether they are reserved'),
    (5, 'ip6_filter', 'Non-admins may also filter server lists by ip6'),
    (6, 'remote_consoles', 'POST /servers/{id}/remote-consoles replaces the four os-get*Console actions'),
    (7, 'public_flavor_access_conflict', 'Adding tenant access to a public flavor returns 409'),
    (8, 'mks_console', 'Console protocol mks, type webmks'),
    (9, 'locked', 'Servers show locked'),
    (10, 'keypair_user', 'Admins may use user_id for keypairs of other users'),
    (11, 'forced_down', 'Services show forced_down, which admins may set'),
    (12, 'virtual_interface_net_id', 'Network id (net_id) on virtual interfaces'),
    (13, 'server_group_owner', 'Server groups show project_id, user_id'),
    (14, 'evacuate_shared_storage_detected',
     'Evacuate removes onSharedStorage from the request and adminPass from the response'),
    (15, 'soft_affinity', 'Server group policies soft-affinity, soft-anti-affinity'),
    (16, 'host_status', 'Servers show host_status (policy-guarded)'),
    (17, 'crash_dump', 'Action trigger_crash_dump'),
    (18, 'optional_project_id', 'The project id in the URL is optional'),
    (19, 'description', 'Server description'),
    (20, 'volumes_on_shelved', 'Volumes can be attached to and detached from shelved and shelved-offloaded servers'),
    (21, 'actions_of_deleted', 'Instance actions of deleted servers are readable'),
    (22, 'force_complete', 'POST /servers/{id}/migrations/{mid}/action: force_complete for live migrations'),
    (23, 'server_migrations',
     'List and show /servers/{id}/migrations; migration_type and, for a running live migration, links in '
     'os-migrations'),
    (24, 'abort_live_migration', 'DELETE /servers/{id}/migrations/{mid} aborts a running live migration'),
    (25, 'block_migration_auto',
     'Live migration (os-migrateLive): block_migration may be "auto"; disk_over_commit is removed'),
    (26, 'server_tags',
     "Server tags (/servers/{id}/tags), at most 50 of at most 60 characters, no '/' nor ','; filters "
     'tags, tags-any, not-tags, not-tags-any'),
    (27, 'version_header', 'The OpenStack-API-Version header form'),
    (28, 'cpu_info_object', 'Hypervisor cpu_info is an object, not a string'),
    (29, 'evacuate_force', 'Evacuate: force; the scheduler checks a requested host unless force is set'),
    (30, 'live_migrate_force', 'Live migration: force; the scheduler checks a requested host unless force is set'),
    (31, 'console_tokens', 'os-console-auth-tokens supports every console type'),
    (32, 'device_tags', 'Device tag on networks and block_device_mapping_v2 at create'),
    (33, 'hypervisor_paging',
     'Hypervisors: limit and marker; block_device_mapping_v2 accepts no tag until 2.42 (a historic mistake)'),
    (34, 'async_live_migration_checks', 'Live-migration checks are asynchronous and no longer cause 400'),
    (35, 'keypair_paging', 'Keypairs: limit and marker, sorted by name'),
    (36, 'no_proxies',
     'Proxies for images, networks, volumes, baremetal and fping return 404; responses omit network '
     'quotas and limits'),
    (37, 'networks_required',
     'Networks is required: a list, "auto" or "none"; network uuid must be a uuid; networks accept no tag '
     'until 2.42'),
    (38, 'strict_status_filter', 'An unknown status filter returns 400 for all users'),
    (39, 'no_image_metadata',
     'The image-metadata proxy returns 404; limits omit maxImageMeta; createImage does not check the '
     'metadata quota'),
    (40, 'usage_paging', 'Simple-tenant-usage: limit and marker'),
    (41, 'aggregate_uuid', 'Aggregates show uuid'),
    (42, 'device_tags_again', 'Networks and block_device_mapping_v2 accept device tags again'),
    (43, 'no_hosts', 'os-hosts returns 404'),
    (44, 'no_address_actions',
     'Actions addFixedIp, removeFixedIp, addFloatingIp, removeFloatingIp and os-virtual-interfaces return 404'),
    (45, 'image_id_in_answer',
     'createImage and createBackup return {"image_id": …} instead of a Location header'),
    (46, 'request_id_header',
     'X-OpenStack-Request-ID in addition to X-Compute-Request-ID (this API always sends both)'),
    (47, 'embedded_flavor',
     "A server embeds its flavor's properties (vcpus, ram, disk, ephemeral, swap, original_name, extra_specs "
     'by policy) instead of id and links'),
    (48, 'standard_diagnostics', 'Diagnostics have a standard format for all drivers'),
    (49, 'tagged_attach', 'Tag when attaching an interface or a volume'),
    (50, 'quota_class_server_groups',
     'Quota classes show server_groups and server_group_members, and omit network quotas'),
    (51, 'action_events_for_owners',
     'External event volume-extended; owners see instance action events (traceback only by policy)'),
    (52, 'tags_at_create', 'Tags at server create'),
    (53, 'uuids_for_services',
     'Services and hypervisors are identified by uuid; PUT /os-services/{uuid}; queries '
     'hypervisor_hostname_pattern and with_servers replace the sub-paths search and servers'),
    (54, 'key_at_rebuild', 'key_name at rebuild'),
    (55, 'flavor_description', 'Flavor description; PUT /flavors/{id}'),
    (56, 'migrate_host', 'Migrate accepts host'),
    (57, 'no_personality',
     'Personality and the limits and quotas of injected files are removed; rebuild accepts user_data'),
    (58, 'action_paging', 'Instance actions: limit, marker, changes-since; updated_at'),
    (59, 'migration_paging', 'os-migrations: limit, marker, changes-since, uuid; unknown query keys return 400'),
    (60, 'multiattach', 'Multiattach volumes'),
    (61, 'flavor_extra_specs', 'Flavor responses contain extra_specs (by policy)'),
    (62, 'event_hosts', 'Instance action events: host (by policy) and hostId'),
    (63, 'trusted_certificates', 'Create and rebuild accept trusted_image_certificates (at most 50)'),
    (64, 'server_group_rules',
     'Server groups: one policy and rules (max_server_per_host) instead of policies and metadata'),
    (65, 'abort_queued_migration', 'A live migration that is queued or preparing can be aborted'),
    (66, 'changes_before', 'Filter changes-before for servers, instance actions and migrations'),
    (67, 'volume_type', 'block_device_mapping_v2 accepts volume_type'),
    (68, 'no_forced_moves', 'Live migration and evacuation no longer accept force'),
    (69, 'down_cells',
     'Servers in a cell that is down are shown as minimal records (status UNKNOWN) instead of errors or omissions'),
    (70, 'attachment_tags', 'Volume attachments and interfaces show tag'),
    (71, 'server_groups_shown', 'Responses for a single server contain server_groups'),
    (72, 'bandwidth_ports', 'Servers with ports that request bandwidth'),
    (73, 'locked_reason', 'Lock accepts locked_reason, which servers show; locked as a filter and sort key'),
    (74, 'requested_host', 'Create accepts host and hypervisor_hostname (filters still run)'),
    (75, 'strict_keys',
     'Unknown query or body keys return 400; PUT and rebuild return the full server; the default of flavor swap '
     'is 0, not ""; hypervisors always contain servers'),
    (76, 'power_update_event', 'External event power-update'),
    (77, 'unshelve_zone', 'Unshelve accepts availability_zone'),
    (78, 'topology', 'GET /servers/{id}/topology'),
    (79, 'attach_delete_on_termination', 'Attaching a volume accepts delete_on_termination'),
    (80, 'migration_owner', 'Migrations show user_id and project_id, and can be filtered by them'),
    (81, 'image_precache', 'POST /os-aggregates/{id}/images pre-caches images'),
    (82, 'accelerator_event', 'External event accelerator-request-bound'),
    (83, 'more_filters',
     'More list filters for non-admins (availability_zone, config_drive, key_name, created_at, '
     'launched_at, terminated_at, power_state, task_state, vm_state, progress, user_id)'),
    (84, 'event_details', 'Failed instance action events contain details'),
    (85, 'volume_attachment_update', 'PUT …/os-volume_attachments/{id} may change delete_on_termination'),
    (86, 'extra_spec_validation', 'Extra specs of known namespaces are validated'),
    (87, 'rescue_volume_backed', 'Rescue of volume-backed servers'),
    (88, 'hypervisor_uptime_in_detail',
     'Hypervisor details omit resource counts (statistics returns 404) and contain uptime'),
    (89, 'attachment_ids', 'Volume attachments: attachment_id and bdm_uuid replace id'),
    (90, 'hostname', 'Create, update and rebuild accept hostname; all users see OS-EXT-SRV-ATTR:hostname'),
    (91, 'unshelve_host', 'Unshelve accepts host, and can pin or unpin an availability zone'),
    (92, 'keypair_import_only', "Keypairs are import-only (public_key required); names may contain '@' and '.'"),
    (93, 'rebuild_volume_backed', 'Rebuild of volume-backed servers with a new image'),
    (94, 'fqdn_hostname', 'Hostname may be an FQDN'),
    (95, 'evacuate_stopped', 'An evacuated server remains stopped on its new host'),
    (96, 'pinned_zone', 'Servers show pinned_availability_zone'),
    (97, 'shares', 'Shares: /servers/{id}/shares'),
    (98, 'image_properties_shown', "Servers show the properties of their image"),
    (99, 'spice_direct',
     'Console type spice-direct; os-console-auth-tokens shows tls_port and refuses unknown query keys'),
    (100, 'hints_shown', 'Servers show scheduler_hints'),
    (101, 'async_attach', 'Attaching a volume is asynchronous and returns 202 without a body'),
    (102, 'flavor_name_filter',
     'Flavors: name filter; rxtx_factor and OS-FLV-DISABLED:disabled are removed; every operation refuses '
     'unknown query keys'),
    (103, 'no_volumes_boot', 'Os-volumes_boot: 404'),
    (104, 'pinned_zone_update',
     'Pinned_availability_zone may be changed by PUT: null unpins, the current zone pins, another zone '
     'is 409'),
)

SINCE = {name: minor for minor, name, _text in HISTORY}
MIN_VERSION = HISTORY[0][0]
MAX_VERSION = HISTORY[-1][0]

LEGACY_HEADER = 'X-OpenStack-Nova-API-Version'

# Version 2.27 introduced OpenStack-API-Version. If this header asks for less than 2.27, the legacy header is used.
COMPUTE = Microversions('compute', 2, MIN_VERSION, MAX_VERSION, LEGACY_HEADER, SINCE['version_header'])
VARY = COMPUTE.vary
text, parse, negotiate, headers = COMPUTE.text, COMPUTE.parse, COMPUTE.negotiate, COMPUTE.headers
