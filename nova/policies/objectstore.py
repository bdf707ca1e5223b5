"""Rules of the object store. Everybody sees the buckets of his own project alone."""
from nova.policies.base import MEMBER
from nova.policies.base import READER

# (rule, check, what it guards, ((method, path), …))
RULES = (
    ('objectstore:read', READER, 'List buckets and objects of the project, and read them.',
     (('GET', '/objectstore/{bucket}/{key}'),)),
    ('objectstore:write', MEMBER, 'Make, write and remove buckets and objects of the project.',
     (('PUT', '/objectstore/{bucket}/{key}'),)),
)
