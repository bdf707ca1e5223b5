"""All routes of the Key Manager API."""
from nova.keymanager.rest import access
from nova.keymanager.rest import containers
from nova.keymanager.rest import orders
from nova.keymanager.rest import secrets

ROUTES = (*secrets.ROUTES, *containers.ROUTES, *access.ROUTES, *orders.ROUTES)
