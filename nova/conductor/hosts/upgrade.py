"""Object backports for services of older releases."""
import typing

from oslo_versionedobjects import exception as object_exc
import orjson

from nova import exception
from nova.conductor.cell_services import Context
from nova.rpc import serializer


def object_backport(ctx: Context, primitive: str, versions: dict[str, str]) -> str:
    """See rpc/interface.py."""
    try:
        made: typing.Any = serializer.from_primitive(orjson.loads(primitive), ctx)
    except object_exc.IncompatibleObjectVersion as error:
        raise exception.Unsupported(f'This conductor is older than {error.kwargs["objname"]} '
                                    f'{error.kwargs["objver"]}: conductors are upgraded first.') from None
    return orjson.dumps(serializer.to_primitive(made, versions)).decode()
