"""Counters of servers and hosts: what a driver measures in one sample, and its form in messages."""
import typing
from nova.json_types import Json

SAMPLE_S = 20                # seconds between two samples
MAX = 2 ** 63 - 1


class Counters(typing.NamedTuple):
    """Usage of one guest or host. None: the driver does not know the value.

    run           identifies a run of the guest or host; a new run restarts the counters at 0
    memory_bytes  memory in use now
    others        totals of all processors, disks and ports since the run began; "receive": traffic to the guest or host
    """

    run: str
    memory_bytes: int | None = None
    cpu_ns: int | None = None
    disk_read_bytes: int | None = None
    disk_write_bytes: int | None = None
    disk_read_requests: int | None = None
    disk_write_requests: int | None = None
    network_receive_bytes: int | None = None
    network_transmit_bytes: int | None = None
    network_receive_packets: int | None = None
    network_transmit_packets: int | None = None


NAMES = Counters._fields[2:]             # values that only increase during a run
_LENGTH = len(Counters._fields)


def dumped(samples: dict[str, Counters]) -> dict[str, list[str | int | None]]:
    """Return samples in the form of a message: {uuid or node: values of the sample}."""
    return {key: list(sample) for key, sample in samples.items()}


def loaded(found: Json) -> dict[str, Counters]:
    """Return {uuid or node: Counters} of a message.

    :raises ValueError: it is malformed
    """
    if not isinstance(found, dict):
        raise ValueError('the counters are not a dictionary')
    return {str(key): _loaded(values) for key, values in found.items()}


def _loaded(values: object) -> Counters:
    if not isinstance(values, (list, tuple)) or len(values) < _LENGTH:
        raise ValueError('a sample lacks values')
    run, *numbers = values[:_LENGTH]         # later releases may append values
    for number in numbers:
        if number is not None and (type(number) is not int or not 0 <= number <= MAX):
            raise ValueError('a counter is not a number from 0 to 2^63 - 1')
    return Counters(str(run), *numbers)
