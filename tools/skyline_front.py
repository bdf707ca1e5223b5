"""Serve the pages of Skyline, and pass on their requests, as nginx does it with the configuration that Skyline writes.

usage: python3 tools/skyline_front.py PORT STATIC_FILES 'PREFIX=URL'...

Standard library only.
"""
import functools
import http.client
import http.server
import pathlib
import sys
import urllib.parse

# The form of the login needs this list, which Skyline 9 refuses to who has not logged in.
DOMAINS = '/api/openstack/skyline/api/v1/contrib/domains'
HOP = {'connection', 'keep-alive', 'transfer-encoding', 'content-length', 'date', 'server'}
TIMEOUT_S = 120


class Handler(http.server.SimpleHTTPRequestHandler):
    """A request below a prefix goes to its URL; any other is for a file, or for the page."""

    protocol_version = 'HTTP/1.1'
    locations: dict[str, urllib.parse.SplitResult] = {}

    def do_GET(self):
        if self.path == DOMAINS:
            self.answer(200, [('Content-Type', 'application/json')], b'["Default"]')
        elif not self.forward():
            if not pathlib.Path(self.translate_path(self.path)).is_file():
                self.path = '/index.html'
            super().do_GET()

    def do_HEAD(self):
        if not self.forward():
            super().do_HEAD()

    def do_POST(self):
        if not self.forward():
            self.send_error(405)

    do_PUT = do_PATCH = do_DELETE = do_POST

    def forward(self):
        """Send the request on and its answer back; return whether a prefix has it."""
        found = next((item for item in self.locations.items() if self.path.startswith(item[0])), None)
        if found is None:
            return False
        prefix, target = found
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        connection = http.client.HTTPConnection(target.netloc, timeout=TIMEOUT_S)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
            connection.request(self.command, target.path + self.path.removeprefix(prefix), body,
                               {**headers, 'Host': target.netloc, 'Content-Length': str(len(body))})
            answer = connection.getresponse()
            self.answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()
        return True

    def answer(self, status, headers, data):
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def end_headers(self):
        if not self.path.startswith(tuple(self.locations)):
            self.send_header('Cache-Control', 'public, max-age=86400')
        super().end_headers()


def main():
    port, directory, *locations = sys.argv[1:]
    pairs = (each.partition('=') for each in sorted(locations, key=len, reverse=True))     # the longest one wins
    Handler.locations = {prefix: urllib.parse.urlsplit(url) for prefix, _, url in pairs}
    server = http.server.ThreadingHTTPServer(('127.0.0.1', int(port)), functools.partial(Handler, directory=directory))
    server.serve_forever()


if __name__ == '__main__':
    main()
