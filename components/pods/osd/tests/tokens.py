"""Signs tokens as the API server does, and as an attacker would, with PyJWT.

It prints a line of JSON with the public keys: `pem` and `jwks`, by the name of the key. Then it
prints a token for each argument or, without arguments, for each line that it reads, which are JSON:
`{"key", "algorithm", "claims", "header"}`.
"""

import base64
import hashlib
import hmac
import json
import sys

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

KEYS = {
    "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "other": ec.generate_private_key(ec.SECP256R1()),
}
NAMES = {"rsa": "RS256", "ec": "ES256", "other": "ES256"}


def public(key, encoding):
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(encoding, form)


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def identifier(key):
    """The name that Kubernetes gives a key."""
    return encoded(hashlib.sha256(public(key, serialization.Encoding.DER)).digest())


def json_key(name, key):
    algorithm = jwt.get_algorithm_by_name(NAMES[name])
    written = algorithm.to_jwk(key.public_key(), as_dict=True)
    more = {"use": "sig", "kid": identifier(key), "alg": NAMES[name]}
    names = [name for name in ("kty", "crv", "n", "e", "x", "y") if name in written]
    return {name: written[name] for name in names} | more


def by_secret(claims, header, secret):
    """PyJWT refuses a public key as the secret of HS256, as it should."""
    parts = [encoded(json.dumps(part).encode()) for part in (header | {"alg": "HS256"}, claims)]
    signed = ".".join(parts)
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), 'sha256'))}"


def token(wanted):
    key, claims, header = KEYS[wanted["key"]], wanted["claims"], wanted["header"]
    header = {"kid": identifier(key)} | header
    match wanted["algorithm"]:
        case "none":
            return jwt.encode(claims, None, "none", header)
        case "HS256":
            return by_secret(claims, header, public(key, serialization.Encoding.PEM))
        case algorithm:
            # PyJWT checks the types of some claims.
            data = json.dumps(claims).encode()
            return jwt.api_jws.encode(data, key, algorithm, header)


def main():
    pem = {name: public(key, serialization.Encoding.PEM).decode() for name, key in KEYS.items()}
    jwks = {name: {"keys": [json_key(name, key)]} for name, key in KEYS.items()}
    print(json.dumps({"pem": pem, "jwks": jwks}), flush=True)
    for line in sys.argv[1:] or sys.stdin:
        print(token(json.loads(line)), flush=True)


main()
