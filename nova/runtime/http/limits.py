"""Limits and timeouts of the HTTP server, against abuse: an honest client reaches none of them."""
import dataclasses

KIB, MIB = 1024, 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits in seconds, bytes, bytes per second and numbers of connections."""

    # ---- time
    silent_s: float = 20            # until the first byte of a new connection; browsers connect in advance
    headers_s: float = 20           # from the first byte of the headers until they are complete
    body_s: float = 20              # until the body is complete; its received bytes add their time at least_rate
    idle_s: float = 75              # until an idle connection is closed; load balancers close theirs after 50 to 60 s
    linger_s: float = 10            # for which a refused client may still send, so that it can read the response
    least_rate: int = 4096          # bytes a second: half of a digital telephone line
    window_s: float = 20            # period over which the rate is measured: tolerates short network stalls
    last_s: float = 0.5             # for which a new connection may still send its request when the server stops
    sweep_s: float = 0.5            # interval between two checks of deadlines

    # ---- size of one request
    header: int = 64 * KIB          # request line and headers; tokens of large catalogs fit
    body: int = MIB                 # a body gathered before processing; a larger one is an upload
    piece: int = 64 * KIB           # of one read of a socket
    upload: int = 512 * KIB         # of one read of a large body: larger pieces need fewer reads
    ahead: int = 256 * KIB          # buffered bytes of a streamed response before its worker waits
    drain: int = 64 * MIB           # of a refused body that are read and discarded

    # ---- all connections
    connections: int = 4000         # each needs some 40 KiB, kernel included; at most half of the descriptors
    per_address: int = 256          # connections of one client: an office behind one address, or 200 threads
    free: int = 16 * KIB            # first bytes of each request, which the next two limits do not count
    bodies: int = 64 * MIB          # of all incomplete requests
    bodies_per_address: int = 8 * MIB
    answers: int = 128 * MIB        # of all responses that wait for their readers
    spare_s: float = 2              # minimum time of an incomplete request before eviction


LIMITS = Limits()
