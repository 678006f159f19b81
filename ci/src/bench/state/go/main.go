// Command bench measures a server of cosi.resource.State, and is the reference server: the one of
// github.com/cosi-project/runtime, with its resources in memory.
//
//	bench serve SOCKET
//	bench load SOCKET
//
// `load` prints a JSON object: calls or events a second, and for `list` the seconds of one call.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	"github.com/cosi-project/runtime/pkg/state/protobuf/server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	namespace = "default"
	kind      = "Loads.bench.example"
	resources = 10000
	workers   = 8
	watchers  = 100
	updates   = 200
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: bench serve|load SOCKET"))
	}
	switch os.Args[1] {
	case "serve":
		fail(serve(os.Args[2]))
	case "load":
		fail(load(os.Args[2]))
	default:
		fail(fmt.Errorf("no command %q", os.Args[1]))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	inMemory := state.WrapCore(namespaced.NewState(inmem.Build))
	grpcServer := grpc.NewServer()
	v1alpha1.RegisterStateServer(grpcServer, server.NewState(inMemory))
	return grpcServer.Serve(listener)
}

// load makes the calls in the order in which a resource lives.
func load(socket string) error {
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	client, measured := v1alpha1.NewStateClient(connection), map[string]float64{}
	for _, step := range []struct {
		name string
		run  func(v1alpha1.StateClient) (float64, error)
	}{{"create", create}, {"get", get}, {"list", list}, {"fan_out", fanOut}, {"destroy", destroy}} {
		if measured[step.name], err = step.run(client); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(measured)
}

func create(client v1alpha1.StateClient) (float64, error) {
	return each(resources, func(number int) error {
		request := &v1alpha1.CreateRequest{Resource: resource(number, "undefined"), Options: &v1alpha1.CreateOptions{}}
		_, err := client.Create(context.Background(), request)
		return err
	})
}

func get(client v1alpha1.StateClient) (float64, error) {
	return each(resources, func(number int) error {
		request := &v1alpha1.GetRequest{Namespace: namespace, Type: kind, Id: id(number)}
		_, err := client.Get(context.Background(), request)
		return err
	})
}

func destroy(client v1alpha1.StateClient) (float64, error) {
	return each(resources, func(number int) error {
		request := &v1alpha1.DestroyRequest{Namespace: namespace, Type: kind, Id: id(number), Options: &v1alpha1.DestroyOptions{}}
		_, err := client.Destroy(context.Background(), request)
		return err
	})
}

func list(client v1alpha1.StateClient) (float64, error) {
	began := time.Now()
	stream, err := client.List(context.Background(), &v1alpha1.ListRequest{Namespace: namespace, Type: kind, Options: &v1alpha1.ListOptions{}})
	if err != nil {
		return 0, err
	}
	for range resources {
		if _, err := stream.Recv(); err != nil {
			return 0, err
		}
	}
	return time.Since(began).Seconds(), nil
}

// fanOut updates resources while others watch all of them.
func fanOut(client v1alpha1.StateClient) (float64, error) {
	streams := make([]v1alpha1.State_WatchClient, watchers)
	for number := range streams {
		request := &v1alpha1.WatchRequest{Namespace: namespace, Type: kind, Options: &v1alpha1.WatchOptions{}, ApiVersion: 1}
		stream, err := client.Watch(context.Background(), request)
		if err != nil {
			return 0, err
		}
		// The first message says that the watch has begun.
		if _, err := stream.Recv(); err != nil {
			return 0, err
		}
		streams[number] = stream
	}
	var receivers sync.WaitGroup
	failed := make(chan error, watchers)
	for _, stream := range streams {
		receivers.Go(func() {
			for received := 0; received < updates; {
				message, err := stream.Recv()
				if err != nil {
					failed <- err
					return
				}
				received += len(message.Event)
			}
		})
	}
	began := time.Now()
	_, err := each(updates, func(number int) error {
		request := &v1alpha1.UpdateRequest{NewResource: resource(number, "1"), Options: &v1alpha1.UpdateOptions{}}
		_, err := client.Update(context.Background(), request)
		return err
	})
	if err != nil {
		return 0, err
	}
	receivers.Wait()
	select {
	case err := <-failed:
		return 0, err
	default:
		return watchers * updates / time.Since(began).Seconds(), nil
	}
}

// each makes numbered calls, several at once, and returns how many it made in a second.
func each(count int, call func(int) error) (float64, error) {
	numbers, failed := make(chan int), make(chan error, workers)
	var running sync.WaitGroup
	began := time.Now()
	for range workers {
		running.Go(func() {
			for number := range numbers {
				if err := call(number); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	for number := range count {
		numbers <- number
	}
	close(numbers)
	running.Wait()
	select {
	case err := <-failed:
		return 0, err
	default:
		return float64(count) / time.Since(began).Seconds(), nil
	}
}

func id(number int) string {
	return fmt.Sprintf("load-%05d", number)
}

func resource(number int, version string) *v1alpha1.Resource {
	now := timestamppb.Now()
	return &v1alpha1.Resource{
		Metadata: &v1alpha1.Metadata{
			Namespace: namespace, Type: kind, Id: id(number), Version: version, Phase: "running",
			Created: now, Updated: now, Labels: map[string]string{"bench": "load"},
		},
		Spec: &v1alpha1.Spec{YamlSpec: fmt.Sprintf("number: %d\n", number)},
	}
}
