"""Quotas of projects for volumes."""
from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.projects import quotas
from nova.db.projects import storage_quotas
from nova.db.volumes import volumes as db

MAX_SIZE = 65536                                  # GiB of one volume
_TOO_MANY: dict[str, type[exception.QuotaExceeded]] = {
    'volumes': exception.VolumeLimitExceeded, 'snapshots': exception.SnapshotLimitExceeded,
    'backups': exception.QuotaExceeded}


class Limits:
    """Quotas.

    :param conf: uses [volume]
    :param database: the API database
    """

    def __init__(self, conf: ConfigOpts, database: Database) -> None:
        self._conf, self._db = conf, database

    def of(self, conn: Connection, project_id: str) -> dict[str, int]:
        """Return {resource: limit} of storage_quotas.VOLUMES for a project; -1: unlimited."""
        limits = storage_quotas.of_project(conn, self._conf, project_id)
        return {name: limits[name] for name in storage_quotas.VOLUMES}

    def defaults(self, conn: Connection) -> dict[str, int]:
        """Return {resource: limit} of a project without its own limits."""
        limits = storage_quotas.defaults(conn, self._conf)
        return {name: limits[name] for name in storage_quotas.VOLUMES}

    def set(self, project_id: str, limits: dict[str, int], below_usage: bool = True) -> dict[str, int]:
        """Set limits of a project; return all its limits.

        :param below_usage: whether a limit may be lower than the usage
        :raises BadRequest: a limit is lower than the usage
        """
        def write(conn: Connection) -> dict[str, int]:
            quotas.lock(conn, project_id)
            used = db.used(conn, project_id)
            for name, limit in limits.items():
                if not below_usage and 0 <= limit < used.get(name, 0):
                    raise exception.BadRequest(f'Quota limit {limit} for {name} is lower than the {used[name]} in use.')
            quotas.set_limits(conn, project_id, limits)
            return self.of(conn, project_id)
        return self._db.run(write)

    def delete(self, project_id: str) -> None:
        """Reset a project to the default limits."""
        self._db.run(quotas.delete_limits, project_id, resources=storage_quotas.VOLUMES)

    def check(self, conn: Connection, project_id: str, noun: str | None, adding: int, size: int = 0) -> None:
        """Check the quota of a project.

        :param noun: 'volumes', 'snapshots' or 'backups': kind of the new resource; None: no new one
        :param adding: GiB
        :param size: GiB of one volume
        :raises QuotaExceeded: or a subclass
        """
        db.lock_project(conn, project_id)
        used, limits = db.used(conn, project_id), self.of(conn, project_id)
        if 0 <= limits['per_volume_gigabytes'] < size:
            raise exception.VolumeSizeExceedsLimit(size=size, limit=limits['per_volume_gigabytes'])
        pool, too_large = (('backup_gigabytes', exception.QuotaExceeded) if noun == 'backups' else
                           ('gigabytes', exception.VolumeSizeExceedsAvailableQuota))
        for name, more, error in ((noun, 1, _TOO_MANY.get(noun or '')), (pool, adding, too_large)):
            if name and error and 0 <= limits[name] < used[name] + more:
                raise error(resource=name, requested=more, used=used[name], limit=limits[name])


def check_size(size: int | None) -> int:
    """Check the size of a volume and return it; raises InvalidInput (invalid size)."""
    if size is None or not 0 < size <= MAX_SIZE:
        raise exception.InvalidInput(reason=f"Volume size '{size}' must be an integer of 1 to {MAX_SIZE} GB.")
    return size
