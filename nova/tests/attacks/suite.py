"""All families together: run them, and what they found."""
import collections
import dataclasses
from collections.abc import Callable
from collections.abc import Iterator

from nova.tests.attacks import faces
from nova.tests.attacks import framing
from nova.tests.attacks import images
from nova.tests.attacks import inputs
from nova.tests.attacks import isolation
from nova.tests.attacks import neighbours
from nova.tests.attacks import objects
from nova.tests.attacks import privilege
from nova.tests.attacks import tokens
from nova.tests.attacks.base import Attack

FAMILIES = (isolation, neighbours, privilege, tokens, framing, inputs, images, faces, objects)


@dataclasses.dataclass(frozen=True)
class Result:
    """An attack, and how the cloud broke under it; None: it held."""

    attack: Attack
    broke: str | None


def attacks(stage) -> Iterator[Attack]:
    """Every attack that this stage can stand; names are unique within a family."""
    for family in FAMILIES:
        yield from family.attacks(stage)


def run(stage, chosen: Callable[[Attack], bool] = lambda attack: True) -> Iterator[Result]:
    """Strike with the attacks that are chosen, one after the other."""
    for attack in attacks(stage):
        if chosen(attack):
            yield Result(attack, attack.strike(stage))


def counted(results) -> dict[str, tuple[int, int]]:
    """{family: (held, broken)}."""
    found = collections.defaultdict(lambda: [0, 0])
    for result in results:
        found[result.attack.family][result.broke is not None] += 1
    return {family: (held, broken) for family, (held, broken) in sorted(found.items())}
