"""Filter of bare metal machines, which run only servers with a flavor that requests a machine."""
import numpy as np

from nova import objects
from nova.hardware import machines
from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.filters import request_fields
from nova.scheduler.placement_request import Request


class MachineFilter(base.Filter):
    """Free machines of the resource class in the flavor; for other flavors, all hosts that are not bare metal.

    The configuration cannot disable the filter. The claim enforces the limit of one server for each machine.
    """

    checks_capacity, selects_hosts, run_on_rebuild = True, True, False

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        of_metal, some = _machines(hosts)
        wanted = machines.wanted(request_fields.extra_specs(request))
        if wanted is None:
            return ~of_metal if some else hosts.all_pass
        return of_metal & _of_class(hosts, wanted) & (hosts.running_vms == 0)

    def has_limits(self, spec: objects.RequestSpec) -> bool:
        return machines.wanted(spec.flavor.get('extra_specs')) is not None

    def limits(self, hosts: host_view.Hosts, position: int) -> dict[str, float]:
        return {'running_vms': 1}

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        wanted = machines.wanted(request_fields.extra_specs(request))
        if wanted is None:
            return 'is|are bare metal, which the flavor does not request'
        if np.any(_of_class(hosts, wanted)[removed]):
            return f'has|have no free machine of resource class {wanted}'
        return f'has|have no machine of resource class {wanted} that is ready'


def _machines(hosts: host_view.Hosts) -> tuple[np.ndarray, bool]:
    """Return (mask of the bare metal machines, whether any host is a bare metal machine)."""
    def find() -> tuple[np.ndarray, bool]:
        mask = hosts.match_column('hypervisor_type', lambda kind: kind == machines.HYPERVISOR)
        return mask, bool(mask.any())
    return hosts.cached('bare metal', find)


def _of_class(hosts: host_view.Hosts, name: str) -> np.ndarray:
    return hosts.cached(('resource class', name),
                        lambda: hosts.match_column('traits', lambda traits: name in (traits or ())))
