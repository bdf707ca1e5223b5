"""Base rules that other rules refer to, and the checks of the default roles."""

# (rule, check, description)
BASE_RULES = (
    ('context_is_admin', 'role:admin',
     'Administrators of the deployment, with a token that is scoped to a project.'),
    ('admin_or_owner', 'is_admin:True or project_id:%(project_id)s',
     'Administrators, and all users of the owning project. For older policy files.'),
    ('admin_api', 'is_admin:True',
     'Administrators. For older policy files.'),
    ('project_manager_api', 'role:manager and project_id:%(project_id)s',
     'Managers of the project that owns the resource.'),
    ('project_member_api', 'role:member and project_id:%(project_id)s',
     'Members of the project that owns the resource.'),
    ('project_reader_api', 'role:reader and project_id:%(project_id)s',
     'Readers of the project that owns the resource.'),
    ('service_api', 'role:service',
     'Other services of the deployment.'),
    ('project_manager_or_admin', 'rule:project_manager_api or rule:context_is_admin',
     'Managers of the owning project, and administrators.'),
    ('project_member_or_admin', 'rule:project_member_api or rule:context_is_admin',
     'Members of the owning project, and administrators.'),
    ('project_reader_or_admin', 'rule:project_reader_api or rule:context_is_admin',
     'Readers of the owning project, and administrators.'),
    ('service_or_admin', 'rule:service_api or rule:context_is_admin',
     'Other services, and administrators.'),
)

ADMIN = 'rule:context_is_admin'
MEMBER = 'rule:project_member_or_admin'
READER = 'rule:project_reader_or_admin'
MANAGER = 'rule:project_manager_or_admin'
SERVICE = 'rule:service_or_admin'
ANYONE = '@'
NO_CALLER = '!'
OWNER = '(rule:context_is_admin) or user_id:%(user_id)s'
