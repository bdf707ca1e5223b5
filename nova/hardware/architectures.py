"""Architectures of guests: x86, and others that hosts emulate."""
from collections.abc import Iterator, Mapping

MACHINES = {'aarch64': 'virt'}          # {architecture other than x86: machine type}
_ALIASES = {'arm64': 'aarch64'}
# {setting that exists only on x86: values of it that other architectures may have}
_ONLY_X86 = {
    'hide_hypervisor_id': ('false',), 'max_mem_mb': (), 'max_vcpus': (), 'maxphysaddr_bits': (),
    'maxphysaddr_mode': (), 'mem_encryption': ('false',), 'mem_encryption_model': (),
    'secure_boot': ('optional', 'disabled'), 'time_hpet': ('false',), 'tpm_model': ('tpm-tis',),
    'tpm_version': ('2.0',), 'viommu_model': ('none', 'virtio', 'smmuv3', 'auto')}


def emulated(properties: Mapping[str, str] | None) -> str | None:
    """Return the architecture in an image's properties, or None for x86.

    The scheduler's ImagePropertiesFilter selects hosts that report the architecture.
    """
    found = properties or {}
    named = str(found.get('hw_architecture') or found.get('architecture') or '').lower()
    named = _ALIASES.get(named, named)
    return named if named in MACHINES else None


def contradictions(settings: Mapping[str, str], arch: str | None) -> Iterator[str]:
    """Yield a message for each setting that the architecture does not support.

    :param settings: guest_options.settings
    :param arch: result of ``emulated``
    """
    kind = settings.get('machine_type', '')[:40]
    if arch is None:
        if kind.startswith(tuple(MACHINES.values())):
            yield f'the machine type {kind} needs hw_architecture. Set it to {" or ".join(MACHINES)}.'
        return
    if kind and not kind.startswith(MACHINES[arch]):
        yield f'the machine type {kind} is only for x86, but the architecture of the image is {arch}.'
    for name, allowed in _ONLY_X86.items():
        if settings.get(name, '') not in ('', *allowed):
            yield f'{name} {settings[name][:40]!r} is only for x86, but the architecture of the image is {arch}.'
