"""Quotas of projects for volumes."""
from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.projects import quotas
from nova.db.projects import storage_quotas
from nova.db.volumes import types as db_types
from nova.db.volumes import volumes as db
from nova.volume.store import types

MAX_SIZE = 65536                                  # maximum size of a volume in GiB
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
        """Return {resource: limit} of a project for storage_quotas.VOLUMES; -1 means unlimited."""
        limits = storage_quotas.of_project(conn, self._conf, project_id)
        return {name: limits[name] for name in storage_quotas.VOLUMES}

    def defaults(self, conn: Connection) -> dict[str, int]:
        """Return {resource: limit} of projects that have no limits set."""
        limits = storage_quotas.defaults(conn, self._conf)
        return {name: limits[name] for name in storage_quotas.VOLUMES}

    def set(self, project_id: str, limits: dict[str, int], below_usage: bool = True) -> dict[str, int]:
        """Set limits of a project; return all its limits.

        :param below_usage: whether a limit may be lower than the usage
        :raises BadRequest: a limit is lower than the usage, or no volume type has the name
        """
        def write(conn: Connection) -> dict[str, int]:
            quotas.lock(conn, project_id)
            used, stored = db.used(conn, project_id) | db.used_of_types(conn, project_id), _stored(conn)
            for name, limit in limits.items():
                if name not in storage_quotas.VOLUMES and name not in stored:
                    raise exception.BadRequest(f'There is no quota {name[:255]!r}: no volume type has this name.')
                if not below_usage and 0 <= limit < used.get(name, 0):
                    raise exception.BadRequest(f'Quota limit {limit} for {name} is lower than the {used[name]} in use.')
            quotas.set_limits(conn, project_id, {stored.get(name, name): limit for name, limit in limits.items()})
            return self.of(conn, project_id) | self.of_types(conn, project_id)
        return self._db.run(write)

    def delete(self, project_id: str) -> None:
        """Reset a project to the default limits."""
        def write(conn: Connection) -> None:
            quotas.delete_limits(conn, project_id, resources=(*storage_quotas.VOLUMES, *_stored(conn).values()))
        self._db.run(write)

    def of_types(self, conn: Connection, project_id: str) -> dict[str, int]:
        """Return the limits of a project for single volume types: {'volumes_TYPE': limit}; -1 means unlimited."""
        stored = _stored(conn)
        own = quotas.own_limits(conn, project_id, set(stored.values()))
        return {name: own.get(key, quotas.UNLIMITED) for name, key in stored.items()}

    def check_type(self, conn: Connection, project_id: str, kind: types.Type, noun: str | None, adding: int,
                   number: int = 1) -> None:
        """Check the limits of a project for one volume type; for the parameters see ``check``.

        :raises QuotaExceeded: or a subclass
        """
        keys = {each: storage_quotas.of_type(each, kind['id']) for each in storage_quotas.PER_TYPE}
        limits = quotas.own_limits(conn, project_id, set(keys.values()))
        used = db.used_of_types(conn, project_id, kind['name']) if limits else {}
        for each, more, error in ((noun, number, _TOO_MANY.get(noun or '')),
                                  ('gigabytes', adding, exception.VolumeSizeExceedsAvailableQuota)):
            if each and error:
                name, limit = f'{each}_{kind["name"]}', limits.get(keys[each], quotas.UNLIMITED)
                if 0 <= limit < used.get(name, 0) + more:
                    raise error(resource=name, requested=more, used=used.get(name, 0), limit=limit)

    def check(self, conn: Connection, project_id: str, noun: str | None, adding: int, size: int = 0,
              volume_type: str = '', number: int = 1) -> None:
        """Check the quota of a project.

        :param noun: 'volumes', 'snapshots' or 'backups': the kind of new resource; None: nothing is created
        :param adding: additional GiB
        :param size: GiB of the volume
        :param volume_type: name of the type of the volume; empty for backups
        :param number: new resources of this kind
        :raises QuotaExceeded: or a subclass
        :raises InvalidInput: the volume would be larger than MAX_SIZE
        """
        quotas.lock(conn, project_id)
        used, limits = db.used(conn, project_id), self.of(conn, project_id)
        if 0 <= limits['per_volume_gigabytes'] < size:
            raise exception.VolumeSizeExceedsLimit(size=size, limit=limits['per_volume_gigabytes'])
        pool, too_large = (('backup_gigabytes', exception.QuotaExceeded) if noun == 'backups' else
                           ('gigabytes', exception.VolumeSizeExceedsAvailableQuota))
        for name, more, error in ((noun, number, _TOO_MANY.get(noun or '')), (pool, adding, too_large)):
            if name and error and 0 <= limits[name] < used[name] + more:
                raise error(resource=name, requested=more, used=used[name], limit=limits[name])
        if volume_type:
            kind = types.find(conn, volume_type, nova_context.ALL_PROJECTS)
            self.check_type(conn, project_id, kind, noun, adding, number)
        if size > MAX_SIZE:              # checked last: if a quota is exceeded too, the error names the quota
            raise _invalid(size)


def _stored(conn: Connection) -> dict[str, str]:
    """Return {name in the API: name in the database} of all limits for single volume types."""
    kinds: list[types.Type] = [*types.TYPES, *db_types.every(conn, nova_context.ALL_PROJECTS)]
    return {f'{noun}_{kind["name"]}': storage_quotas.of_type(noun, kind['id'])
            for kind in kinds for noun in storage_quotas.PER_TYPE}


def check_size(size: int | None) -> int:
    """Check that the size of a volume is positive, and return the size; ``Limits.check`` checks the maximum.

    :raises InvalidInput: the size is missing or not positive
    """
    if not size or size < 0:
        raise _invalid(size)
    return size


def _invalid(size: int | None) -> exception.InvalidInput:
    return exception.InvalidInput(reason=f"Volume size '{size}' must be an integer of 1 to {MAX_SIZE} GB.")
