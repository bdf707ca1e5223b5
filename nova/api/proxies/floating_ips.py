"""Floating IPs as the compute API changed them: the networks of this service have no outside, and so none of them."""
from nova import exception
from nova.api.servers import lookup as server_lookup
from nova.web.params import Object
from nova.web.params import Param
from nova.web.params import STRING
from nova.web.params import nullable
from nova.web.routes import Route

_RULE = 'os_compute_api:os-floating-ips:'
LAST = 35                   # of the addresses
LAST_ACTION = 43            # of the actions on servers


def pools(req):
    return {'floating_ip_pools': []}


def index(req):
    return {'floating_ips': []}


def create(req):
    raise exception.NotFound('There is no pool of floating IPs.')


def one(req, id):
    raise exception.NotFound(f'Floating IP {id[:80]} could not be found.')


def _action(name, rule):
    def change(req, id):
        server_lookup.get(req, id, rule)
        raise exception.NotFound(f'Floating IP {req.body[name]["address"]} could not be found.')
    return change


_ADDRESS = {'type': 'string', 'oneOf': [{'format': 'ipv4'}, {'format': 'ipv6'}]}


def _body(name, *more):
    return Object(Param(name, Object(Param('address', _ADDRESS, required=True), *more), required=True))


_PATH, _SERVER = '/os-floating-ips', '/servers/{id}/action'
ROUTES = (
    Route('GET', '/os-floating-ip-pools', pools, policy='os_compute_api:os-floating-ip-pools', until=LAST),
    Route('GET', _PATH, index, policy=_RULE + 'list', until=LAST),
    Route('POST', _PATH, create, policy=_RULE + 'create', until=LAST, errors=(400, 403, 404),
          body=Object(Param('pool', nullable(STRING)), closed=False)),
    Route('GET', _PATH + '/{id}', one, policy=_RULE + 'show', until=LAST, errors=(400, 404)),
    Route('DELETE', _PATH + '/{id}', one, policy=_RULE + 'delete', until=LAST, status=202,
          errors=(400, 403, 404, 409)),
    Route('POST', _SERVER, _action('addFloatingIp', _RULE + 'add'), policy=_RULE + 'add', until=LAST_ACTION,
          action='addFloatingIp', errors=(400, 403, 404),
          body=_body('addFloatingIp', Param('fixed_address', _ADDRESS))),
    Route('POST', _SERVER, _action('removeFloatingIp', _RULE + 'remove'), policy=_RULE + 'remove',
          until=LAST_ACTION, action='removeFloatingIp', errors=(400, 403, 404, 409),
          body=_body('removeFloatingIp')),
)
