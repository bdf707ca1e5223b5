"""The host with 4+2+2 CPUs that walks through NUMA placement are told on, in its stored form and libvirt's."""
from nova.objects import numa

PAGES = [(0, [0, 1, 2, 3], 3857, 987430), (1, [4, 5], 1969, 504216), (2, [6, 7], 1967, 503575)]
STORED = {
    'nova_object.name': 'NUMATopology',
    'nova_object.data': {'cells': [{
        'nova_object.name': 'NUMACell',
        'nova_object.data': {
            'cpu_usage': 0, 'memory_usage': 0, 'cpuset': cpus, 'pinned_cpus': [], 'siblings': [], 'memory': memory,
            'mempages': [
                {'nova_object.name': 'NUMAPagesTopology',
                 'nova_object.data': {'total': total, 'used': 0, 'size_kb': 4}},
                {'nova_object.name': 'NUMAPagesTopology',
                 'nova_object.data': {'total': 0, 'used': 0, 'size_kb': 2048}}],
            'id': number}} for number, cpus, memory, total in PAGES]}}

_CELL = """
        <cell id='{number}'>
          <memory unit='KiB'>{memory_kb}</memory>
          <pages unit='KiB' size='4'>{total}</pages>
          <pages unit='KiB' size='2048'>0</pages>
          <cpus num='{count}'>{cpus}
          </cpus>
        </cell>"""
_CPU = "\n            <cpu id='{cpu}' socket_id='{cpu}' die_id='0' {cluster}core_id='0' siblings='{cpu}'/>"
_CAPABILITIES = """<capabilities>
  <host>
    <uuid>85ec40aa-dc9d-4ef2-a9b9-5ddfed75a95a</uuid>
    <cpu>
      <arch>x86_64</arch>
      <model>kvm64</model>
      <vendor>AMD</vendor>
      <topology sockets='8' dies='1' cores='1' threads='1'/>
    </cpu>
    <power_management/>
    <migration_features/>
    <topology>
      <cells num='3'>{cells}
      </cells>
    </topology>
  </host>
</capabilities>"""


def capabilities(clusters=True):
    """The host's capabilities as libvirt writes them since 10.1; ``clusters=False``: as it did before."""
    cluster = "cluster_id='0' " if clusters else ''
    return _CAPABILITIES.format(cells=''.join(
        _CELL.format(number=number, memory_kb=total * 4, total=total, count=len(cpus),
                     cpus=''.join(_CPU.format(cpu=cpu, cluster=cluster) for cpu in cpus))
        for number, cpus, _, total in PAGES))


def host():
    return numa.load_host(STORED)
