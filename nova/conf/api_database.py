"""[api_database]: what all cells share."""
from nova.conf.database import options

GROUP = 'api_database'
OPTIONS = options('api.sqlite')
