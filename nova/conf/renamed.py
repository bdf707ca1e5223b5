"""Options that had another name before the first release. A configuration with an old name is refused."""
from __future__ import annotations

from oslo_config import cfg

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
    former = cfg.ConfigOpts()
    for group, name in NAMES:
        former.register_opt(cfg.StrOpt(name), group=group)
    files, directories = conf.config_file or [], conf.config_dir or []
    former([], project='nova', default_config_files=files, default_config_dirs=directories)
    found = [f'[{group}] {name} is now [{group}] {new}' for (group, name), new in NAMES.items()
             if _is_set(former, group, name)]
    if found:
        raise RenamedOption(f'Options of the configuration have new names: {"; ".join(found)}. Rename them in '
                            f'{", ".join([*files, *directories, "the environment"])} and start again.')


def _is_set(former: cfg.ConfigOpts, group: str, name: str) -> bool:
    try:
        return former[group][name] is not None
    except cfg.Error:                # its value refers to an option that is not registered here
        return True
