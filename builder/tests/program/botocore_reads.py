import json, sys
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.loaders import Loader
from botocore.model import ServiceModel

calls, secret = json.load(open(sys.argv[1])), sys.argv[2]
models = {name: ServiceModel(Loader().load_service_model(name, "service-2")) for name in ("ebs", "ec2", "kms")}


def signature(call):
    headers = call["headers"]
    scope = headers["authorization"].split("Credential=")[1].split(",")[0].split("/")
    names = headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    signed = {name: headers[name] for name in names}
    request = AWSRequest(method=call["method"], url="http://" + headers["host"] + call["path"], headers=signed, data=b"")
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(scope[0], secret, headers.get("x-amz-security-token")), call["service"], call["region"])
    auth.payload = lambda request: call["sha256"]
    canonical = auth.canonical_request(request)
    return auth.signature(auth.string_to_sign(request, canonical), request)


def member(shape, name):
    for key, value in shape.members.items():
        wire = value.serialization.get("queryName") or value.serialization.get("name", key)
        if name in (wire, wire[0].upper() + wire[1:]):
            return value
    raise SystemExit(f"{shape.name} has no {name}")


def look_up(shape, words, value):
    if not words:
        assert not getattr(shape, "enum", None) or value in shape.enum, (shape.name, value)
    elif shape.type_name == "list":
        assert words[0].isdigit(), words
        look_up(shape.member, words[1:], value)
    else:
        look_up(member(shape, words[0]), words[1:], value)


for call in calls:
    assert call["headers"]["authorization"].endswith("Signature=" + signature(call)), call["action"]
    shape = models[call["service"]].operation_model(call["action"]).input_shape
    if call["service"] == "ec2":
        from urllib.parse import parse_qsl
        for name, value in parse_qsl(call["body"]):
            if name not in ("Action", "Version"):
                look_up(shape, name.split("."), value)
    elif call["service"] == "kms" or call["action"] == "StartSnapshot":
        for name, value in json.loads(call["body"]).items():
            look_up(shape, [name], value if isinstance(value, str) else None)
    else:
        wanted = {m.serialization["name"].lower(): m for m in shape.members.values() if m.serialization.get("location") == "header"}
        ours = {n: v for n, v in call["headers"].items() if n.startswith("x-amz-") and n not in ("x-amz-date", "x-amz-content-sha256", "x-amz-security-token")}
        for name, value in ours.items():
            look_up(wanted[name], [], value)
        required = {shape.members[n].serialization.get("name", n).lower() for n in shape.required_members if shape.members[n].serialization.get("location") == "header"}
        assert required <= set(ours), (required, ours)
print(len(calls), "calls")
