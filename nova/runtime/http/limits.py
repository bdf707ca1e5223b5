"""Limits and timeouts of the HTTP server against abuse; honest clients stay below all of them."""
import dataclasses

KIB, MIB = 1024, 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits in seconds, bytes, bytes per second and numbers of connections."""

    # ---- time
    silent_s: float = 20            # timeout of the first byte of a new connection; browsers connect in advance
    headers_s: float = 20           # timeout of the headers, from their first byte
    body_s: float = 20              # timeout of the body; each received byte extends it by 1 s / least_rate
    idle_s: float = 75              # timeout of an idle connection; longer than that of load balancers (50 to 60 s)
    linger_s: float = 10            # time in which a refused client may still send, so that it can read the response
    least_rate: int = 4096          # minimum bytes per second: half of an ISDN channel
    window_s: float = 20            # period of a rate measurement; tolerates short network stalls
    last_s: float = 0.5             # time in which a new connection may still send its request when the server stops
    sweep_s: float = 0.5            # interval between two checks of deadlines

    # ---- size of one request
    header: int = 64 * KIB          # request line and headers; large enough for tokens with a catalog
    body: int = MIB                 # maximum body that is received before processing; a larger body is an upload
    piece: int = 64 * KIB           # bytes of one read of a socket
    upload: int = 512 * KIB         # bytes of one read of a large body
    ahead: int = 256 * KIB          # buffered bytes of a streamed response at which its worker waits
    drain: int = 64 * MIB           # maximum bytes of a refused body that are read and discarded

    # ---- all connections
    connections: int = 4000         # each needs some 40 KiB with the kernel's buffers; at most half of the descriptors
    per_address: int = 256          # connections of one address: an office behind NAT, or a client with 200 threads
    free: int = 16 * KIB            # first bytes of each request, which bodies and bodies_per_address do not count
    bodies: int = 64 * MIB          # bytes of all incomplete requests
    bodies_per_address: int = 8 * MIB
    answers: int = 128 * MIB        # bytes of all responses that clients have not read yet
    spare_s: float = 2              # minimum age at which an incomplete request may be evicted


LIMITS = Limits()
