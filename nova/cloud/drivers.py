"""Drivers of an all-in-one. The first start selects the drivers permanently for the deployment."""
import os
import pathlib

from oslo_config import cfg

from nova import exception
from nova.runtime import durable_files
from nova.runtime import host_identity
from nova.runtime import system_modules

# {name of the driver: (compute_driver, driver of [network])}
DRIVERS = {'libvirt': ('libvirt', 'linux'), 'fake': ('fake', 'fake')}


def choose(conf: cfg.ConfigOpts, wanted: str | None = None) -> str | None:
    """Set the drivers in ``conf``.

    :param wanted: 'libvirt', 'fake', 'auto'; None is compute_driver if a file sets it, else auto
    :returns: a sentence for the user if libvirt is not usable, else None
    :raises InvalidInput: the deployment was created with another driver, or compute_driver is for a single host
    """
    recorded, reason = read(conf), None
    source = conf.get_location('compute_driver')
    if wanted is None and source is not None and source.location.is_user_controlled:
        wanted = conf.compute_driver
        if wanted not in DRIVERS:
            raise exception.InvalidInput(f'An all-in-one has the compute_driver {" or ".join(DRIVERS)}, not {wanted}.')
    if wanted in (None, 'auto'):
        wanted = recorded
        if wanted is None:
            reason = unusable(conf)
            wanted = 'fake' if reason else 'libvirt'
    if recorded not in (None, wanted):
        raise exception.InvalidInput(
            f'{host_identity.state_path(conf)} belongs to a cloud on the {recorded} driver: use --driver {recorded}, '
            'or another --state-path.')
    compute, network = DRIVERS[wanted]
    conf.set_override('compute_driver', compute)
    conf.set_override('driver', network, group='network')
    return f'{reason} The fake driver is used: servers exist only in the database.' if reason else None


def _file(conf: cfg.ConfigOpts) -> pathlib.Path:
    return pathlib.Path(host_identity.state_path(conf)) / 'driver'


def read(conf: cfg.ConfigOpts) -> str | None:
    """Return the driver of the deployment, None before its first start."""
    try:
        return _file(conf).read_text().strip() or None
    except FileNotFoundError:
        return None


def record(conf: cfg.ConfigOpts) -> None:
    if read(conf) is None:
        durable_files.replace(_file(conf), conf.compute_driver.encode())


def unusable(conf: cfg.ConfigOpts) -> str | None:
    """Return the reason why libvirt and real networks are not usable here, or None."""
    if os.geteuid() != 0:
        return 'Without root there are no bridges and no system libvirt.'
    system_modules.use()
    try:
        import libvirt
    except ImportError as error:
        return f'{error}.'
    try:
        libvirt.registerErrorHandler(lambda *_: None, None)
        from nova.virt.libvirt import host
        libvirt.open(host.address(conf)).close()
    except libvirt.libvirtError as error:
        return f'libvirt does not answer ({error.get_error_message()}).'
    return None
