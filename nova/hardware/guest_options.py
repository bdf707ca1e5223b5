"""Guest options: extra specs of flavors and properties of images. guest_option_rows.py has the table of all options.

The API refuses options that no service implements (``check``), the scheduler excludes hosts without the required traits
(``traits``), and drivers read the ``settings``.
"""
from collections.abc import Iterator, Mapping
import functools
import itertools
import re

from nova import actions
from nova import exception
from nova.hardware import architectures
from nova.hardware import disks
from nova.hardware import guest_option_rows as rows
from nova.hardware import machines
from nova.objects import Instance
from nova.objects.flavor import Flavor

TRUE, FALSE = 'true', 'false'
PC = 'pc'                                # machine type of a guest without requirements
# settings that the machine type "pc" does not support
MODERN = ('viommu_model', 'mem_encryption')
# settings of the image that override those of the flavor, as documented by Glance's metadata definitions
IMAGE_WINS = ('watchdog_action',)

Specs = Mapping[str, str] | None


# ---- extra specs of flavors, checked since microversion 2.86 -------------------------------------------------------

def check_specs(specs: Mapping[str, str]) -> None:
    """Check extra specs against the documented namespaces and values.

    Keys outside of rows.NAMESPACES are checked only if they are in the table.
    :raises BadRequest: a key or value is unknown
    """
    for key, value in specs.items():
        row = _row('spec', key)
        if row is None and _closed(key):
            raise exception.BadRequest(f"Validation failed; extra spec '{key}' does not appear to be a valid "
                                       'extra spec.')
        if row is not None and not re.fullmatch(row.values, value):
            raise exception.BadRequest(f"Validation failed; '{value}' is not a valid value of extra spec '{key}'.")


@functools.lru_cache
def _patterns(kind: str) -> tuple[tuple[re.Pattern[str], rows.Option], ...]:
    found = ((getattr(row, kind), row) for row in rows.ROWS)
    return tuple((re.compile(pattern), row) for pattern, row in found if pattern is not None)


@functools.lru_cache(4096)
def _row(kind: str, key: str) -> rows.Option | None:
    """Return the row of an extra spec (kind 'spec') or a property ('prop'), or None."""
    return next((row for pattern, row in _patterns(kind) if pattern.fullmatch(key)), None)


def _closed(key: str) -> bool:
    """Tell whether the table has all keys of this key's namespace, so that unknown keys are errors."""
    return re.fullmatch(f'(?:{rows.NAMESPACES}):.*', key, re.DOTALL) is not None


# ---- options of a server -------------------------------------------------------------------------------------------

def _given(specs: Specs, properties: Specs) -> Iterator[tuple[str, rows.Option, str, str]]:
    """Yield (source, row, key, value) of the given options that the table contains."""
    for whose, kind, found in (('the extra spec', 'spec', specs), ('the image property', 'prop', properties)):
        for key, value in (found or {}).items():
            row = _row(kind, key)
            if row is not None:
                yield whose, row, key, str(value).strip()


def check(specs: Specs, properties: Specs) -> None:
    """Refuse unsupported and contradictory options of a server with this flavor and image.

    :param specs: extra specs of the flavor
    :param properties: properties of the image
    :raises InvalidInput: an option is not supported, or options contradict each other
    """
    for whose, row, key, value in _given(specs, properties):
        _check_value(whose, row, key, value)
        why = next((why for pattern, why in row.refused.items() if re.fullmatch(pattern, value)), None)
        if why:
            raise _refusal(f'{whose} {key} ({value[:80]}) is not supported. {why}.')
    if specs and any(key in specs for key in machines.COUNTED) and machines.wanted(specs) is None:
        raise _refusal('the flavor sets resources:VCPU, MEMORY_MB or DISK_GB to 0, which is only for bare metal. Add '
                       'the resource class of a machine (resources:CUSTOM_… = 1), or remove these extra specs.')
    for key in specs or ():
        if _closed(key) and _row('spec', key) is None:
            raise _refusal(f'the extra spec {key[:80]} is unknown. Correct or remove it in the flavor.')
    found, arch = settings(specs, properties), architectures.emulated(properties)
    reason = next(architectures.contradictions(found, arch), None) or first_contradiction(
        found, most_video_ram=int((specs or {}).get('hw_video:ram_max_mb') or 0),
        needs_q35=machine({**found, 'machine_type': ''}, '', arch) == 'q35')
    if reason is not None:
        raise _refusal(reason)
    chosen, bus = machine(found, PC, arch), found.get('disk_bus', '')
    if not disks.has_bus(chosen, bus):
        raise _refusal(f'the machine type {chosen} of the guest has no bus {bus}. Select another hw_disk_bus.')


