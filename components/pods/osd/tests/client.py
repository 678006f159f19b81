"""A client of `osd` in Python, made from the .proto files with gRPC's own tools.

client.py PROTO-FOLDER SOCKET

It calls everything that the service State has, and prints a line for each claim that holds.
"""

import pathlib
import sys
import tempfile

import grpc
import grpc_tools
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_tools import protoc

# A type that only this client has, so that a spec of it may be anything.
NAMESPACE, TYPE = "system", "Things.example"


def generate(protos):
    """Makes the modules of all .proto files below the folder, and has Python find them."""
    out = tempfile.mkdtemp()
    files = [str(path.relative_to(protos)) for path in protos.rglob("*.proto")]
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    paths = [f"-I{protos}", f"-I{well_known}", f"--python_out={out}", f"--grpc_python_out={out}"]
    assert protoc.main(["protoc", *paths, *files]) == 0, "protoc refuses the files"
    sys.path.insert(0, out)


generate(pathlib.Path(sys.argv[1]))
from cosi.resource import meta_pb2, resource_pb2, state_pb2, state_pb2_grpc  # noqa: E402
from osbuild.v1 import configuration_pb2, configuration_pb2_grpc  # noqa: E402

EVENTS = state_pb2.EventType


def names(**more):
    return dict(namespace=NAMESPACE, type=TYPE, **more)


def thing(name, **more):
    metadata = resource_pb2.Metadata(
        **names(id=name, version="undefined", phase="running"), **more
    )
    spec = resource_pb2.Spec(yaml_spec="value: '1'\n")
    return resource_pb2.Resource(metadata=metadata, spec=spec)


def code(call, request):
    """The code with which the call fails."""
    try:
        call(request)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def holds(claim, condition):
    assert condition, claim
    print(claim)


def watch(stub, **options):
    """The events of a watch, whose first message is empty."""
    request = state_pb2.WatchRequest(
        **names(), options=state_pb2.WatchOptions(**options), api_version=1
    )
    stream = stub.Watch(request, timeout=20)
    holds("a watch begins with an empty message", not next(stream).event)
    return (event for message in stream for event in message.event)


def services(channel):
    health = health_pb2_grpc.HealthStub(channel)
    found = ProtoReflectionDescriptorDatabase(channel).get_services()
    for service in ["cosi.resource.State", "osbuild.v1.Configuration"]:
        status = health.Check(health_pb2.HealthCheckRequest(service=service)).status
        holds(f"{service} is healthy", status == health_pb2.HealthCheckResponse.SERVING)
        holds(f"reflection names {service}", service in found)


def applies(channel):
    stub = configuration_pb2_grpc.ConfigurationStub(channel)
    documents = """
api: cosi.dev
version: '1'
type: Resolver
namespace: system
id: local
spec:
  search: local
---
type: TimeServer
id: ours
spec: {server: [time.example, '192.0.2.4']}
"""
    request = configuration_pb2.ApplyRequest(documents=documents)
    outcomes = [applied.outcome for applied in stub.Apply(request).resources]
    created = configuration_pb2.AppliedResource.CREATED
    holds("documents become resources", outcomes == [created, created])
    outcomes = [applied.outcome for applied in stub.Apply(request).resources]
    unchanged = configuration_pb2.AppliedResource.UNCHANGED
    holds("the same documents change nothing", outcomes == [unchanged, unchanged])


def tries(channel):
    stub = configuration_pb2_grpc.ConfigurationStub(channel)
    begin = configuration_pb2.BeginTryRequest
    refused = code(stub.BeginTry, begin(timeout_seconds=60)) == grpc.StatusCode.UNIMPLEMENTED
    holds("without a node there is nothing to try", refused)
    for seconds in [0, 3601]:
        outcome = code(stub.BeginTry, begin(timeout_seconds=seconds))
        holds(f"no try lasts {seconds} s", outcome == grpc.StatusCode.INVALID_ARGUMENT)


def definitions(stub):
    types = stub.List(
        state_pb2.ListRequest(namespace="meta", type="ResourceDefinitions.meta.cosi.dev")
    )
    specs = [
        meta_pb2.ResourceDefinitionSpec.FromString(found.resource.spec.proto_spec)
        for found in types
    ]
    kinds = {spec.resource_type: spec.default_namespace for spec in specs}
    known = kinds.get("KernelParameters.osbuild")
    holds("the definitions name the kind of setting", known == NAMESPACE)


