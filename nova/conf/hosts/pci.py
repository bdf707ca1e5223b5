"""[pci]: devices of the hosts that guests may have, and the names that flavors ask for."""
from oslo_config import cfg

GROUP = 'pci'

OPTIONS = [
    cfg.MultiStrOpt('device_spec', default=[],
                    deprecated_opts=[cfg.DeprecatedOpt('passthrough_whitelist', group='pci'),
                                     cfg.DeprecatedOpt('pci_passthrough_whitelist', group='DEFAULT')],
                    help='On compute hosts: devices that guests may have, a JSON object or a list of such; may be '
                         'given several times. Keys: vendor_id, product_id, address (domain:bus:slot.function with *, '
                         'or a regular expression for each part), devname, and what a request may ask for: '
                         'physical_network, trusted, remote_managed, resource_class, traits. A device belongs to the '
                         'first that names it. What a host needs itself must not be named.'),
    cfg.MultiStrOpt('alias', default=[],
                    deprecated_opts=[cfg.DeprecatedOpt('pci_alias', group='DEFAULT')],
                    help='On API hosts: names that the extra spec pci_passthrough:alias of a flavor may ask for, a '
                         'JSON object each; may be given several times, and those of one name are alternatives. Keys: '
                         'name, vendor_id, product_id, device_type (type-PCI, type-PF, type-VF or type-MD), '
                         'numa_policy (required, preferred, legacy or socket), resource_class, traits, mdev_type.'),
]
