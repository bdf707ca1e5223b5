"""Checks of guest settings against contradictions and bounds. Each check yields sentences.

The settings are the result of guest_options.settings: {name of a row: text}.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
import itertools
import re

Settings = Mapping[str, str]

TRUE = 'true'
MOST_SERIAL_PORTS = 4                    # maximum of a PC
PERIODS = range(1000, 1000001)           # microseconds, bounds of libvirt
QUOTA_LEAST = 1000                       # microseconds, bound of libvirt; -1: unlimited
SHARES = range(2, 262145)                # bounds of the kernel
WITHOUT_MEMORY = ('virtio', 'none', 'bochs')         # graphics devices
_Q35 = re.compile('(pc-)?q35')


def first(found: Settings, most_video_ram: int, needs_q35: bool) -> str | None:
    """Return the first sentence about an invalid setting, or None.

    :param most_video_ram: MiB that the flavor allows
    :param needs_q35: whether a setting needs the machine type q35
    """
    return next(itertools.chain(
        _firmware(found, needs_q35), _video(found, most_video_ram), _devices(found), _cpu_limits(found),
        _disk_limits(found), _vif_limits(found)), None)


def _number(found: Settings, name: str, default: int = 0) -> int:
    return int(found.get(name, default))


def _firmware(found: Settings, needs_q35: bool) -> Iterator[str]:
    encrypted, kind = found.get('mem_encryption') == TRUE, found.get('machine_type')
    for name, needed in (('secure_boot required', found.get('secure_boot') == 'required'),
                         ('mem_encryption', encrypted)):
        if needed and found.get('firmware_type') != 'uefi':
            yield f'{name} needs UEFI: the image has no property hw_firmware_type=uefi.'
    if needs_q35 and kind and not _Q35.match(kind):
        yield f'secure boot, encrypted memory and IOMMUs need the machine type q35; the image says {kind!r}.'
    if 'mem_encryption_model' in found and not encrypted:
        yield 'mem_encryption_model needs mem_encryption.'
    if 'tpm_model' in found and 'tpm_version' not in found:
        yield 'tpm_model needs tpm_version.'
    if found.get('tpm_model') == 'tpm-crb' and found.get('tpm_version') == '1.2':
        yield 'a TPM of version 1.2 has the model tpm-tis.'
    if 'maxphysaddr_bits' in found and found.get('maxphysaddr_mode', 'emulate') != 'emulate':
        yield 'maxphysaddr_bits needs maxphysaddr_mode emulate.'


def _video(found: Settings, most: int) -> Iterator[str]:
    ram = _number(found, 'video_ram')
    if ram > most:
        yield f"the image's hw_video_ram {ram} is more than the flavor's hw_video:ram_max_mb, {most}."
    if ram and found.get('video_model') in WITHOUT_MEMORY:
        yield f"the graphics device {found['video_model']} has no memory that hw_video_ram could set."


def _devices(found: Settings) -> Iterator[str]:
    if not 1 <= _number(found, 'serial_port_count', 1) <= MOST_SERIAL_PORTS:
        yield f'serial_port_count is a number from 1 to {MOST_SERIAL_PORTS}.'
    if found.get('vif_multiqueue_enabled') == TRUE and found.get('vif_model', 'virtio') != 'virtio':
        yield f"vif_multiqueue_enabled needs the network device virtio; the image's is {found['vif_model']}."
    if 'rng_rate_period' in found and not _number(found, 'rng_rate_bytes'):
        yield 'hw_rng:rate_period needs hw_rng:rate_bytes.'


def _cpu_limits(found: Settings) -> Iterator[str]:
    if _number(found, 'quota_cpu_period', PERIODS.start) not in PERIODS:
        yield f'quota:cpu_period is a number from {PERIODS.start} to {PERIODS.stop - 1}.'
    quota = _number(found, 'quota_cpu_quota', -1)
    if quota != -1 and quota < QUOTA_LEAST:
        yield f'quota:cpu_quota is -1, or {QUOTA_LEAST} and more.'
    if _number(found, 'quota_cpu_shares', SHARES.start) not in SHARES:
        yield f'quota:cpu_shares is a number from {SHARES.start} to {SHARES.stop - 1}.'


def _disk_limits(found: Settings) -> Iterator[str]:
    for unit in ('bytes', 'iops'):
        yield from _disk_totals(found, unit)
        yield from _disk_bursts(found, unit)


def _disk_totals(found: Settings, unit: str) -> Iterator[str]:
    for end in ('', '_max'):
        total, read, write = (_number(found, f'quota_disk_{what}_{unit}_sec{end}')
                              for what in ('total', 'read', 'write'))
        if total and (read or write):
            yield f'quota:disk_total_{unit}_sec{end} excludes the same of read and write.'


def _disk_bursts(found: Settings, unit: str) -> Iterator[str]:
    for what in ('total', 'read', 'write'):
        name = f'disk_{what}_{unit}_sec'
        usual, burst, seconds = (_number(found, f'quota_{name}{end}') for end in ('', '_max', '_max_length'))
        if burst and not 0 < usual < burst or seconds and not burst:
            yield f'quota:{name}_max is more than quota:{name}, and …_max_length is with it.'


def _vif_limits(found: Settings) -> Iterator[str]:
    for way in ('inbound', 'outbound'):
        average, peak, burst = (_number(found, f'quota_vif_{way}_{what}') for what in ('average', 'peak', 'burst'))
        if (peak or burst) and not average:
            yield f'quota:vif_{way}_peak and _burst need quota:vif_{way}_average.'
