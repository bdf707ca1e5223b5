"""One connection to a broker, until it fails; session.py opens a new Link for each attempt."""
from __future__ import annotations

from collections.abc import Callable
import contextlib
import functools
import logging
import os
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from pamqp import base
from pamqp import commands
from pamqp import exceptions as pamqp_exceptions
from pamqp import frame as pamqp_frame
from pamqp import header

from nova.rpc.rabbit import frames
from nova.rpc.rabbit import settings as rabbit_settings
from nova.rpc.rabbit import stream

if TYPE_CHECKING:
    from pamqp import common

LOG = logging.getLogger(__name__)
_Frame = TypeVar('_Frame', bound=base.Frame)
# function(body, acknowledge) -> whether the consumer takes the message; if so, it calls ``acknowledge()``, now or later
Deliver: TypeAlias = Callable[[bytes, Callable[[], None]], bool]

PUBLISHING, CONSUMING, DECLARING = 1, 2, 3           # numbers of the channels
CONNECT_S = 5                # timeout for the answer of the broker to the first frame
FRAME_MAX = 131072           # bytes, RabbitMQ's default
_TRANSIENT_QUEUES = 'transient_nonexcl_queues'       # RabbitMQ's name of this feature; its refusals contain the name
_CAPABILITIES: common.FieldTable = {
    'publisher_confirms': True, 'basic.nack': True, 'consumer_cancel_notify': True, 'connection.blocked': True,
    'authentication_failure_close': True}


class Refused(Exception):
    """The broker refused a request by closing its channel.

    :param code: AMQP reply code, as 404
    """

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(text)
        self.code = code or 0


class TransientQueuesRefused(ConnectionError):
    """The broker closed the connection because it refuses queues that are neither durable nor exclusive, as
    RabbitMQ does by default since 4.3.
    """


class _Content:
    """A message that is being received: method, header, and the parts of the body that have arrived."""

    def __init__(self, method: int, payload: bytes) -> None:
        self.method, self.payload = method, payload
        self.header, self.left = b'', 0
        self.parts: list[bytes] = []