def _check_value(whose: str, row: rows.Option, key: str, value: str) -> None:
    if not re.fullmatch(row.values, value):
        raise _refusal(f'{value[:80]!r} is not a valid value of {whose} {key}.')


def settings(specs: Specs, properties: Specs) -> dict[str, str]:
    """Return {name: value} of the options that drivers implement (rows.GUEST). Booleans become 'true' or 'false'.

    :raises InvalidInput: a value is malformed, or flavor and image contradict each other or themselves
    """
    found: dict[str, str] = {}
    sources: dict[str, tuple[str, str]] = {}     # {name: (source, key)}
    for whose, row, key, value in _given(specs, properties):
        if row.by != rows.GUEST or not value:
            continue
        _check_value(whose, row, key, value)     # the API checks extra specs only since 2.86, properties never
        if row.values == rows.BOOLEAN:
            value = TRUE if re.fullmatch(rows.TRUE, value) else FALSE
        before = found.setdefault(row.name, value)
        source, first = sources.setdefault(row.name, (whose, key))
        if before == value:
            continue
        if source == whose:
            raise _refusal(f'{whose} {key} is {value[:80]!r}, but {whose} {first} is {before[:80]!r}. Remove one of '
                           'them.')
        if row.name == 'serial_port_count':                 # the flavor limits the image's value
            flavor, image = int(before), int(value)
            if image > flavor:
                raise _refusal(f'the image property {key} is {image}, more than the maximum of the flavor, {flavor}.')
            found[row.name] = value
        elif row.name in IMAGE_WINS:
            found[row.name] = value
        else:
            raise _refusal(f'the image property {key} is {value[:80]!r}, but the flavor has {before[:80]!r}. Set it '
                           'in one of them only.')
    return found


def settings_of(server: Instance) -> dict[str, str]:
    """Return the ``settings`` of a server."""
    return settings((server.flavor or {}).get('extra_specs'), server.image_properties)


def traits(specs: Specs, properties: Specs) -> frozenset[str]:
    """Return the host traits that the options of a flavor and an image require; trait:NAME keys are not included."""
    found = set()
    for _whose, row, _key, value in _given(specs, properties):
        if row.traits:
            found |= {next((trait for pattern, trait in row.traits.items() if re.fullmatch(pattern, value)), '')}
    return frozenset(found - {''})


def encrypts(server: Instance) -> bool:
    """Return whether the local disks of a server are encrypted."""
    return encrypted(server.flavor, server.image_properties)


def encrypted(flavor: Flavor | None, properties: Specs) -> bool:
    """Return whether a flavor and an image encrypt the local disks of a server."""
    return any(row.name == 'ephemeral_encryption' and re.fullmatch(rows.TRUE, value)
               for _whose, row, _key, value in _given(flavor and flavor.get('extra_specs'), properties))


def has_part(part: str, flavor: Flavor | None, properties: Specs) -> bool:
    """Tell whether a guest has ``part``: a TPM (actions.TPM) or UEFI variables (actions.UEFI)."""
    found = settings(flavor and flavor.get('extra_specs'), properties)
    if part == actions.TPM:
        return 'tpm_version' in found
    return found.get('firmware_type') == 'uefi' or architectures.emulated(properties) is not None    # without a BIOS


def is_container(properties: Specs) -> bool:
    """Tell whether an image is for hosts with containers."""
    return any((row.name, value.lower()) in (('hypervisor_type', 'lxc'), ('vm_mode', 'exe'))
               for _whose, row, _key, value in _given(None, properties))


def every_trait() -> frozenset[str]:
    """Return all traits in the table."""
    return frozenset(trait for row in rows.ROWS for trait in row.traits.values())


def machine(found: Mapping[str, str], default: str, arch: str | None = None) -> str:
    """Return the machine type of a guest: the requested type, or a type that supports the settings.

    :param found: settings()
    :param arch: architectures.emulated()
    """
    modern = found.get('secure_boot') == 'required' or any(
        found.get(name, FALSE) not in (FALSE, 'none') for name in MODERN)
    return found.get('machine_type') or architectures.MACHINES.get(arch or '') or ('q35' if modern else default)


def _refusal(reason: str) -> exception.InvalidInput:
    return exception.InvalidInput(reason=reason)


# ---- contradictions: each check yields messages --------------------------------------------------------------------

Settings = Mapping[str, str]             # {name of an option: value}, the result of ``settings``

MAX_SERIAL_PORTS = 4                    # a PC has at most four serial ports
UNSIGNED = 2**32 - 1                     # maximum of numbers that libvirt and QEMU store in 32 bits
# {name of a setting: (name in messages, minimum, maximum)}; bounds of libvirt
BOUNDS = {'quota_cpu_period': ('quota:cpu_period in microseconds', 1000, 1000000),
          'quota_cpu_shares': ('quota:cpu_shares', 2, 10000),            # valid with both versions of control groups
          'rng_rate_bytes': ('hw_rng:rate_bytes', 0, UNSIGNED),
          'rng_rate_period': ('hw_rng:rate_period in milliseconds', 1, UNSIGNED),
          'serial_port_count': ('serial_port_count', 1, MAX_SERIAL_PORTS)}
