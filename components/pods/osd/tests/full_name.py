"""A plugin that keeps the full name of the node: its host name, and the first search domain."""

import json
import sys

import grpc
from cosi.resource.resource_pb2 import Metadata, Resource
from cosi.runtime import runtime_pb2 as api
from cosi.runtime import runtime_pb2_grpc as services
from osbuild.v1.hostname_pb2 import HostnameSpec
from osbuild.v1.resolver_pb2 import ResolverSpec

INPUTS = {"Hostnames.osbuild": HostnameSpec, "Resolvers.osbuild": ResolverSpec}
OUTPUT = {"namespace": "plugins", "type": "FullNames.example", "id": "node"}
# gRPC would send the path as authority, which is none for a server in Rust.
OPTIONS = [("grpc.default_authority", "localhost")]


def reconcile(adapter, token):
    specs = {}
    for name, spec in INPUTS.items():
        request = api.RuntimeListRequest(controller_token=token, namespace="system", type=name)
        found = [one.resource.spec.proto_spec for one in adapter.List(request)]
        specs[name] = spec.FromString(found[0]) if found else spec()
    host, resolver = specs.values()
    full_name = ".".join(filter(None, [host.hostname, *resolver.search[:1]]))
    try:
        request = api.RuntimeGetRequest(controller_token=token, **OUTPUT)
        resource = adapter.Get(request).resource
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.NOT_FOUND:
            raise
        resource = Resource(metadata=Metadata(version="undefined", phase="running", **OUTPUT))
    resource.spec.yaml_spec = json.dumps({"fullName": full_name})
    if resource.metadata.version == "undefined":
        adapter.Create(api.RuntimeCreateRequest(controller_token=token, resource=resource))
    else:
        adapter.Update(api.RuntimeUpdateRequest(controller_token=token, new_resource=resource))


with grpc.insecure_channel(f"unix:{sys.argv[1]}", OPTIONS) as channel:
    grpc.channel_ready_future(channel).result(timeout=60)
    inputs = [api.ControllerInput(namespace="system", type=name) for name in INPUTS]
    controller = api.RegisterControllerRequest(controller_name="full-name", inputs=inputs)
    controller.outputs.add(type=OUTPUT["type"], kind=api.EXCLUSIVE)
    token = services.ControllerRuntimeStub(channel).RegisterController(controller).controller_token
    adapter = services.ControllerAdapterStub(channel)
    for _ in adapter.ReconcileEvents(api.ReconcileEventsRequest(controller_token=token)):
        reconcile(adapter, token)
