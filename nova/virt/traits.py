"""Host traits with the names of os-traits (https://docs.openstack.org/os-traits/latest/)."""
import re

NAME = re.compile(r'[A-Z0-9_]{1,255}')

# {processor flag of /proc/cpuinfo or libvirt, without '.', '_' and '-': trait}
_X86 = {
    **{flag: flag.upper() for flag in (
        'avx', 'avx2', 'avx512f', 'avx512cd', 'avx512bw', 'avx512dq', 'avx512vl', 'avx512vnni', 'avx512vbmi',
        'avx512ifma', 'bmi1', 'bmi2', 'f16c', 'fma4', 'mmx', 'mpx', 'pcid', 'sgx', 'ssbd', 'sse', 'sse2', 'sse4a',
        'ssse3', 'stibp', 'svm', 'tbm', 'tsx', 'vmx', 'xop')},
    'aes': 'AESNI', 'fma': 'FMA3', 'abm': 'ABM', 'lzcnt': 'ABM', 'pni': 'SSE3', 'sse3': 'SSE3', 'sse41': 'SSE41',
    'sse42': 'SSE42', 'pclmuldq': 'CLMUL', 'pclmulqdq': 'CLMUL', 'shani': 'SHA', '3dnow': '3DNOW'}

# {capability of the driver: trait}
_CAPABILITIES = {
    'extend_volume': 'COMPUTE_VOLUME_EXTEND', 'interfaces': 'COMPUTE_NET_ATTACH_INTERFACE',
    'stable_rescue': 'COMPUTE_RESCUE_BFV', 'shares': 'COMPUTE_SHARE_LOCAL_FS'}


def of(flags: dict[str, str] | list[str], capabilities: dict[str, bool]) -> list[str]:
    """Return the sorted, unique names of traits.

    :param flags: flags of the processor
    :param capabilities: {feature: bool} of the driver
    """
    plain = {re.sub('[._-]', '', flag.lower()) for flag in flags}
    found = {'HW_CPU_X86_' + trait for flag, trait in _X86.items() if flag in plain}
    found |= {trait for feature, trait in _CAPABILITIES.items() if capabilities.get(feature)}
    return sorted(found)


def local_flags() -> list[str]:
    """Return the flags of this machine's processor."""
    with open('/proc/cpuinfo') as file:
        for line in file:
            name, _, value = line.partition(':')
            if name.strip() in ('flags', 'Features'):
                return value.split()
    return []
