"""Request specs of servers for schedulers and computes."""
import collections.abc

from nova import exception
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Context
from nova.db.servers import instance_actions
from nova.db.servers import request_specs
from nova.objects import pci
from nova.objects import request_spec
from nova.runtime import encrypted_passwords


class RequestSpecs:
    """Reads request specs."""

    def __init__(self, services: CellServices) -> None:
        self._api_db, self._cell_db = services.api_db, services.cell_db
        self._passwords = encrypted_passwords.Passwords(services.conf)

    def get_request_spec(self, ctx: Context | None, instance_uuid: str) -> request_spec.RequestSpec:
        """See interface.py.

        :raises InstanceNotFound:
        """
        found = self.of([instance_uuid])
        if not found:
            raise exception.InstanceNotFound(instance_id=instance_uuid)
        return found[instance_uuid]

    def of(self, uuids: collections.abc.Iterable[str]) -> dict[str, request_spec.RequestSpec]:
        """Return {instance uuid: RequestSpec} of existing servers, with the password of an open action."""
        with self._api_db.reader() as conn:
            found = request_specs.get_many(conn, uuids)
        with self._cell_db.reader() as conn:
            kept = instance_actions.flavors_and_arguments(conn, list(found))
        for uuid, spec in found.items():
            flavor, arguments = kept.get(uuid, (None, None))
            if flavor is not None:       # the stored spec lacks the devices of ports that changed later
                spec.flavor = pci.with_ports(spec.flavor, pci.of_ports(flavor).values())
            spec.admin_password = self._passwords.password(arguments, uuid)
        return found
