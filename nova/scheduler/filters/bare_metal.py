"""Machines of bare metal: for servers whose flavor asks for one as a whole, and for no others."""
from __future__ import annotations

import typing

import numpy as np

from nova.hardware import machines
from nova.scheduler.filters import base
from nova.scheduler.filters import request_fields

if typing.TYPE_CHECKING:
    from nova import objects
    from nova.scheduler import host_view
    from nova.scheduler import pipeline


class MachineFilter(base.Filter):
    """Free machines of the resource class that the flavor names; without one, hosts that are no machines. It is always
    consulted, and the claim holds that a machine has one server."""

    room, forced, rebuild = True, True, False

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        of_metal, some = _machines(hosts)
        wanted = machines.wanted(request_fields.flavor(request))
        if wanted is None:
            return ~of_metal if some else hosts.everything
        return of_metal & _of_class(hosts, wanted) & (hosts.running_vms == 0)

    def bounds(self, spec: objects.RequestSpec) -> bool:
        return machines.wanted(spec.flavor) is not None

    def limits(self, hosts: host_view.Hosts, position: int) -> dict[str, float]:
        return {'running_vms': 1}

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        wanted = machines.wanted(request_fields.flavor(request))
        if wanted is None:
            return 'is|are bare metal, for which the flavor does not ask'
        if np.any(_of_class(hosts, wanted)[removed]):
            return f'is|are no free machine of resource class {wanted}'
        return f'is|are no machine of resource class {wanted} that is ready'


def _machines(hosts: host_view.Hosts) -> tuple[np.ndarray, bool]:
    """(which hosts are bare metal, whether any is)"""
    def find() -> tuple[np.ndarray, bool]:
        mask = hosts.each('hypervisor_type', lambda kind: kind == machines.HYPERVISOR)
        return mask, bool(mask.any())
    return hosts.once('bare metal', find)


def _of_class(hosts: host_view.Hosts, name: str) -> np.ndarray:
    return hosts.once(('resource class', name), lambda: hosts.each('traits', lambda traits: name in (traits or ())))
