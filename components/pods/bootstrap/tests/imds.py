"""EC2's instance metadata service, version 2: imds.py PORT FOLDER UNAVAILABLE

Serves the file `user-data` of FOLDER, if it is there, to the instance in the file `instance-id`.
Answers the first UNAVAILABLE requests with 503. Prints a line for each request.
"""

import json
import pathlib
import secrets
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, FOLDER, UNAVAILABLE = int(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
TOKEN = secrets.token_urlsafe(40)
IDENTITY = "/latest/dynamic/instance-identity/document"


class Service(BaseHTTPRequestHandler):
    unavailable = UNAVAILABLE

    def do_PUT(self):
        ttl = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if not ttl.isdigit() or not 1 <= int(ttl) <= 21600 or "X-Forwarded-For" in self.headers:
            return self.answer(400)
        self.answer(*((200, TOKEN.encode()) if self.path == "/latest/api/token" else (404,)))

    def do_GET(self):
        if self.headers.get("X-aws-ec2-metadata-token") != TOKEN:
            return self.answer(401)
        user_data = FOLDER / "user-data"
        if self.path == IDENTITY:
            instance = (FOLDER / "instance-id").read_text()
            self.answer(200, json.dumps({"instanceId": instance, "version": "2017-09-30"}).encode())
        elif self.path == "/latest/user-data" and user_data.exists():
            self.answer(200, user_data.read_bytes())
        else:
            self.answer(404)

    def answer(self, status, body=b""):
        if Service.unavailable > 0:
            Service.unavailable -= 1
            status, body = 503, b""
        print(self.command, self.path, status, flush=True)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Service).serve_forever()
