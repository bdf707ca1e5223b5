"""[devices]: mediated devices of hosts."""
from oslo_config import cfg
from oslo_config import types

GROUP = 'devices'

OPTIONS = [
    cfg.ListOpt('enabled_mdev_types', default=[],
                item_type=types.String(max_length=64, regex=r'^[0-9A-Za-z][0-9A-Za-z_.-]*\Z'),
                help='On compute hosts: types of mediated devices, such as virtual GPUs, that guests may use. The '
                     'names are those of libvirt (virsh nodedev-list --cap mdev_types; virsh nodedev-dumpxml). The '
                     'host needs mdevctl. Flavors request such devices by resources:VGPU, or by an alias of '
                     'device_type type-MD.'),
]
