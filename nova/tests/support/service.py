"""What tests share with nova/tests/unit/test_service.py."""
class Conductor:
    """What is told to it; ``fail`` is raised instead."""

    def __init__(self, fail=None):
        self.told, self.fail = [], fail

    def _tell(self, name):
        def method(context, **values):
            self.told.append((name, values))
            if self.fail is not None:
                raise self.fail
            return {'disabled': False, 'forced_down': False}
        return method

    def __getattr__(self, name):
        return self._tell(name)

    def heartbeats(self):
        return [name for name, _ in self.told if name in ('report_service', 'heartbeat')]
