"""What tests share with nova/tests/contract/test_service_policies.py."""
# API: project whose documented rules it has
DOCUMENTED = {'image': 'glance', 'identity': 'keystone', 'block storage': 'cinder', 'network': 'neutron',
              'key manager': 'barbican'}
# API: {rule: reason for a default that is not the documented one}
DIFFERENT = {
    'network': dict.fromkeys(
        ('create_port:device_id', 'create_port:device_owner', 'update_port:device_id', 'update_port:device_owner'),
        'The service acts on both: with them a port is an interface of a router, or of a server of another user.') | {
            'create_port': 'In Neutron a reader may create a port in a shared network.',
            'get_quota': 'Clients and dashboards show a member the quotas of its project.'},
    'block storage': dict.fromkeys((
        'volume:attachment_create', 'volume:attachment_update', 'volume:attachment_delete',
        'volume:attachment_complete', 'volume_extension:volume_actions:begin_detaching',
        'volume_extension:volume_actions:roll_detaching', 'volume:reimage_reserved',
        'volume_extension:volume_actions:attach', 'volume_extension:volume_actions:detach',
        'volume_extension:volume_actions:reserve', 'volume_extension:volume_actions:unreserve',
        'snapshot_extension:snapshot_actions:update_snapshot_status'),
        'A member could detach a volume below a running guest. Cinder refuses that in code, for tokens without a '
        'service token; here the rule does.'),
    'image': {}, 'key manager': {},
    'identity': dict.fromkeys(('identity:get_project', 'identity:get_user'),
                              'Services of the deployment look up projects and users with the role service alone.') |
                dict.fromkeys(('identity:list_credentials', 'identity:get_credential', 'identity:ec2_get_credential'),
                              'A credential has its secret: a reader of the system could act as any user.')}
# API: rules that are not documented elsewhere
OWN = {'network': {'update_security_group_rule', 'create_policy:shared', 'update_policy:shared'},
       'image': set(), 'identity': set(), 'key manager': set(),
       'block storage': {'nova:volumes:administrative', 'nova:volumes:passphrase'}}