MIN_QUOTA_US, MAX_QUOTA_US = 1000, 2**44 - 1          # bounds of libvirt; -1: unlimited
WITHOUT_MEMORY = ('virtio', 'none', 'bochs')         # graphics devices without video memory
_Q35 = re.compile('(pc-)?q35')


def first_contradiction(found: Settings, most_video_ram: int, needs_q35: bool) -> str | None:
    """Return a message about the first invalid setting, or None.

    :param most_video_ram: MiB that the flavor allows
    :param needs_q35: whether a setting needs the machine type q35
    """
    return next(itertools.chain(
        _bounds(found), _firmware(found, needs_q35), _video(found, most_video_ram), _devices(found),
        _disk_limits(found), _vif_limits(found)), None)


def _number(found: Settings, name: str, default: int = 0) -> int:
    return int(found.get(name, default))


def _bounds(found: Settings) -> Iterator[str]:
    for name, (shown, least, most) in BOUNDS.items():
        if name in found and not least <= int(found[name]) <= most:
            yield f'{shown} must be from {least} to {most}.'
    quota = _number(found, 'quota_cpu_quota', -1)
    if quota != -1 and not MIN_QUOTA_US <= quota <= MAX_QUOTA_US:
        yield f'quota:cpu_quota must be -1, or from {MIN_QUOTA_US} to {MAX_QUOTA_US} microseconds.'


def _firmware(found: Settings, needs_q35: bool) -> Iterator[str]:
    encrypted, kind = found.get('mem_encryption') == TRUE, found.get('machine_type')
    for name, needed in (('secure_boot required', found.get('secure_boot') == 'required'),
                         ('mem_encryption', encrypted)):
        if needed and found.get('firmware_type') != 'uefi':
            yield f'{name} needs UEFI. Set the image property hw_firmware_type=uefi.'
    if needs_q35 and kind and not _Q35.match(kind):
        yield (f'secure boot, encrypted memory and IOMMUs need the machine type q35, but the image has {kind!r}. Set '
               'hw_machine_type=q35.')
    if 'mem_encryption_model' in found and not encrypted:
        yield 'mem_encryption_model needs mem_encryption=true.'
    if 'tpm_model' in found and 'tpm_version' not in found:
        yield 'tpm_model needs tpm_version: set 1.2 or 2.0.'
    if found.get('tpm_model') == 'tpm-crb' and found.get('tpm_version') == '1.2':
        yield 'the TPM model tpm-crb needs tpm_version 2.0.'
    if 'maxphysaddr_bits' in found and found.get('maxphysaddr_mode', 'emulate') != 'emulate':
        yield 'maxphysaddr_bits needs maxphysaddr_mode=emulate.'
    if found.get('maxphysaddr_mode') == 'emulate' and 'maxphysaddr_bits' not in found:
        yield 'maxphysaddr_mode=emulate needs maxphysaddr_bits.'


def _video(found: Settings, most: int) -> Iterator[str]:
    ram = _number(found, 'video_ram')
    if ram > most:
        yield f'the image property hw_video_ram is {ram}, more than hw_video:ram_max_mb of the flavor, {most}.'
    if ram and found.get('video_model') in WITHOUT_MEMORY:
        yield (f"the graphics device {found['video_model']} does not support hw_video_ram. Remove that image property, "
               'or select another hw_video_model.')


def _devices(found: Settings) -> Iterator[str]:
    if found.get('vif_multiqueue_enabled') == TRUE and found.get('vif_model', 'virtio') != 'virtio':
        yield f"vif_multiqueue_enabled needs hw_vif_model=virtio, but the image has {found['vif_model']}."
    if 'rng_rate_period' in found and not _number(found, 'rng_rate_bytes'):
        yield 'hw_rng:rate_period needs hw_rng:rate_bytes.'


def _disk_limits(found: Settings) -> Iterator[str]:
    refusal = disks.limits_refusal({name: _number(found, f'quota_disk_{name}') for name in disks.LIMITS}, 'quota:disk_')
    if refusal is not None:
        yield refusal


def _vif_limits(found: Settings) -> Iterator[str]:
    for way in ('inbound', 'outbound'):
        average, peak, burst = (_number(found, f'quota_vif_{way}_{what}') for what in ('average', 'peak', 'burst'))
        if (peak or burst) and not average:
            yield f'quota:vif_{way}_peak and _burst need quota:vif_{way}_average.'
