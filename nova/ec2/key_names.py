"""Key pairs of the caller, which the compute API identifies by name."""
from typing import Any

from nova.ec2 import ids
from nova.ec2 import operations


def uuid_of(req: operations.Request, name: str) -> str:
    """Return the UUID that represents a key pair in the table of IDs."""
    return ids.derived(req.caller.user.user_id, name)


def pairs_of(req: operations.Request) -> list[dict[str, Any]]:
    """Return all key pairs of the user."""
    found: list[dict[str, Any]] = []
    query: dict[str, Any] = {'limit': operations.PAGE}
    while True:
        document = req.call('compute', 'GET', '/os-keypairs', query=query)
        rows = [row['keypair'] for row in document['keypairs']]
        found += rows
        if not rows or 'keypairs_links' not in document:
            return found
        query = {'limit': operations.PAGE, 'marker': rows[-1]['name']}
