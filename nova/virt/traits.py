"""Traits: what a host can, by the names that os-traits gives to it (https://docs.openstack.org/os-traits/latest/)."""
from __future__ import annotations

import re

NAME = re.compile(r'[A-Z0-9_]{1,255}')

# of the processor's flags, as /proc/cpuinfo or libvirt writes them, without '.', '_' and '-'
_X86 = {
    **{flag: flag.upper() for flag in (
        'avx', 'avx2', 'avx512f', 'avx512cd', 'avx512bw', 'avx512dq', 'avx512vl', 'avx512vnni', 'avx512vbmi',
        'avx512ifma', 'bmi1', 'bmi2', 'f16c', 'fma4', 'mmx', 'mpx', 'pcid', 'sgx', 'ssbd', 'sse', 'sse2', 'sse4a',
        'ssse3', 'stibp', 'svm', 'tbm', 'tsx', 'vmx', 'xop')},
    'aes': 'AESNI', 'fma': 'FMA3', 'abm': 'ABM', 'lzcnt': 'ABM', 'pni': 'SSE3', 'sse3': 'SSE3', 'sse41': 'SSE41',
    'sse42': 'SSE42', 'pclmuldq': 'CLMUL', 'pclmulqdq': 'CLMUL', 'shani': 'SHA', '3dnow': '3DNOW'}

# of the driver's capabilities
_CAPABILITIES = {
    'extend_volume': 'COMPUTE_VOLUME_EXTEND', 'interfaces': 'COMPUTE_NET_ATTACH_INTERFACE',
    'stable_rescue': 'COMPUTE_RESCUE_BFV', 'shares': 'COMPUTE_SHARE_LOCAL_FS'}


def of(flags: dict[str, str] | list[str], capabilities: dict[str, bool]) -> list[str]:
    """The names of traits, in their order, each once.

    :param flags: of the processor
    :param capabilities: {feature: bool} of the driver
    """
    plain = {re.sub('[._-]', '', flag.lower()) for flag in flags}
    found = {'HW_CPU_X86_' + trait for flag, trait in _X86.items() if flag in plain}
    found |= {trait for feature, trait in _CAPABILITIES.items() if capabilities.get(feature)}
    return sorted(found)


def local_flags() -> list[str]:
    """Flags of this machine's processor."""
    with open('/proc/cpuinfo') as file:
        for line in file:
            name, _, value = line.partition(':')
            if name.strip() in ('flags', 'Features'):
                return value.split()
    return []
