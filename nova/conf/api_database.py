"""[api_database]: the database that all cells share."""
from nova.conf.database import options

GROUP = 'api_database'
OPTIONS = options('api.sqlite')
