"""Architectures of guests: x86, and others that hosts emulate."""
from collections.abc import Mapping

MACHINES = {'aarch64': 'virt'}          # {architecture other than x86: machine type}
_ALIASES = {'arm64': 'aarch64'}


def emulated(properties: Mapping[str, str] | None) -> str | None:
    """Return the architecture in an image's properties, or None for x86.

    The scheduler's ImagePropertiesFilter selects hosts that report the architecture.
    """
    found = properties or {}
    named = str(found.get('hw_architecture') or found.get('architecture') or '').lower()
    named = _ALIASES.get(named, named)
    return named if named in MACHINES else None
