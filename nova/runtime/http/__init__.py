"""The HTTP server, for native and green threads. Its modules are:

    limits       all limits and timeouts, with their reasons
    addresses    grouping of addresses by client
    arrival      fast scan of an incomplete request, to decide when a thread handles the request
    framing      strict parsing of HTTP/1.1, based on cheroot's request
    channel      non-blocking I/O of one connection, with a minimum rate
    tls_channel  TLS between a channel and its socket
    capacity     limits of connections and bytes, and eviction
    priorities   concurrency limits by kind of request
    exchange     one connection of a client, and the responses to its requests
    native       event loop for all connections, and worker threads
    green        one green thread for each connection
    server       the public interface

A request gets a thread when it has arrived completely; a large upload gets a thread earlier. A thread waits
for the client to read data only in large downloads. Large uploads and downloads have separate workers. See ADR 0004.
"""
