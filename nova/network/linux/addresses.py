"""Addresses of a device."""
from nova.network.linux import runner


def update(run: runner.Runner, device: str, known: list[str], wanted: list[str]) -> bool:
    """Change a device's addresses (with prefix length) from ``known`` to ``wanted``. Return whether any is new.

    :param known: in the order in which ``ip`` prints them
    """
    obsolete = [address for address in known if address not in wanted]
    for address in reversed(obsolete):           # secondary addresses of a range before the primary one
        run('ip', 'address', 'del', address, 'dev', device)
    # with a primary address the kernel also deletes the other ones of its range: set them again
    for address in wanted:
        if obsolete or address not in known:
            run('ip', 'address', 'replace', address, 'dev', device, *(['nodad'] if ':' in address else []))
    return not set(wanted) <= set(known)
