"""Storage quotas: limits of a project's images and volumes in the embedded services.

Limits of images are unified limits of the identity service. Configuration options define the registered limits;
the id of a registered limit is the name of its resource. The tables of server quotas contain the limits of volumes, and
limits of images from an older release.

Usage is counted from the rows of images, volumes and snapshots under the lock of the project's row.
"""
from collections.abc import Mapping

from oslo_config.cfg import ConfigOpts
from sqlalchemy import Connection

from nova import exception
from nova.db.identity import directory
from nova.db.projects import quotas

MIB = 2 ** 20
IMAGES = ('image_size_total', 'image_count_total', 'image_count_uploading')
VOLUMES = ('volumes', 'snapshots', 'gigabytes', 'per_volume_gigabytes', 'backups', 'backup_gigabytes', 'groups')
PER_TYPE = ('volumes', 'snapshots', 'gigabytes')         # resources that also have limits for single volume types
UNITS = {'image_size_total': 'MiB', 'gigabytes': 'GiB', 'per_volume_gigabytes': 'GiB',
         'backup_gigabytes': 'GiB'}      # units of these limits; other limits are numbers of resources


def configured(conf: ConfigOpts) -> dict[str, int]:
    """Return {resource: limit} of the configuration; the options for volumes also limit snapshots and backups."""
    images, most = conf.quota, conf.volume
    return {**{name: images[name] for name in IMAGES}, 'volumes': most.volumes, 'snapshots': most.volumes,
            'gigabytes': most.gigabytes, 'per_volume_gigabytes': most.per_volume_gigabytes, 'backups': most.volumes,
            'backup_gigabytes': most.gigabytes, 'groups': 0}       # volume groups are not supported


def defaults(conn: Connection, conf: ConfigOpts) -> dict[str, int]:
    """Return {resource: limit} of projects without limits in ``quotas``; -1 is unlimited."""
    found = configured(conf)
    return found | quotas.class_limits(conn, quotas.DEFAULT_CLASS, found)


def of_project(conn: Connection, conf: ConfigOpts, project_id: str) -> dict[str, int]:
    """Return {resource: limit} of a project in the units of UNITS; -1 is unlimited."""
    return defaults(conn, conf) | quotas.own_limits(conn, project_id, (*IMAGES, *VOLUMES)) | directory.project_limits(
        conn, project_id, IMAGES)


def set_limit(conn: Connection, project_id: str, resource: str, limit: int) -> None:
    """Store a limit of a project.

    :param resource: one of IMAGES and VOLUMES
    """
    if resource in IMAGES:
        directory.set_project_limit(conn, project_id, resource, limit)
    else:
        quotas.set_limits(conn, project_id, {resource: limit})


def reset(conn: Connection, project_id: str) -> None:
    """Delete the limits of a project for images, volumes, snapshots and backups, also those for single volume types."""
    quotas.delete_limits(conn, project_id, resources=(*IMAGES, *VOLUMES),
                         prefixes=tuple(of_type(noun, '') for noun in PER_TYPE))
    for resource in IMAGES:
        directory.delete_project_limit(conn, project_id, resource)


def registered(conn: Connection, conf: ConfigOpts) -> dict[str, int]:
    """Return {resource: limit} of IMAGES for projects without own limits, in the units of UNITS."""
    limits = defaults(conn, conf)
    return {name: limits[name] for name in IMAGES}


def of_type(noun: str, type_id: str) -> str:
    """Return the name under which the limit of a resource for one volume type is stored.

    :param noun: one of PER_TYPE
    """
    return f'{noun}:{type_id}'


def of_images(conf: ConfigOpts, conn: Connection, project_id: str) -> dict[str, int]:
    """Return {resource: limit} of the resources in IMAGES; sizes are in bytes."""
    limits = of_project(conn, conf, project_id)
    return {name: limits[name] * (MIB if name in UNITS and limits[name] > 0 else 1) for name in IMAGES}


def unlimited(conn: Connection, project_id: str) -> dict[str, int]:
    """Return {resource: -1} of the resources in IMAGES, for an image store without quotas."""
    return dict.fromkeys(IMAGES, quotas.UNLIMITED)


def check(resource: str, adding: int, limits: Mapping[str, int], used: Mapping[str, int]) -> int | None:
    """Check that the limit allows ``adding`` more; return the amount that was free before, or None if unlimited.

    :raises QuotaExceeded: the limit would be exceeded
    """
    limit = limits[resource]
    if limit < 0:
        return None
    if used[resource] + adding > limit:
        raise exception.QuotaExceeded(resource=resource, requested=adding, used=used[resource], limit=limit)
    return limit - used[resource]
