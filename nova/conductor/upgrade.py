"""What a conductor does for services of other releases: objects in their versions, and rows in the newest form."""
import orjson

from nova import exception
from nova.rpc import serializer


class Upgrader:
    """Part of the conductor, which has ``_data_migrations``, an online.Background."""

    def versions(self):
        """{topic: lowest VERSION of its living services}; compose hands in what the process's bus knows."""
        return {}

    def migrate_data(self):
        """A batch of each online data migration that has something left."""
        self._data_migrations.run()

    def object_backport(self, ctx, primitive, versions):
        try:
            made = serializer.from_primitive(orjson.loads(primitive), ctx)
        except serializer.object_exc.IncompatibleObjectVersion as error:
            raise exception.Unsupported(f'This conductor is older than {error.kwargs["objname"]} '
                                        f'{error.kwargs["objver"]}: conductors are upgraded first.') from None
        return orjson.dumps(serializer.to_primitive(made, versions)).decode()
