"""How many requests of which kind are worked on at once.

A lane has threads of its own, which nobody else takes, and a most that it takes of those for everybody. So a flood of
one kind leaves room for the others, and an idle server gives all it has to whoever comes. Within a lane clients take
turns, one request each.
"""
import collections
import re
import threading
import time
import typing

UPLOADS = 'uploads'             # the lane of bodies that are larger than is gathered


class Lane(typing.NamedTuple):
    """
    :param least: threads of its own
    :param most: threads at most
    :param each: of these for one client at most; 0: no bound
    """
    name: str
    least: int
    most: int
    each: int = 0


class Face(typing.NamedTuple):
    """Which lane a request takes.

    :param pattern: what b'METHOD /path?query' begins with, a regular expression; the first face that fits counts
    :param uploads: whether larger bodies than are gathered are wanted
    """
    pattern: bytes
    lane: str
    uploads: bool = False


class Plan:
    """The lanes and faces of one server.

    :param threads: for everybody, the lanes' own ones included
    :param uploads: threads beside them for large bodies
    :param lanes: those beside the one called '', which takes what fits no face
    :param apart: lanes whose threads are beside ``threads``, because a request of theirs lasts
    """

    def __init__(self, threads, uploads, lanes=(), faces=(), apart=()):
        self.faces = [(re.compile(face.pattern), face) for face in faces]
        every = Lane('', 1, threads)
        self.lanes = {lane.name: lane for lane in (every, *lanes, *apart, Lane(UPLOADS, uploads, uploads,
                                                                               max(1, uploads // 2)))}
        own = sum(lane.least for lane in (every, *lanes))
        self.shared = max(0, threads - own)
        self.size = self.shared + sum(lane.least for lane in self.lanes.values())

    def face(self, line):
        """The face of a request.

        :param line: b'METHOD /path?query'
        """
        for pattern, face in self.faces:
            if pattern.match(line):
                return face
        return _OTHER


_OTHER = Face(b'', '')


class Lanes:
    """Begins what may begin; the rest waits, by lane and client.

    :param begin: function(job) that has somebody work on it; it does not wait
    :param trusted: addresses.Trusted, whose requests are of many clients
    """

    def __init__(self, plan, begin, trusted=()):
        self._plan, self._begin, self._trusted = plan, begin, trusted
        self._lock = threading.Lock()
        self._running, self.running = collections.Counter(), 0
        self._shared = 0                                    # threads of nobody's own that are taken
        self._each = collections.Counter()                  # {(lane, client): running}, of lanes that count them
        self._waiting = {name: collections.OrderedDict() for name in plan.lanes}
        self.waiting = 0
        self._moved = time.monotonic()

    def ask(self, name, job):
        """Work on a job now, or as soon as its lane lets it.

        :param job: what ``begin`` takes; has ``client`` and ``address``
        """
        with self._lock:
            lane = self._plan.lanes[name]
            if self._may(lane) and not self._waiting[name] and self._may_have(lane, job):
                self._start(lane, job)
            else:
                self._waiting[name].setdefault(job.client, collections.deque()).append(job)
                if self.waiting == 0:
                    self._moved = time.monotonic()
                self.waiting += 1

    def done(self, name, job):
        """A job has ended: others may begin."""
        with self._lock:
            lane = self._plan.lanes[name]
            self._shared -= self._running[name] > lane.least
            self._running[name] -= 1
            self.running -= 1
            if lane.each:
                self._each[name, job.client] -= 1
                if not self._each[name, job.client]:
                    del self._each[name, job.client]
            self._moved = time.monotonic()
            if self.waiting:
                for other in (lane, *self._plan.lanes.values()):
                    self._start_waiting(other)

    def progress(self):
        """Something moves, though nothing has ended."""
        self._moved = time.monotonic()

    def state(self):
        """(requests that wait, requests that are worked on, seconds since one began, ended or moved)."""
        with self._lock:
            return self.waiting, self.running, time.monotonic() - self._moved

    def _may(self, lane):
        running = self._running[lane.name]
        if running < lane.least:
            return True
        return running < lane.most and self._shared < self._plan.shared

    def _may_have(self, lane, job):
        return (not lane.each or self._each[lane.name, job.client] < lane.each
                or job.address in self._trusted)

    def _start(self, lane, job):
        self._running[lane.name] += 1
        self.running += 1
        self._shared += self._running[lane.name] > lane.least
        if lane.each:
            self._each[lane.name, job.client] += 1
        self._moved = time.monotonic()
        self._begin(job)

    def _start_waiting(self, lane):
        waiting = self._waiting[lane.name]
        while waiting and self._may(lane):
            client = next((client for client, jobs in waiting.items() if self._may_have(lane, jobs[0])), None)
            if client is None:
                return
            jobs = waiting[client]
            job = jobs.popleft()
            if jobs:
                waiting.move_to_end(client)
            else:
                del waiting[client]
            self.waiting -= 1
            self._start(lane, job)
