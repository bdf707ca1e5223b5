"""Rules of the object store. Callers have access to the buckets of their project only."""
from nova.policies.base import MEMBER
from nova.policies.base import READER

# (rule, check, description, ((method, path), …))
RULES = (
    ('objectstore:read', READER, 'List and read buckets and objects of the project.',
     (('GET', '/objectstore/{bucket}/{key}'),)),
    ('objectstore:write', MEMBER, 'Create, write and delete buckets and objects of the project.',
     (('PUT', '/objectstore/{bucket}/{key}'),)),
)
