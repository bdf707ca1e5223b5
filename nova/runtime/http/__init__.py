"""The HTTP server, over either thread model.

    limits     every bound and time, with its reason
    addresses  who counts as one client
    arrival    how much of a request has come: a rough reading that decides only when a thread works on it
    framing    the strict reading of HTTP/1.1, on cheroot's request
    channel    bytes of one connection: never blocking, paced by a least rate
    secured    TLS between a channel and its socket
    room       how many connections and bytes there may be; who goes first when there is no room
    priorities how many requests of which kind are worked on at once
    exchange   one connection and the answer to one request
    native     a loop that reads and writes for all connections, and worker threads
    green      a green thread a connection
    server     what the rest of the program starts and stops

No thread works on a request before all of it has come, large uploads excepted, and none waits for a client to take an
answer, large downloads excepted; those have workers of their own. See doc/source/adr/0011-http-server.rst.
"""
