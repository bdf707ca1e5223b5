"""Rules of the embedded image service; names and defaults are those of the Image API."""
from nova.policies.service import Rule
from nova.policies.service import Service
from nova.policies.service import names

# (rule, check, description)
BASE = (
    ('context_is_admin', 'role:admin',
     'Administrators of images, with a token that is scoped to a project. They see the images of all projects.'),
    ('service_api', 'role:service or role:admin',
     'Other services, and administrators.'),
    ('metadef_admin', 'rule:context_is_admin', 'Who changes metadata definitions.'),
    ('default', '', 'All users.'),
)

_ADMIN = 'rule:context_is_admin'
_MEMBER = 'rule:context_is_admin or (role:member and project_id:%(project_id)s)'
_SHARED = ("(project_id:%(project_id)s or project_id:%(member_id)s or 'community':%(visibility)s or "
           "'public':%(visibility)s or 'shared':%(visibility)s)")
_MEMBERS = 'rule:context_is_admin or role:reader and (project_id:%(project_id)s or project_id:%(member_id)s)'
_DEFINED = "rule:context_is_admin or (role:reader and (project_id:%(project_id)s or 'public':%(visibility)s))"
_DEFINER = 'rule:metadef_admin'
_IMAGE = '/v2/images/{image_id}'
_NAMESPACES, _NAMESPACE = '/v2/metadefs/namespaces', '/v2/metadefs/namespaces/{namespace_name}'

