"""Metadata services of clouds: cloud.py PORT FOLDER NAME UNAVAILABLE STATUS

Serves the file `user-data` of FOLDER, if it is there, to the instance in the file `instance-id`, as
the cloud NAME does. Answers the first UNAVAILABLE requests with STATUS.
"""

import json
import pathlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, FOLDER, NAME = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
AZURE = "?api-version=2021-01-01&format=text"
INSTANCE = (FOLDER / "instance-id").read_text()
# The required header, the path and the answer of the identifier, and the path of the user data.
HEADER, IDENTITY, ANSWER, USER_DATA = {
    "gce": (
        ("Metadata-Flavor", "Google"),
        "/computeMetadata/v1/instance/id",
        INSTANCE,
        "/computeMetadata/v1/instance/attributes/user-data",
    ),
    "azure": (
        ("Metadata", "true"),
        "/metadata/instance/compute/vmId" + AZURE,
        INSTANCE,
        "/metadata/instance/compute/userData" + AZURE,
    ),
    "openstack": (
        None,
        "/openstack/latest/meta_data.json",
        json.dumps({"uuid": INSTANCE, "name": "a", "public_keys": {"a": "x" * 20000}}),
        "/openstack/latest/user_data",
    ),
    "hetzner": (None, "/hetzner/v1/metadata/instance-id", INSTANCE, "/hetzner/v1/userdata"),
}[NAME]


class Service(BaseHTTPRequestHandler):
    unavailable = int(sys.argv[4])

    def do_GET(self):
        user_data = FOLDER / "user-data"
        if HEADER and self.headers.get(HEADER[0]) != HEADER[1]:
            self.answer(403)
        elif self.path == IDENTITY:
            self.answer(200, ANSWER.encode())
        elif self.path == USER_DATA and user_data.exists():
            self.answer(200, user_data.read_bytes())
        elif self.path == USER_DATA and NAME in ("azure", "hetzner"):
            self.answer(200)
        else:
            self.answer(404)

    def answer(self, status, body=b""):
        if Service.unavailable > 0:
            Service.unavailable -= 1
            status, body = int(sys.argv[5]), b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if NAME == "gce":
            self.send_header("Metadata-Flavor", "Google")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Service).serve_forever()
