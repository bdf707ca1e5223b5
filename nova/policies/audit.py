"""Rules of the audit log."""
from nova.policies.base import ADMIN
from nova.policies.base import READER

RULES = (
    ('nova:audit:index', READER,
     'List the audit records of the project.',
     (('GET', '/os-audit'),)),
    ('nova:audit:index:all_projects', ADMIN,
     'List the audit records of all projects, and the records without a project.',
     (('GET', '/os-audit'),)),
)
