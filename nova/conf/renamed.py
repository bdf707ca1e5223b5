"""Options that had another name before the first release. A configuration with an old name is refused."""
import os
import pathlib
import re

from oslo_config import cfg

_LINE = re.compile(r'^(?:\[([^]]+)\]|(\w+)\s*[=:])', re.MULTILINE)         # a [group] line or an option line

# (group, old name): new name
NAMES = {
    ('network', 'shortcuts'): 'flow_offload',
    ('conductor', 'task_give_up'): 'task_timeout',
    ('conductor', 'maintenance_moves'): 'max_concurrent_maintenance_moves',
    ('conductor', 'disk_keys'): 'disk_key_backend',
    ('volume', 'encryption_keys'): 'encryption_key_backend',
    ('image', 'certificates'): 'certificate_backend',
    ('libvirt', 'share_program'): 'virtiofsd_path',
    ('libvirt', 'sandbox_images'): 'sandbox_qemu_img',
}


class RenamedOption(cfg.Error):
    """A configuration file sets an option by its old name."""


def check(conf: cfg.ConfigOpts) -> None:
    """Refuse old names in the files that a configuration was read from, and in its environment.

    oslo.config ignores options that are not registered: the option would silently have its default value.

    :raises RenamedOption: the message has all old names with the new ones
    """
    files, directories = conf.config_file or [], conf.config_dir or []
    given = {(group, name) for group, name in NAMES if f'OS_{group}__{name}'.upper() in os.environ}
    for path in [*files, *(path for name in directories for path in pathlib.Path(name).glob('*.conf'))]:
        group = 'DEFAULT'
        for header, name in _LINE.findall(pathlib.Path(path).read_text(errors='replace')):
            group = header or group
            given.add((group, name))
    found = [f'[{group}] {name} is now [{group}] {new}' for (group, name), new in NAMES.items()
             if (group, name) in given]
    if found:
        raise RenamedOption(f'Options of the configuration have new names: {"; ".join(found)}. Rename them in '
                            f'{", ".join([*files, *directories, "the environment"])} and start again.')
