"""[pci]: host devices that guests may use, and the aliases with which flavors request them."""
from oslo_config import cfg

GROUP = 'pci'

OPTIONS = [
    cfg.MultiStrOpt('device_spec', default=[],
                    deprecated_opts=[cfg.DeprecatedOpt('passthrough_whitelist', group='pci'),
                                     cfg.DeprecatedOpt('pci_passthrough_whitelist', group='DEFAULT')],
                    help='On compute hosts: PCI devices that guests may use, as a JSON object or a list of '
                         'objects. The option may be repeated. Keys: vendor_id, product_id, address '
                         '(domain:bus:slot.function with *, or a regular expression for each part), devname, and '
                         'the properties that a request can match: physical_network, trusted, remote_managed, '
                         'resource_class, traits. The first matching object applies to a device. Do not include '
                         'devices that the host itself needs.'),
    cfg.MultiStrOpt('alias', default=[],
                    deprecated_opts=[cfg.DeprecatedOpt('pci_alias', group='DEFAULT')],
                    help='On API hosts: aliases for the extra spec pci_passthrough:alias of flavors, each a JSON '
                         'object. The option may be repeated; objects with the same name are alternatives. Keys: '
                         'name, vendor_id, product_id, device_type (type-PCI, type-PF, type-VF or type-MD), '
                         'numa_policy (required, preferred, legacy or socket), resource_class, traits, mdev_type.'),
]
