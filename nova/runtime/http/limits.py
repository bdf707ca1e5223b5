"""Limits and timeouts of the HTTP server, against abuse: an honest client reaches none of them."""
import dataclasses

KIB, MIB = 1024, 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Limits:
    """Seconds, bytes, bytes a second and numbers of connections."""

    # ---- time
    silent_s: float = 20            # first byte of a new connection: browsers connect ahead
    headers_s: float = 20           # complete headers, from their first byte
    body_s: float = 20              # complete body, plus its received bytes at the minimum rate
    idle_s: float = 75              # an idle connection; load balancers keep theirs for 50 to 60
    linger_s: float = 10            # a refused client may send so long, or it would not see the response
    least_rate: int = 4096          # bytes a second: half of a telephone line
    window_s: float = 20            # period over which the rate is measured: tolerates short network stalls
    last_s: float = 0.5             # a new connection at the server's stop may still send its request
    sweep_s: float = 0.5            # between two checks of deadlines

    # ---- size of one request
    header: int = 64 * KIB          # request line and headers; tokens of large catalogs fit
    body: int = MIB                 # a body gathered before processing; a larger one is an upload
    piece: int = 64 * KIB           # of one read of a socket
    upload: int = 512 * KIB         # of one read of a large body: fewer reads and fewer parts
    ahead: int = 256 * KIB          # of a streamed response, buffered before its worker waits
    drain: int = 64 * MIB           # of a refused body, discarded

    # ---- all connections
    connections: int = 4000         # some 40 KiB each with the kernel's part; at most half of the descriptors
    per_address: int = 256          # of one client: an office behind one address, or 200 threads
    free: int = 16 * KIB            # of each incomplete request, not counted below
    bodies: int = 64 * MIB          # of all incomplete requests
    bodies_per_address: int = 8 * MIB
    answers: int = 128 * MIB        # of all responses that wait for their readers
    spare_s: float = 2              # minimum time of an incomplete request before eviction


LIMITS = Limits()
