"""What tests share with nova/tests/unit/test_numa_walks.py."""
from xml.etree import ElementTree as etree

ONE_CELL = {
    'vcpu': '<vcpu placement="static">4</vcpu>',
    'cputune': '''<cputune>
  <vcpupin vcpu="0" cpuset="0-3" />
  <vcpupin vcpu="1" cpuset="0-3" />
  <vcpupin vcpu="2" cpuset="0-3" />
  <vcpupin vcpu="3" cpuset="0-3" />
  <emulatorpin cpuset="0-3" />
</cputune>''',
    'cpu': '''<cpu>
  <topology sockets="4" cores="1" threads="1" />
  <numa>
    <cell id="0" cpus="0-3" memory="1048576" />
  </numa>
</cpu>''',
    'numatune': '''<numatune>
  <memory mode="strict" nodeset="0" />
  <memnode cellid="0" mode="strict" nodeset="0" />
</numatune>'''}
TWO_CELLS = {
    'vcpu': ONE_CELL['vcpu'],
    'cputune': '''<cputune>
  <vcpupin vcpu="0" cpuset="0-3" />
  <vcpupin vcpu="1" cpuset="0-3" />
  <vcpupin vcpu="2" cpuset="4-5" />
  <vcpupin vcpu="3" cpuset="4-5" />
  <emulatorpin cpuset="0-5" />
</cputune>''',
    'cpu': '''<cpu>
  <topology sockets="4" cores="1" threads="1" />
  <numa>
    <cell id="0" cpus="0-1" memory="524288" />
    <cell id="1" cpus="2-3" memory="524288" />
  </numa>
</cpu>''',
    'numatune': '''<numatune>
  <memory mode="strict" nodeset="0-1" />
  <memnode cellid="0" mode="strict" nodeset="0" />
  <memnode cellid="1" mode="strict" nodeset="1" />
</numatune>'''}


def stored_cell(number, cpus, memory):
    return {'nova_object.name': 'InstanceNUMACell', 'nova_object.data': {
        'cpu_topology': None, 'pagesize': None, 'cpuset': cpus, 'memory': memory, 'cpu_pinning_raw': None,
        'id': number}}


STORED_ONE = [stored_cell(0, [0, 1, 2, 3], 1024)]
STORED_TWO = [stored_cell(0, [0, 1], 512), stored_cell(1, [2, 3], 512)]


def text(element):
    etree.indent(element)
    return etree.tostring(element, encoding='unicode')
