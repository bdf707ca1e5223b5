"""Operations of the fake driver that last as long as a test needs them."""
import contextlib
import functools
import threading

import pytest

from nova.tests.support import waiting

HELD_S = 60


@contextlib.contextmanager
def held(name, *machines):
    """Within the block no machine gets beyond the beginning of an operation, unless the test lets it.

    :return: (event that is set when one begins, event by which the test lets all go on)
    """
    begun, goes_on = threading.Event(), threading.Event()

    def operation(method, asked, *more):
        if asked == name:
            begun.set()
            limit = waiting.Limit(HELD_S)
            while not goes_on.wait(1):
                assert not limit.is_over(), f'{name} was held for {HELD_S} s'
        return method(asked, *more)
    with pytest.MonkeyPatch.context() as patch:
        for machine in machines:
            patch.setattr(machine, 'operation', functools.partial(operation, machine.operation))
        try:
            yield begun, goes_on
        finally:
            goes_on.set()
