"""Guarantees of QoS policies in requests: refuse unsupported guarantees, and claim changed guarantees on hosts."""
from collections.abc import Callable

from nova import exception
from nova.db.engine import Connection
from nova.db.networks import guarantees
from nova.network.rest import faults


def refuse(conn: Connection, policy: str | None, user: str) -> None:
    """Refuse a QoS policy with guarantees for a kind of resource that cannot have guarantees.

    :param user: 'router ID' or 'subport ID'
    :raises QosRuleNotSupported:
    """
    for row in guarantees.of_policies(conn, [policy] if policy else []).get(policy or '', ()):
        raise faults.QosRuleNotSupported(rule_type=row['type'], user=user)


def claim(conn: Connection, function: Callable[..., None], *arguments: object) -> None:
    """Claim changed guarantees of guests' ports on their hosts.

    :param function: claim_policy or claim_server of nova.db.networks.guarantees
    :raises QosGuaranteeExceeded: a host has not enough free capacity
    """
    try:
        function(conn, *arguments)
    except exception.PortBindingFailed as error:
        raise faults.QosGuaranteeExceeded(reason=error.kwargs['reason']) from None