class Link:
    """Connection to a broker.

    :param confirmed: function(number, whether all earlier messages are included, whether the broker took them). The
        messages on the channel PUBLISHING are numbered from 1
    :param returned: function(header, code, text) for a message that no queue takes, before it is confirmed
    :param takes: function(whether the broker takes messages); called when its memory alarm changes
    :raises OSError: there is no broker, or it denies access
    """

    def __init__(self, broker: rabbit_settings.Broker, settings: rabbit_settings.Settings, *,
                 confirmed: Callable[[int, bool, bool], None], returned: Callable[[bytes, int, str], None],
                 takes: Callable[[bool], None]) -> None:
        self._confirmed, self._returned, self._takes = confirmed, returned, takes
        self._consumers: dict[str, Deliver] = {}
        self._contents: dict[int, _Content] = {}
        self._settling = threading.Lock()
        self._unsettled: set[int] = set()              # tags of deliveries that their consumers have not acknowledged
        self._settled: list[int] = []                  # tags to acknowledge before the next read
        self._singly = False                           # another thread has acknowledged a delivery
        self._asking, self._answer = threading.Lock(), threading.Condition()
        self._answers: list[pamqp_frame.FrameTypes] = []
        self._reader: int | None = threading.get_ident()
        self._lost: Exception | None = None
        self._blocked = False
        self.limit = FRAME_MAX
        self._splitter = frames.Splitter(FRAME_MAX)
        self._written = self._heard = time.monotonic()
        self._heartbeat = settings.heartbeat
        sock = socket.create_connection((broker.host, broker.port), CONNECT_S)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stream = stream.Stream(sock, settings.tls, broker.host)
            self._open(broker, settings)
            if self._heartbeat:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._heartbeat * 1000)
            sock.settimeout(self._heartbeat / 3 if self._heartbeat else None)
        except BaseException:
            sock.close()
            raise

    # ---- opening

    def _open(self, broker: rabbit_settings.Broker, settings: rabbit_settings.Settings) -> None:
        self._stream.write(header.ProtocolHeader().marshal())
        self._expect(commands.Connection.Start)
        mechanism = 'EXTERNAL' if settings.certificate else 'PLAIN'
        response = '' if settings.certificate else f'\0{broker.user}\0{broker.password}'
        name = f'{os.path.basename(sys.argv[0])}:{os.getpid()}'
        self._send(0, commands.Connection.StartOk(
            {'product': 'nova', 'connection_name': name, 'capabilities': _CAPABILITIES}, mechanism, response, 'en_US'))
        tune = self._expect(commands.Connection.Tune)
        self.limit = self._splitter.limit = min(tune.frame_max or FRAME_MAX, FRAME_MAX)
        self._heartbeat = min(filter(None, (tune.heartbeat, self._heartbeat)), default=0) if self._heartbeat else 0
        self._send(0, commands.Connection.TuneOk(tune.channel_max, self.limit, self._heartbeat))
        self._send(0, commands.Connection.Open(settings.virtual_host))
        self._expect(commands.Connection.OpenOk)
        for channel in (PUBLISHING, CONSUMING, DECLARING):
            self.ask(channel, commands.Channel.Open())
        self.ask(PUBLISHING, commands.Confirm.Select())
        self.ask(CONSUMING, commands.Basic.Qos(0, settings.prefetch, False))       # the limit applies to each consumer

    def _expect(self, kind: type[_Frame]) -> _Frame:
        answer = self._wait_here()
        if not isinstance(answer, kind):
            raise ConnectionError(f'The broker answered with {answer.name}.')
        return answer

    # ---- requests and writing

    def _send(self, channel: int, method: base.Frame) -> None:
        self.write(pamqp_frame.marshal(method, channel))

    def write(self, data: bytes) -> None:
        """Send frames.

        :raises OSError: the connection is closed
        """
        self._written = time.monotonic()
        try:
            self._stream.write(data)
        except OSError as error:
            self.close(error)
            raise

    def ask(self, channel: int, method: base.Frame) -> pamqp_frame.FrameTypes:
        """Send a synchronous method and return the broker's answer.

        :raises Refused: the broker closed the channel, which has been opened again
        :raises OSError: the connection is closed
        """
        with self._asking:
            self._answers.clear()
            self._send(channel, method)
            answer = self._wait_here() if threading.get_ident() == self._reader else self._wait()
            if isinstance(answer, commands.Channel.Close):
                self._send(channel, commands.Channel.CloseOk())
                if channel != DECLARING:
                    self.close(ConnectionError(answer.reply_text))
                    raise Refused(answer.reply_code, answer.reply_text)
                self._answers.clear()                  # cleared before the request: its answer may come immediately
                self._send(channel, commands.Channel.Open())
                self._wait_here() if threading.get_ident() == self._reader else self._wait()
                raise Refused(answer.reply_code, answer.reply_text)
        return answer

    def _wait(self) -> pamqp_frame.FrameTypes:
        with self._answer:
            self._answer.wait_for(lambda: self._answers or self._lost, CONNECT_S + self._heartbeat)
        if self._lost:
            raise ConnectionError(str(self._lost)) from self._lost
        if not self._answers:
            silent = ConnectionError('The broker does not answer.')
            self.close(silent)                         # the session then opens a new connection
            raise silent
        return self._answers.pop(0)

    def _wait_here(self) -> pamqp_frame.FrameTypes:
        """Read until an answer arrives, and return it. Only the reading thread may call this."""
        self.read_until(lambda: bool(self._answers))
        return self._answers.pop(0)

    def consume(self, queue: str, tag: str, deliver: Deliver) -> None:
        """Consume a queue. The reading thread calls ``deliver``, which must not block.

        :raises Refused: there is no such queue, or it may not be read
        """
        self._consumers[tag] = deliver
        self.ask(CONSUMING, commands.Basic.Consume(0, queue, tag, False, False, False, False, {}))

    def cancel(self, tag: str) -> None:
        """Cancel a consumer. Messages in transit are requeued."""
        self.ask(CONSUMING, commands.Basic.Cancel(tag))

    # ---- reading

    def run(self) -> None:
        """Read until the connection fails; call it in the thread that has opened the connection.

        :raises OSError: reason of the failure
        """
        try:
            while True:
                self._acknowledge()
                self._beat()
                try:
                    data = self._stream.read()
                except TimeoutError:
                    continue
                self._read(data)
        except pamqp_exceptions.PAMQPException as error:
            raise ConnectionError(f'The broker sent unreadable data: {error}') from error
        finally:
            self.close(ConnectionError('The connection has ended.'))

    def read_until(self, condition: Callable[[], bool]) -> None:
        """Read until a condition is true; call it in the thread that has opened the connection.

        :raises OSError: the connection is closed, or silent
        :raises Refused: the broker has closed PUBLISHING
        """
        while not condition():
            self._read(self._stream.read())

    def _beat(self) -> None:
        """Send a heartbeat if it is time, and check the broker's heartbeats."""
        if not self._heartbeat:
            return
        now = time.monotonic()
        if now - self._heard > 2 * self._heartbeat:
            raise ConnectionError('The broker is silent.')
        if now - self._written > self._heartbeat / 3:
            self.write(frames.HEARTBEAT_FRAME)

    def _read(self, data: bytes) -> None:
        self._heard = time.monotonic()
        for kind, channel, payload in self._splitter.split(data):
            if kind == frames.METHOD:
                self._method(channel, int.from_bytes(payload[:4]), payload)
            elif kind == frames.HEADER:
                content = self._contents[channel]
                content.header, content.left = payload, frames.size_of_content(payload)
                if not content.left:
                    self._arrived(channel)
            elif kind == frames.BODY:
                content = self._contents[channel]
                content.parts.append(payload)
                content.left -= len(payload)
                if content.left <= 0:
                    self._arrived(channel)

    def _method(self, channel: int, method: int, payload: bytes) -> None:
        if method in (frames.DELIVER, frames.RETURN):
            self._contents[channel] = _Content(method, payload)
        elif method in (frames.ACK, frames.NACK):
            self._confirmed(*frames.confirm(payload), method == frames.ACK)
        else:
            self._rare(channel, pamqp_frame.unmarshal(frames.whole(channel, payload))[2])

    def _arrived(self, channel: int) -> None:
        content = self._contents.pop(channel)
        body = content.parts[0] if len(content.parts) == 1 else b''.join(content.parts)
        if content.method == frames.RETURN:
            self._returned(content.header, *frames.returned(content.payload))
            return
        consumer, tag = frames.delivery(content.payload)
        self._unsettled.add(tag)
        try:
            taken = self._consumers[consumer](body, functools.partial(self._settle, tag))
        except Exception:        # it would end the connection, and the broker would send the message again on the next
            LOG.exception('A message was dropped: its consumer failed.')
            taken = True
            self._settle(tag)
        if not taken:
            with self._settling:
                self._unsettled.discard(tag)
                self._settled = [each for each in self._settled if each != tag]
            self.write(frames.put_back(channel, tag))

    def _settle(self, tag: int) -> None:
        """Acknowledge a delivery, unless it is acknowledged: at once, or before the next read in the reading thread."""
        with self._settling:
            if tag not in self._unsettled:
                return
            self._unsettled.remove(tag)
            if threading.get_ident() == self._reader or self._blocked:
                self._settled.append(tag)
                return
            self._singly = True
        try:
            self.write(frames.acknowledge(CONSUMING, tag, multiple=False))
        except OSError as error:
            LOG.debug('The broker delivers a message again: %s', error)

    def _acknowledge(self) -> None:
        if not self._settled or self._blocked:         # after Connection.Blocked the broker reads nothing
            return
        with self._settling:
            tags, self._settled = self._settled, []
            # one frame for all, unless it would include deliveries that are open or that another thread acknowledges
            multiple = not (self._singly or self._unsettled)
        self.write(b''.join(frames.acknowledge(CONSUMING, tag, multiple)
                            for tag in ([max(tags)] if multiple else tags)))

    def _rare(self, channel: int, method: pamqp_frame.FrameTypes) -> None:
        if isinstance(method, commands.Connection.Close):
            kind = TransientQueuesRefused if _TRANSIENT_QUEUES in method.reply_text else ConnectionError
            raise kind(method.reply_text)
        if isinstance(method, commands.Connection.Blocked | commands.Connection.Unblocked):
            self._blocked = isinstance(method, commands.Connection.Blocked)
            self._takes(not self._blocked)
        elif isinstance(method, commands.Basic.Cancel):
            raise ConnectionError(f'The broker ended the subscription {method.consumer_tag}: its queue is gone.')
        elif isinstance(method, commands.Channel.Close) and channel == PUBLISHING:
            raise Refused(method.reply_code, method.reply_text)
        elif isinstance(method, commands.Channel.Close) and not self._asking.locked():
            raise ConnectionError(method.reply_text)       # no answer: messages would stay away
        else:
            with self._answer:
                self._answers.append(method)
                self._answer.notify_all()

    def leave(self) -> None:
        """Send Connection.Close, then close the socket."""
        with contextlib.suppress(OSError):            # already closed
            self._send(0, commands.Connection.Close(200, 'The service ends.', 0, 0))
        self.close(ConnectionError('The connection was closed.'))

    def close(self, why: Exception) -> None:
        """Close the socket: ``run`` ends, and waiting requests get an error."""
        with self._answer:
            self._lost = self._lost or why
            self._answer.notify_all()
        self._stream.close()
