"""Every bound and time of the HTTP server. They are for strangers: an honest client meets none of them."""
import dataclasses

KIB, MIB = 1024, 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Limits:
    """Seconds, bytes, bytes a second and numbers of connections."""

    # ---- time
    silent_s: float = 20            # a new connection says something by then: browsers connect ahead, honest ones speak
    headers_s: float = 20           # a request line and headers are whole by then, counted from their first byte
    body_s: float = 20              # a body is whole by then, and by what has come of it at the least rate
    idle_s: float = 75              # a kept connection without a request; load balancers keep theirs for 50 to 60
    linger_s: float = 10            # who was refused may go on sending so long, or it would not see the answer
    least_rate: int = 4096          # bytes a second: half of what a telephone line carries
    window_s: float = 20            # over which a large upload or an answer is measured: a stall of a network passes
    last_s: float = 0.5             # who has just connected when the server stops may still say what it wants
    sweep_s: float = 0.5            # between two looks at the deadlines

    # ---- size of one request
    header: int = 64 * KIB          # request line and headers; tokens of large catalogs fit
    body: int = MIB                 # a body that is gathered before anybody works on it; a larger one is an upload
    piece: int = 64 * KIB           # taken from a socket at once
    upload: int = 512 * KIB         # of a large body: less often, and cut into fewer parts
    ahead: int = 256 * KIB          # of a streamed answer that waits for the client before its worker waits too
    drain: int = 64 * MIB           # of a refused body that is taken and thrown away

    # ---- all connections
    connections: int = 4000         # some 40 KiB each with the kernel's part; at most half of the process's descriptors
    per_address: int = 256          # of one client: an office behind one address, or a client with 200 threads, fits
    free: int = 16 * KIB            # of a request that waits for its rest and is counted as its connection alone
    bodies: int = 64 * MIB          # of all requests that wait for their rest
    bodies_per_address: int = 8 * MIB
    answers: int = 128 * MIB        # of all answers that wait for their readers
    spare_s: float = 2              # an unfinished request is so long safe from those who come after it


LIMITS = Limits()
