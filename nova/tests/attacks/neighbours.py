"""What a project does in a network that another one shares with it, and towards the outside (class E)."""
import functools
import ipaddress
from collections.abc import Iterator

from nova.tests.attacks import base
from nova.tests.attacks.base import Attack

FAMILY = 'neighbour'


def attacks(stage) -> Iterator[Attack]:
    if 'subnet' not in stage.things:
        return                                                  # a cloud whose projects make no networks
    rule = stage.victim.send('POST', 'network', '/rbac-policies', {'rbac_policy': {
        'object_type': 'network', 'object_id': stage.things['network'], 'action': 'access_as_shared',
        'target_tenant': stage.attacker.project_id}})
    router = stage.attacker.send('POST', 'network', '/routers', {'router': {'name': 'gate'}})
    made = [(session, f'/{path}/{base.document(answer)[kind]["id"]}') for session, path, kind, answer in (
        (stage.attacker, 'routers', 'router', router), (stage.victim, 'rbac-policies', 'rbac_policy', rule))
        if answer.status == 201]
    try:
        if len(made) == 2:
            yield from _of_router(stage, made[0][1])
    finally:
        for session, path in made:
            session.send('DELETE', 'network', path)


def _of_router(stage, router: str) -> Iterator[Attack]:
    yield Attack(FAMILY, 'its gateway', functools.partial(
        _refused, router + '/add_router_interface', {'subnet_id': stage.things['subnet']}))
    port = stage.attacker.send('POST', 'network', '/ports', {'port': {'network_id': stage.things['network']}})
    if port.status == 201:
        ident = base.document(port)['port']['id']
        yield Attack(FAMILY, 'its gateway, by a port', functools.partial(
            _refused, router + '/add_router_interface', {'port_id': ident}))
        stage.attacker.send('DELETE', 'network', f'/ports/{ident}')
    found = stage.attacker.make('network', '/networks?router:external=true', None, method='GET')['networks']
    for network in found[:1]:
        subnets = stage.attacker.make('network', f'/subnets?network_id={network["id"]}', None, method='GET')['subnets']
        chosen = [{'ip_address': str(ipaddress.ip_network(row['cidr'])[-2])} for row in subnets[:1]]
        for name, more in (('an address outside', {'external_fixed_ips': chosen}),
                           ('packets of any address', {'enable_snat': False})):
            yield Attack(FAMILY, name, functools.partial(
                _refused, router, {'router': {'external_gateway_info': {'network_id': network['id'], **more}}}))


def _refused(path: str, body: dict, stage) -> str | None:
    return base.refused(stage.attacker.send('PUT', 'network', path, body), (400, 403, 404))
