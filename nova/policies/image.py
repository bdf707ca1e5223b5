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
)

_ADMIN = 'rule:context_is_admin'
_MEMBER = 'rule:context_is_admin or (role:member and project_id:%(project_id)s)'
_SHARED = ("(project_id:%(project_id)s or project_id:%(member_id)s or 'community':%(visibility)s or "
           "'public':%(visibility)s or 'shared':%(visibility)s)")
_MEMBERS = 'rule:context_is_admin or role:reader and (project_id:%(project_id)s or project_id:%(member_id)s)'
_IMAGE = '/v2/images/{image_id}'

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
)

# Image caches, tasks of administrators, copies between stores,
# metadata definitions and locations do not exist in the embedded service.
ABSENT = names({
    '': '''
        default metadef_default
    ''',
    ('rule:context_is_admin or (role:member and (project_id:%(project_id)s or project_id:%(member_id)s or '
     "'community':%(visibility)s or 'public':%(visibility)s or 'shared':%(visibility)s))"): '''
        download_from_store
    ''',
    'rule:context_is_admin': '''
        delete_image_location manage_image_cache copy_image list_cached_nodes tasks_api_access metadef_admin
        cache_image cache_list cache_delete cache_clean cache_prune
    ''',
    'rule:context_is_admin or (role:reader and project_id:%(project_id)s)': '''
        get_image_location get_metadef_namespaces
    ''',
    'rule:context_is_admin or (role:member and project_id:%(project_id)s)': '''
        set_image_location
    ''',
    'rule:service_api or (role:member and project_id:%(project_id)s and project_id:%(owner)s)': '''
        add_image_location
    ''',
    'rule:service_api': '''
        fetch_image_location
    ''',
    'rule:default': '''
        get_task get_tasks add_task modify_task
    ''',
    "rule:context_is_admin or (role:reader and (project_id:%(project_id)s or 'public':%(visibility)s))": '''
        get_metadef_namespace get_metadef_object get_metadef_objects list_metadef_resource_types
        get_metadef_resource_type get_metadef_property get_metadef_properties get_metadef_tag get_metadef_tags
    ''',
    'rule:metadef_admin': '''
        modify_metadef_namespace add_metadef_namespace delete_metadef_namespace modify_metadef_object
        add_metadef_object delete_metadef_object add_metadef_resource_type_association
        remove_metadef_resource_type_association modify_metadef_property add_metadef_property remove_metadef_property
        modify_metadef_tag add_metadef_tag add_metadef_tags delete_metadef_tag delete_metadef_tags
    ''',
    'rule:context_is_admin or rule:service_api': '''
        stores_info_detail
    ''',
})

IMAGE = Service('image', 'image', 'image_policy.yaml', BASE, RULES, ABSENT)
