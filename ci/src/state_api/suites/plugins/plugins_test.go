package plugins

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stretchr/testify/suite"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/controller/conformance"
	runtime "github.com/cosi-project/runtime/pkg/controller/protobuf/client"
	"github.com/cosi-project/runtime/pkg/logging"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
)

// The time for `osd` to start, and to note that a connection has ended.
const timeout = 10 * time.Second

// start starts an `osd`, and returns the addresses of its state and of its plugin.
func start(t *testing.T, program string) (*exec.Cmd, string, string) {
	folder := t.TempDir()
	state, plugin := filepath.Join(folder, "socket"), filepath.Join(folder, "test", "socket")
	osd := exec.Command(program, "--socket", state, "--plugins", folder,
		"--accept-any-type", "--test-plugin", "test")
	osd.Stderr = os.Stderr
	require.NoError(t, osd.Start())
	for _, socket := range []string{state, plugin} {
		require.Eventually(t, func() bool {
			conn, err := net.Dial("unix", socket)
			if err == nil {
				conn.Close()
			}
			return err == nil
		}, timeout, 10*time.Millisecond)
	}
	return osd, "unix://" + state, "unix://" + plugin
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	conn, err := grpc.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	return conn
}

// areGone returns whether no controller is connected.
func areGone(t *testing.T, states v1alpha1.StateClient) bool {
	request := v1alpha1.ListRequest{Namespace: "system", Type: "ControllerStatuses.osbuild"}
	list, err := states.List(context.Background(), &request)
	require.NoError(t, err)
	for {
		found, err := list.Recv()
		if errors.Is(err, io.EOF) {
			return true
		}
		require.NoError(t, err)
		if strings.Contains(found.GetResource().GetSpec().GetYamlSpec(), "connected: true") {
			return false
		}
	}
}

// empty destroys what a test has left in an `osd` that serves the next one, too.
func empty(t *testing.T, all state.State) {
	ctx := context.Background()
	kinds := []string{conformance.IntResourceType, conformance.StrResourceType,
		conformance.SentenceResourceType}
	namespaces := []string{"default", "ints", "strings", "sentences", "source", "source1",
		"source2", "target"}
	for _, namespace := range namespaces {
		for _, kind := range kinds {
			name := resource.NewMetadata(namespace, kind, "", resource.VersionUndefined)
			found, err := all.List(ctx, name)
			require.NoError(t, err)
			for _, one := range found.Items {
				one := one.Metadata()
				require.NoError(t, all.RemoveFinalizer(ctx, one, *one.Finalizers()...))
				require.NoError(t, all.Destroy(ctx, one, state.WithDestroyOwner(one.Owner())))
			}
		}
	}
}

// TestRuntime runs the suite with the program `OSD`, which it starts for each test, or with a
// server at the addresses `OSD_STATE` and `OSD_PLUGIN`.
func TestRuntime(t *testing.T) {
	require.NoError(t, protobuf.RegisterResource(conformance.IntResourceType, &conformance.IntResource{}))
	require.NoError(t, protobuf.RegisterResource(conformance.StrResourceType, &conformance.StrResource{}))
	require.NoError(t, protobuf.RegisterResource(conformance.SentenceResourceType, &conformance.SentenceResource{}))

	tests := &conformance.RuntimeSuite{OutputTrackerNotImplemented: true, MetricsNotImplemented: true}
	var osd *exec.Cmd
	var conns []*grpc.ClientConn
	tests.SetupRuntime = func() {
		statesAt, pluginAt := os.Getenv("OSD_STATE"), os.Getenv("OSD_PLUGIN")
		if program := os.Getenv("OSD"); program != "" {
			osd, statesAt, pluginAt = start(t, program)
		}
		conns = []*grpc.ClientConn{dial(t, statesAt), dial(t, pluginAt)}
		states := v1alpha1.NewStateClient(conns[0])
		tests.State = state.WrapCore(client.NewAdapter(states))
		if osd == nil {
			gone := func() bool { return areGone(t, states) }
			require.Eventually(t, gone, timeout, 100*time.Millisecond)
			empty(t, tests.State)
		}
		tests.Runtime = runtime.NewAdapter(struct {
			v1alpha1.ControllerAdapterClient
			v1alpha1.ControllerRuntimeClient
		}{v1alpha1.NewControllerAdapterClient(conns[1]), v1alpha1.NewControllerRuntimeClient(conns[1])},
			logging.DefaultLogger())
	}
	tests.TearDownRuntime = func() {
		for _, conn := range conns {
			conn.Close()
		}
		if osd != nil {
			osd.Process.Kill()
			osd.Wait()
		}
	}
	suite.Run(t, tests)
}
