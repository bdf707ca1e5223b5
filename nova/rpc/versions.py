"""Versions of services and of their messages during a rolling upgrade.

A service's database row contains its VERSION; RELEASES lists the interfaces and objects of each VERSION. A sender uses
the lowest VERSION among the possible receivers (``auto`` in [upgrade_levels]), or a configured version. Services with
database access read the rows at start, on SIGHUP and every REFRESH_S. Other services get the versions in the replies
to heartbeats. nova-api receives no messages and has no row. Replies use the VERSION that the request names.
"""
from collections.abc import Callable, Mapping
import dataclasses
import logging
import threading
import time

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.rpc.interface import parsed
from nova.runtime import concurrency
from nova.runtime import release

LOG = logging.getLogger(__name__)

AUTO = 'auto'
REFRESH_S = 30              # seconds between two reads of the service rows; a read is one grouped SELECT in each cell


@dataclasses.dataclass(frozen=True)
class Release:
    """Interfaces and objects of one VERSION.

    interfaces  {topic: version}
    objects     {name: version}
    """

    interfaces: dict[str, str]
    objects: dict[str, str]


RELEASES = {                 # 1 was never released
    2: Release({'compute': '1.2', 'conductor': '1.5', 'scheduler': '1.0', 'network': '1.5', 'network_agent': '1.0',
                'cert': '1.1'},
               {'Instance': '1.2', 'Migration': '1.0', 'RequestSpec': '1.1', 'Selection': '1.0'}),
}
VERSION, OLDEST = release.VERSION, min(RELEASES)      # the current and the oldest supported VERSION
TOPICS = tuple(RELEASES[VERSION].interfaces)


@dataclasses.dataclass(frozen=True)
class Pin:
    """Versions of the messages that are sent to the receivers of one topic.

    interface   newest interface version that messages may use, as a tuple; None: no limit
    objects     {name: version} of sent objects; None: the current versions
    """

    interface: tuple[int, int] | None = None
    objects: dict[str, str] | None = None


NEWEST = Pin()


def pin_of(topic: str, lowest: int) -> Pin:
    """Return the Pin for receivers with this lowest VERSION."""
    release = RELEASES[min(max(lowest, OLDEST), VERSION)]
    if release == RELEASES[VERSION] or topic not in release.interfaces:
        return NEWEST
    return Pin(parsed(release.interfaces[topic]), release.objects)


def configured_pin(topic: str, level: str) -> Pin | None:
    """Return the Pin for a version in [upgrade_levels]; None for auto.

    The object versions are those of the oldest release with this interface version.

    :raises InvalidInput: no known release has this version
    """
    if level == AUTO:
        return None
    for number, row in sorted(RELEASES.items()):
        if row.interfaces.get(topic) == level:
            return pin_of(topic, number)
    known = sorted({row.interfaces[topic] for row in RELEASES.values() if topic in row.interfaces}, key=parsed)
    raise exception.InvalidInput(reason=f'[upgrade_levels] {topic} is {level}; known are auto, {", ".join(known)}.')


class Pins:
    """The Pin of each topic, for one process.

    :param conf: [upgrade_levels]
    :param alone: whether this process contains every service
    :raises InvalidInput: [upgrade_levels] names an unknown version
    """

    def __init__(self, conf: ConfigOpts, alone: bool = False) -> None:
        self._conf, self._alone = conf, alone
        self._look: Callable[[], Mapping[str, int]] | None = None
        self._due: float | None = None
        self._lowest: Mapping[str, int] | None = {} if alone else None      # {topic: VERSION}; None: not known yet
        self._lock = threading.Lock()
        self._refused: str | None = None                  # the last logged configuration error
        self._pins = self._made()
        self._log(self._pins)

    def of(self, topic: str) -> Pin:
        """Return the Pin of a topic."""
        self._renew()
        return self._pins.get(topic, NEWEST)

    def lowest(self) -> dict[str, int]:
        """Return {topic: lowest VERSION of its running services}, for services without database access."""
        self._renew()
        return dict(self._lowest or {})

    def follow(self, look: Callable[[], Mapping[str, int]]) -> None:
        """Read the versions now and periodically.

        :param look: function() -> {topic: lowest VERSION}; a topic without running services may be missing
        """
        if not self._alone:
            self._look = look
            self.refresh()

    def learn(self, lowest: Mapping[str, int] | None) -> None:
        """Use the versions in a conductor's reply to a heartbeat; None: the conductor is too old."""
        if self._alone or self._look is not None:
            return
        self._set(dict.fromkeys(TOPICS, OLDEST) if lowest is None else lowest)

    def refresh(self) -> None:
        """Read the versions now; after a failure, keep the previous versions."""
        if self._look is None:
            return
        self._due = time.monotonic() + REFRESH_S
        try:
            self._set(self._look())
        except Exception as error:
            LOG.warning('Cannot look up the versions of the services: %s', error)

    def reload(self) -> None:
        """Apply a reloaded configuration."""
        self.refresh()
        self._set(self._lowest)

    # ---- methods of a service.Part, for processes that run no service.Service

    def start(self) -> None:
        """Do nothing: ``follow`` has read the versions."""

    def stop(self, timeout: float) -> bool:
        return True

    def _renew(self) -> None:
        if self._due is not None and time.monotonic() > self._due:
            self._due = time.monotonic() + REFRESH_S
            concurrency.try_spawn('service-versions', self.refresh)

    def _set(self, lowest: Mapping[str, int] | None) -> None:
        with self._lock:
            self._lowest = lowest
            try:
                made = self._made()
            except exception.InvalidInput as error:          # the changed configuration file is invalid
                if str(error) != self._refused:
                    LOG.error('%s The versions in use are kept.', error)
                self._refused = str(error)
                return
            self._refused = None
            self._log({topic: pin for topic, pin in made.items() if pin != self._pins[topic]})
            self._pins = made

    @staticmethod
    def _log(pins: Mapping[str, Pin]) -> None:
        for topic, pin in pins.items():
            LOG.info('Messages to %s use %s', topic, 'version {}.{}'.format(*pin.interface) if pin.interface else
                     f'the newest version, {RELEASES[VERSION].interfaces[topic]}')

    def _made(self) -> dict[str, Pin]:
        made = {}
        unknown = OLDEST if self._lowest is None else VERSION
        for topic in TOPICS:
            pin = configured_pin(topic, self._conf.upgrade_levels[topic])
            made[topic] = pin if pin is not None else pin_of(topic, (self._lowest or {}).get(topic, unknown))
        return made
