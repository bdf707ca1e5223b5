"""QoS specs of volume types. A transaction that changes specs, or types that refer to them, locks the specs' row."""
import sqlalchemy as sa

from nova.db import statements
from nova.db.tables import volume as t
from nova.db.tables.rows import VolumeQosSpecsRow
from nova.db.tables.rows import VolumeTypesRow


def every(conn: sa.Connection) -> list[VolumeQosSpecsRow]:
    """Return all QoS specs, ordered by name."""
    found = conn.execute(sa.select(t.volume_qos_specs).order_by(t.volume_qos_specs.c.name))
    return [statements.to_dict(row) for row in found.mappings()]


def get(conn: sa.Connection, ident: str, lock: bool = False) -> VolumeQosSpecsRow | None:
    """Return QoS specs, or None."""
    statement = sa.select(t.volume_qos_specs).where(t.volume_qos_specs.c.id == ident)
    row = conn.execute(statement.with_for_update() if lock else statement).mappings().first()
    return None if row is None else statements.to_dict(row)


def types(conn: sa.Connection, ident: str) -> list[VolumeTypesRow]:
    """Return the volume types that refer to QoS specs, ordered by name."""
    found = conn.execute(sa.select(t.volume_types).where(t.volume_types.c.qos_specs_id == ident)
                         .order_by(t.volume_types.c.name))
    return [statements.to_dict(row) for row in found.mappings()]


def of_type(conn: sa.Connection, name: str) -> dict[str, str]:
    """Return the QoS limits of a volume type, or {} if it has none."""
    specs, kinds = t.volume_qos_specs, t.volume_types
    row = conn.execute(sa.select(specs.c.specs).join(kinds, kinds.c.qos_specs_id == specs.c.id)
                       .where(kinds.c.name == name)).first()
    return {} if row is None else row.specs


def release(conn: sa.Connection, ident: str) -> None:
    """Remove the QoS specs from all types that refer to them."""
    conn.execute(sa.update(t.volume_types).where(t.volume_types.c.qos_specs_id == ident).values(qos_specs_id=None))