RULES = (
    Rule('add_image', 'rule:context_is_admin or (role:member and project_id:%(project_id)s and project_id:%(owner)s)',
         'Create an image.', (('POST', '/v2/images'),)),
    Rule('delete_image', _MEMBER, 'Delete an image.', (('DELETE', _IMAGE),)),
    Rule('get_image', f'rule:context_is_admin or (role:reader and {_SHARED})',
         'Show an image. Lists omit the images that this rule refuses.',
         (('GET', _IMAGE), ('GET', '/v2/images'), ('GET', f'{_IMAGE}/tasks'))),
    Rule('get_images', 'rule:context_is_admin or (role:reader and project_id:%(project_id)s)',
         'List images.', (('GET', '/v2/images'),)),
    Rule('modify_image', _MEMBER, 'Change the properties and tags of an image.',
         (('PATCH', _IMAGE), ('PUT', f'{_IMAGE}/tags/{{tag}}'), ('DELETE', f'{_IMAGE}/tags/{{tag}}'))),
    Rule('publicize_image', _ADMIN, 'Make an image visible to all projects (visibility public).',
         (('PATCH', _IMAGE), ('POST', '/v2/images'))),
    Rule('communitize_image', _MEMBER, 'Make an image usable by all projects that know its id (visibility community).',
         (('PATCH', _IMAGE), ('POST', '/v2/images'))),
    Rule('download_image', f'rule:context_is_admin or (role:member and {_SHARED})',
         'Download the data of an image.', (('GET', f'{_IMAGE}/file'),)),
    Rule('upload_image', _MEMBER, 'Upload, stage or import the data of an image.',
         (('PUT', f'{_IMAGE}/file'), ('PUT', f'{_IMAGE}/stage'), ('POST', f'{_IMAGE}/import'))),
    Rule('add_member', _MEMBER, 'Share an image with a project.', (('POST', f'{_IMAGE}/members'),)),
    Rule('delete_member', _MEMBER, 'Stop sharing an image with a project.',
         (('DELETE', f'{_IMAGE}/members/{{member_id}}'),)),
    Rule('get_member', _MEMBERS, 'Show a member of an image.', (('GET', f'{_IMAGE}/members/{{member_id}}'),)),
    Rule('get_members', _MEMBERS, 'List the members of an image.', (('GET', f'{_IMAGE}/members'),)),
    Rule('modify_member', 'rule:context_is_admin or (role:member and project_id:%(member_id)s)',
         'Accept or reject an image that another project shares.',
         (('PUT', f'{_IMAGE}/members/{{member_id}}'),)),
    Rule('deactivate', _MEMBER, 'Refuse downloads of an image to all but administrators.',
         (('POST', f'{_IMAGE}/actions/deactivate'),)),
    Rule('reactivate', _MEMBER, 'Allow downloads of an image again.', (('POST', f'{_IMAGE}/actions/reactivate'),)),
    Rule('get_tasks', 'rule:default', 'List tasks of the own project.', (('GET', '/v2/tasks'),)),
    Rule('get_task', 'rule:default', 'Show a task of the own project.', (('GET', '/v2/tasks/{task_id}'),)),
    Rule('tasks_api_access', _ADMIN, 'Create a task; the rule add_task is checked, too.', (('POST', '/v2/tasks'),)),
    Rule('add_task', 'rule:default', 'Create a task; the rule tasks_api_access is checked, too.',
         (('POST', '/v2/tasks'),)),
    Rule('get_metadef_namespaces', 'rule:context_is_admin or (role:reader and project_id:%(project_id)s)',
         'List namespaces of metadata definitions.', (('GET', _NAMESPACES),)),
    Rule('get_metadef_namespace', _DEFINED, 'Show a namespace of metadata definitions.', (('GET', _NAMESPACE),)),
    Rule('add_metadef_namespace', _DEFINER, 'Create a namespace of metadata definitions.', (('POST', _NAMESPACES),)),
    Rule('modify_metadef_namespace', _DEFINER, 'Change a namespace of metadata definitions.', (('PUT', _NAMESPACE),)),
    Rule('delete_metadef_namespace', _DEFINER, 'Delete a namespace of metadata definitions.',
         (('DELETE', _NAMESPACE),)),
    Rule('get_metadef_objects', _DEFINED, 'List the objects of a namespace.', (('GET', f'{_NAMESPACE}/objects'),)),
    Rule('get_metadef_object', _DEFINED, 'Show an object of a namespace.',
         (('GET', f'{_NAMESPACE}/objects/{{object_name}}'),)),
    Rule('add_metadef_object', _DEFINER, 'Add an object to a namespace.', (('POST', f'{_NAMESPACE}/objects'),)),
    Rule('modify_metadef_object', _DEFINER, 'Change an object of a namespace.',
         (('PUT', f'{_NAMESPACE}/objects/{{object_name}}'),)),
    Rule('delete_metadef_object', _DEFINER, 'Delete objects of a namespace.',
         (('DELETE', f'{_NAMESPACE}/objects/{{object_name}}'), ('DELETE', f'{_NAMESPACE}/objects'))),
    Rule('get_metadef_properties', _DEFINED, 'List the properties of a namespace.',
         (('GET', f'{_NAMESPACE}/properties'),)),
    Rule('get_metadef_property', _DEFINED, 'Show a property of a namespace.',
         (('GET', f'{_NAMESPACE}/properties/{{property_name}}'),)),
    Rule('add_metadef_property', _DEFINER, 'Add a property to a namespace.', (('POST', f'{_NAMESPACE}/properties'),)),
    Rule('modify_metadef_property', _DEFINER, 'Change a property of a namespace.',
         (('PUT', f'{_NAMESPACE}/properties/{{property_name}}'),)),
    Rule('remove_metadef_property', _DEFINER, 'Delete properties of a namespace.',
         (('DELETE', f'{_NAMESPACE}/properties/{{property_name}}'), ('DELETE', f'{_NAMESPACE}/properties'))),
    Rule('get_metadef_tags', _DEFINED, 'List the tags of a namespace.', (('GET', f'{_NAMESPACE}/tags'),)),
    Rule('get_metadef_tag', _DEFINED, 'Show a tag of a namespace.', (('GET', f'{_NAMESPACE}/tags/{{tag_name}}'),)),
    Rule('add_metadef_tag', _DEFINER, 'Add a tag to a namespace.', (('POST', f'{_NAMESPACE}/tags/{{tag_name}}'),)),
    Rule('add_metadef_tags', _DEFINER, 'Replace or add to the tags of a namespace.',
         (('POST', f'{_NAMESPACE}/tags'),)),
    Rule('modify_metadef_tag', _DEFINER, 'Rename a tag of a namespace.', (('PUT', f'{_NAMESPACE}/tags/{{tag_name}}'),)),
    Rule('delete_metadef_tag', _DEFINER, 'Delete a tag of a namespace.',
         (('DELETE', f'{_NAMESPACE}/tags/{{tag_name}}'),)),
    Rule('delete_metadef_tags', _DEFINER, 'Delete all tags of a namespace.', (('DELETE', f'{_NAMESPACE}/tags'),)),
    Rule('list_metadef_resource_types', _DEFINED, 'List the resource types of all namespaces.',
         (('GET', '/v2/metadefs/resource_types'),)),
    Rule('get_metadef_resource_type', _DEFINED, 'List the resource types of a namespace.',
         (('GET', f'{_NAMESPACE}/resource_types'),)),
    Rule('add_metadef_resource_type_association', _DEFINER, 'Add a resource type to a namespace.',
         (('POST', f'{_NAMESPACE}/resource_types'),)),
    Rule('remove_metadef_resource_type_association', _DEFINER, 'Remove a resource type from a namespace.',
         (('DELETE', f'{_NAMESPACE}/resource_types/{{name}}'),)),
)

# Documented rules of operations that this service does not have (e.g. image caches); policy files may contain them.
ABSENT = names({
    '': 'metadef_default',
    ('rule:context_is_admin or (role:member and (project_id:%(project_id)s or project_id:%(member_id)s or '
     "'community':%(visibility)s or 'public':%(visibility)s or 'shared':%(visibility)s))"): 'download_from_store',
    'rule:context_is_admin': '''
        delete_image_location manage_image_cache copy_image list_cached_nodes
        cache_image cache_list cache_delete cache_clean cache_prune
    ''',
    'rule:context_is_admin or (role:reader and project_id:%(project_id)s)': 'get_image_location',
    'rule:context_is_admin or (role:member and project_id:%(project_id)s)': 'set_image_location',
    'rule:service_api or (role:member and project_id:%(project_id)s and project_id:%(owner)s)': 'add_image_location',
    'rule:service_api': 'fetch_image_location',
    'rule:default': 'modify_task',
    'rule:context_is_admin or rule:service_api': 'stores_info_detail',
})

IMAGE = Service('image', 'image', 'image_policy.yaml', BASE, RULES, ABSENT)