def writes(stub):
    created = stub.Create(state_pb2.CreateRequest(resource=thing("a", labels={"on": "x"})))
    created = created.resource
    holds("a new resource has version 1", created.metadata.version == "1")
    holds("a spec without a message stays so", created.spec == thing("a").spec)
    found = stub.Get(state_pb2.GetRequest(**names(id="a"))).resource
    holds("what was created is read back", found == created)
    changed = resource_pb2.Resource()
    changed.CopyFrom(found)
    changed.metadata.finalizers.append("python")
    changed.spec.proto_spec = b"\x00\xff"
    updated = stub.Update(state_pb2.UpdateRequest(new_resource=changed)).resource
    holds("an update makes version 2", updated.metadata.version == "2")
    holds("an update has a later time", later(updated.metadata.updated, found.metadata.updated))
    holds("an update keeps the other time", updated.metadata.created == found.metadata.created)
    holds("bytes come back", updated.spec.proto_spec == b"\x00\xff")
    stale = state_pb2.UpdateRequest(new_resource=changed)
    holds("a stale update fails", code(stub.Update, stale) == grpc.StatusCode.FAILED_PRECONDITION)
    term = resource_pb2.LabelTerm(key="on", op=resource_pb2.LabelTerm.EQUAL, value=["x"])
    query = resource_pb2.LabelQuery(terms=[term])
    for inverted, ids in [(False, ["a"]), (True, ["b"])]:
        query.terms[0].invert = inverted
        options = state_pb2.ListOptions(label_query=[query])
        listed = stub.List(state_pb2.ListRequest(**names(), options=options))
        selected = [found.resource.metadata.id for found in listed]
        holds(f"a list selects by label, inverted: {inverted}", selected == ids)


def later(time, other):
    return (time.seconds, time.nanos) > (other.seconds, other.nanos)


def removals(stub):
    destroy = state_pb2.DestroyRequest(**names(id="a"))
    refused = code(stub.Destroy, destroy) == grpc.StatusCode.FAILED_PRECONDITION
    holds("a resource with a finalizer stays", refused)
    torn = stub.Teardown(state_pb2.TeardownRequest(**names(id="a")))
    holds("a resource with a finalizer is not ready", not torn.destroy_ready)
    waiting = stub.TeardownAndDestroy.future(
        state_pb2.TeardownAndDestroyRequest(**names(id="a")), timeout=20
    )
    released = stub.Get(state_pb2.GetRequest(**names(id="a"))).resource
    holds("a resource that must go says so", released.metadata.phase == "tearingDown")
    holds("a call waits for the finalizer", not waiting.done())
    del released.metadata.finalizers[:]
    stub.Update(state_pb2.UpdateRequest(new_resource=released))
    waiting.result()
    gone = code(stub.Get, state_pb2.GetRequest(**names(id="a")))
    holds("and then destroys the resource", gone == grpc.StatusCode.NOT_FOUND)
    stub.Destroy(state_pb2.DestroyRequest(**names(id="b")))
    gone = code(stub.Destroy, state_pb2.DestroyRequest(**names(id="b")))
    holds("a destroyed resource is gone", gone == grpc.StatusCode.NOT_FOUND)


def events(found, count):
    taken = [next(found) for _ in range(count)]
    short = [(EVENTS.Name(event.event_type), event.resource.metadata.id) for event in taken]
    return taken, short


def main():
    # gRPC would send the path as authority, which is none for a server in Rust.
    options = [("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(f"unix:{sys.argv[2]}", options) as channel:
        grpc.channel_ready_future(channel).result(timeout=20)
        stub = state_pb2_grpc.StateStub(channel)
        services(channel)
        applies(channel)
        tries(channel)
        definitions(stub)
        stub.Create(state_pb2.CreateRequest(resource=thing("b")))
        watched = watch(stub, bootstrap_contents=True)
        _, contents = events(watched, 2)
        expected = [("CREATED", "b"), ("BOOTSTRAPPED", "")]
        holds("a watch begins with the contents", contents == expected)
        writes(stub)
        removals(stub)
        changes, short = events(watched, 6)
        expected = ["CREATED", "UPDATED", "UPDATED", "UPDATED", "DESTROYED", "DESTROYED"]
        holds("a watch reports each change", short == list(zip(expected, "aaaaab")))
        holds("an update has both versions", changes[1].old.metadata.version == "1")
        missed = watch(stub, start_from_bookmark=changes[3].bookmark)
        _, short = events(missed, 2)
        expected = [("DESTROYED", "a"), ("DESTROYED", "b")]
        holds("a bookmark leads to the later changes", short == expected)


main()
