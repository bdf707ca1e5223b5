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
    (1, 'start', 'The start: v2.0 semantics with strict JSON-Schema validation'),
    (2, 'keypair_types', 'Keypair type (ssh, x509); create gives 201 (was 200), delete 204 (was 202)'),
    (3, 'extended_attributes',
     'OS-EXT-SRV-ATTR: reservation_id, launch_index, ramdisk_id, kernel_id, hostname, root_device_name, '
     'user_data; delete_on_termination in os-extended-volumes:volumes_attached'),
    (4, 'fixed_ip_reserved', 'Fixed IPs show whether they are reserved'),
    (5, 'ip6_filter', 'The filter ip6 is a list filter for non-admins too'),
    (6, 'remote_consoles', 'POST /servers/{id}/remote-consoles; the four os-get*Console actions end'),
    (7, 'public_flavor_access_conflict', 'Tenant access to a public flavor: 409'),
    (8, 'mks_console', 'Console protocol mks, type webmks'),
    (9, 'locked', 'Servers show locked'),
    (10, 'keypair_user', 'Keypairs: user_id for admins'),
    (11, 'forced_down', 'Services: forced_down'),
    (12, 'virtual_interface_net_id', 'Network id (net_id) on virtual interfaces'),
    (13, 'server_group_owner', 'Server groups show project_id, user_id'),
    (14, 'evacuate_shared_storage_detected', 'Evacuate: onSharedStorage and the adminPass of the response are removed'),
    (15, 'soft_affinity', 'Server group policies soft-affinity, soft-anti-affinity'),
    (16, 'host_status', 'Servers show host_status (policy-guarded)'),
    (17, 'crash_dump', 'Action trigger_crash_dump'),
    (18, 'optional_project_id', 'The project id in the URL is optional'),
    (19, 'description', 'Server description'),
    (20, 'volumes_on_shelved', 'Volumes attach and detach on shelved and shelved-offloaded servers'),
    (21, 'actions_of_deleted', 'Instance actions of deleted servers are readable'),
    (22, 'force_complete', 'POST /servers/{id}/migrations/{mid}/action force_complete'),
    (23, 'server_migrations',
     'List and show /servers/{id}/migrations; migration_type and, for a running live migration, links in '
     'os-migrations'),
    (24, 'abort_live_migration', 'DELETE /servers/{id}/migrations/{mid} aborts a running live migration'),
    (25, 'block_migration_auto',
     'Live migration (os-migrateLive): block_migration may be "auto", disk_over_commit goes'),
    (26, 'server_tags',
     "Server tags (/servers/{id}/tags), at most 50 of at most 60 characters, no '/' nor ','; filters "
     'tags, tags-any, not-tags, not-tags-any'),
    (27, 'version_header', 'The OpenStack-API-Version header form'),
    (28, 'cpu_info_object', 'Hypervisor cpu_info is an object, not a string'),
    (29, 'evacuate_force', 'Evacuate: force; a named host is checked by the scheduler unless forced'),
    (30, 'live_migrate_force', 'Live migrate: the same'),
    (31, 'console_tokens', 'Console tokens: os-console-auth-tokens answers for every console type'),
    (32, 'device_tags', 'Device tag on networks and block_device_mapping_v2 at create'),
    (33, 'hypervisor_paging',
     'Hypervisors: limit and marker; bdm tag is not accepted until 2.42 (a historic mistake)'),
    (34, 'async_live_migration_checks', 'Live-migration checks are asynchronous: they no longer cause 400'),
    (35, 'keypair_paging', 'Keypairs: limit and marker, sorted by name'),
    (36, 'no_proxies',
     'Every proxy to images, networks, volumes, baremetal and fping: 404; network quotas and limits '
     'leave the answers'),
    (37, 'networks_required',
     'Networks is required: a list, "auto" or "none"; network uuid must be a uuid; network tag not '
     'accepted until 2.42'),
    (38, 'strict_status_filter', 'An unknown status filter: 400 for everyone'),
    (39, 'no_image_metadata',
     'Image-metadata proxy: 404; maxImageMeta leaves limits; createImage does not check the metadata '
     'quota'),
    (40, 'usage_paging', 'Simple-tenant-usage: limit and marker'),
    (41, 'aggregate_uuid', 'Aggregate uuid'),
    (42, 'device_tags_again', 'Device tags come back for networks and bdm'),
    (43, 'no_hosts', 'Os-hosts: 404'),
    (44, 'no_address_actions',
     'Actions addFixedIp, removeFixedIp, addFloatingIp, removeFloatingIp and os-virtual-interfaces: 404'),
    (45, 'image_id_in_answer',
     'CreateImage and createBackup answer {"image_id": …} instead of a Location header'),
    (46, 'request_id_header',
     'X-OpenStack-Request-ID besides X-Compute-Request-ID (both are in fact sent always)'),
    (47, 'embedded_flavor',
     "A server embeds its flavor's facts (vcpus, ram, disk, ephemeral, swap, original_name, extra_specs "
     'by policy) instead of id and links'),
    (48, 'standard_diagnostics', 'Diagnostics have one standard form across drivers'),
    (49, 'tagged_attach', 'Tag when attaching an interface or a volume'),
    (50, 'quota_class_server_groups',
     'Quota classes show server_groups, server_group_members; network quotas leave'),
    (51, 'action_events_for_owners',
     'External event volume-extended; instance action events shown to owners (traceback only by policy)'),
    (52, 'tags_at_create', 'Tags at server create'),
    (53, 'uuids_for_services',
     'Services and hypervisors are identified by uuid; PUT /os-services/{uuid}; '
     'hypervisor_hostname_pattern and with_servers queries replace search and servers sub-paths'),
    (54, 'key_at_rebuild', 'key_name at rebuild'),
    (55, 'flavor_description', 'Flavor description; PUT /flavors/{id}'),
    (56, 'migrate_host', 'Host in migrate'),
    (57, 'no_personality', 'Personality goes; user_data at rebuild; injected-file limits and quotas go'),
    (58, 'action_paging', 'Instance actions: limit, marker, changes-since; updated_at'),
    (59, 'migration_paging', 'Os-migrations: limit, marker, changes-since, uuid; unknown query keys 400'),
    (60, 'multiattach', 'Multiattach volumes'),
    (61, 'flavor_extra_specs', 'Flavor answers have extra_specs (by policy)'),
    (62, 'event_hosts', 'Instance action events: host (by policy) and hostId'),
    (63, 'trusted_certificates', 'Trusted_image_certificates (at most 50) at create and rebuild'),
    (64, 'server_group_rules',
     'Server groups: one policy and rules (max_server_per_host) instead of policies and metadata'),
    (65, 'abort_queued_migration', 'Aborting a live migration that is queued or preparing'),
    (66, 'changes_before', 'Changes-before on servers, instance actions, migrations'),
    (67, 'volume_type', 'Volume_type in block_device_mapping_v2'),
    (68, 'no_forced_moves', 'Forced live migration and evacuation end'),
    (69, 'down_cells',
     'A cell that is down yields minimal records (status UNKNOWN) instead of errors or omissions'),
    (70, 'attachment_tags', 'Tag shown on volume attachments and interfaces'),
    (71, 'server_groups_shown', "Server_groups on a single server's answers"),
    (72, 'bandwidth_ports', 'Servers with ports that request bandwidth'),
    (73, 'locked_reason', 'Locked_reason; locked as a filter and sort key; lock takes locked_reason'),
    (74, 'requested_host', 'Host and hypervisor_hostname at create (filters still run)'),
    (75, 'strict_keys',
     'Unknown query or body keys: 400; PUT and rebuild answer the full server; flavor swap default 0 not '
     '""; hypervisor servers always present'),
    (76, 'power_update_event', 'External event power-update'),
    (77, 'unshelve_zone', 'Availability_zone at unshelve'),
    (78, 'topology', 'GET /servers/{id}/topology'),
    (79, 'attach_delete_on_termination', 'Delete_on_termination when attaching a volume'),
    (80, 'migration_owner', 'Migrations show and filter by user_id, project_id'),
    (81, 'image_precache', 'POST /os-aggregates/{id}/images pre-caches images'),
    (82, 'accelerator_event', 'External event accelerator-request-bound'),
    (83, 'more_filters',
     'More list filters for non-admins (availability_zone, config_drive, key_name, created_at, '
     'launched_at, terminated_at, power_state, task_state, vm_state, progress, user_id)'),
    (84, 'event_details', 'A failed action event has details'),
    (85, 'volume_attachment_update', 'PUT …/os-volume_attachments/{id} may change delete_on_termination'),
    (86, 'extra_spec_validation', 'Extra specs of known namespaces are validated'),
    (87, 'rescue_volume_backed', 'Rescue of volume-backed servers'),
    (88, 'hypervisor_uptime_in_detail',
     'Hypervisor detail loses its resource counts (statistics: 404); uptime moves into it'),
    (89, 'attachment_ids', 'Volume attachment: attachment_id, bdm_uuid; id goes'),
    (90, 'hostname', 'Hostname at create, update, rebuild; OS-EXT-SRV-ATTR:hostname shown to all'),
    (91, 'unshelve_host', 'Unshelve to a host; pin or unpin an AZ'),
    (92, 'keypair_import_only', "Keypairs are import-only (public_key required); names may hold '@' and '.'"),
    (93, 'rebuild_volume_backed', 'Rebuild of volume-backed servers with a new image'),
    (94, 'fqdn_hostname', 'Hostname may be an FQDN'),
    (95, 'evacuate_stopped', 'An evacuated server is left stopped on its new host'),
    (96, 'pinned_zone', 'Pinned_availability_zone on servers'),
    (97, 'shares', 'Shares: /servers/{id}/shares'),
    (98, 'image_properties_shown', "Image properties under a server's image"),
    (99, 'spice_direct',
     'Console type spice-direct; tls_port in os-console-auth-tokens; no unknown query keys there'),
    (100, 'hints_shown', 'Scheduler_hints shown on servers'),
    (101, 'async_attach', 'Attaching a volume is asynchronous: 202, no body'),
    (102, 'flavor_name_filter',
     'Flavors: name filter; rxtx_factor and OS-FLV-DISABLED:disabled go; every operation refuses unknown '
     'query keys'),
    (103, 'no_volumes_boot', 'Os-volumes_boot: 404'),
    (104, 'pinned_zone_update',
     'Pinned_availability_zone may be changed by PUT: null unpins, the current zone pins, another zone '
     'is 409'),
)

SINCE = {name: minor for minor, name, _text in HISTORY}
MIN_VERSION = HISTORY[0][0]
MAX_VERSION = HISTORY[-1][0]

LEGACY_HEADER = 'X-OpenStack-Nova-API-Version'

# The new header supports versions from 2.27 on; for older versions the legacy header wins if both are sent.
COMPUTE = Microversions('compute', 2, MIN_VERSION, MAX_VERSION, LEGACY_HEADER, SINCE['version_header'])
VARY = COMPUTE.vary
text, parse, negotiate, headers = COMPUTE.text, COMPUTE.parse, COMPUTE.negotiate, COMPUTE.headers
