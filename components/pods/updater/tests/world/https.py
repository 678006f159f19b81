"""An independent HTTPS server: https.py FOLDER PORT KEYS SUBJECT [RATE] serves a folder on the loopback.

Its certificate is for SUBJECT, `IP:ADDRESS` or `DNS:NAME`. The certificate and its CA are created in
KEYS if they do not exist; clients must trust `ca.crt`. It prints its port, a free one if PORT is 0.
RATE limits the bytes per second of each connection.
"""

import functools
import http.server
import pathlib
import ssl
import subprocess
import sys
import threading
import time

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650"]


def certify(keys, subject):
    """Creates a CA, and a certificate signed by it, with openssl."""
    make = functools.partial(subprocess.run, check=True, cwd=keys, stderr=subprocess.DEVNULL)
    make(["openssl", "req", "-x509", *KEY, "-subj", "/CN=web CA", "-keyout", "ca.key", "-out", "ca.crt"])
    leaf = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName={subject}"]
    by = ["-CA", "ca.crt", "-CAkey", "ca.key"]
    make(["openssl", "req", "-x509", *by, *KEY, *leaf, "-subj", "/CN=web", "-keyout", "web.key", "-out", "web.crt"])


PIECE = 64 << 10


class Handler(http.server.SimpleHTTPRequestHandler):
    """Sends files no faster than the rate, if there is one."""

    def __init__(self, *args, rate, **named):
        self.rate = rate
        super().__init__(*args, **named)

    def copyfile(self, source, outputfile):
        if self.rate is None:
            return super().copyfile(source, outputfile)
        started, sent = time.monotonic(), 0
        while piece := source.read(PIECE):
            outputfile.write(piece)
            sent += len(piece)
            time.sleep(max(0, started + sent / self.rate - time.monotonic()))


def main(folder, port, keys, subject, rate=None):
    keys = pathlib.Path(keys)
    if not (keys / "web.crt").exists():
        certify(keys, subject)
    handler = functools.partial(Handler, directory=folder, rate=rate and int(rate))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(keys / "web.crt", keys / "web.key")
    # Each connection's thread does its handshake, so that a slow client does not delay the others.
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    # Standard input ends with the process that started this server.
    sys.stdin.read()


main(*sys.argv[1:])
