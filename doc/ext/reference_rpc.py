"""The page of RPC methods, from the rows of the services' interfaces."""
import rst

from nova.cert import interface as cert
from nova.compute import interface as compute
from nova.conductor import interface as conductor
from nova.network import interface as network
from nova.rpc import interface as rpc
from nova.scheduler import interface as scheduler

INTERFACES = (compute.INTERFACE, conductor.INTERFACE, scheduler.INTERFACE, network.INTERFACE, network.AGENT,
              cert.INTERFACE)


def page():
    lines = [*rst.heading('RPC methods'),
             'A *call* waits for the response. A *cast* does not: it may be lost or arrive twice. A *fanout* is a cast '
             'to every service of its kind. The timeout of a call is the time that its caller waits.']
    for interface in INTERFACES:
        lines += [*rst.heading(f'{interface.topic} {interface.version}', '-'), *rst.table(
            ('Method', 'Arguments', 'Kind', 'Meaning'),
            [(rst.literal(row.name), ', '.join(map(rst.literal, row.arguments)), _kind(row), rst.escaped(row.doc))
             for row in interface.methods.values()], '22 22 10 46')]
    return lines


def _kind(row: rpc.Method) -> str:
    if row.fanout:
        return 'fanout'
    return f'call, {row.timeout:g} s' if row.call else 'cast'
