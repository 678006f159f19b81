package state

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stretchr/testify/suite"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cosi-project/runtime/api/v1alpha1"
	controllers "github.com/cosi-project/runtime/pkg/controller/conformance"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/conformance"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
)

// connect returns the state at the address, a target of gRPC.
func connect(t *testing.T, address string) state.State {
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	conn, err := grpc.NewClient(address, plain)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return state.WrapCore(client.NewAdapter(v1alpha1.NewStateClient(conn)))
}

// TestState runs the suite of states with the one at `OSD_STATE`.
func TestState(t *testing.T) {
	path := conformance.PathResourceType
	require.NoError(t, protobuf.RegisterResource(path, &conformance.PathResource{}))

	suite.Run(t, &conformance.StateSuite{
		State:      connect(t, os.Getenv("OSD_STATE")),
		Namespaces: []resource.Namespace{"default", "controller", "system", "runtime"},
	})
}

// start starts the program `OSD` for a test, and returns its state.
func start(t *testing.T) state.State {
	socket := filepath.Join(t.TempDir(), "socket")
	osd := exec.Command(os.Getenv("OSD"), "--accept-any-type", "--socket", socket)
	osd.Stderr = os.Stderr
	require.NoError(t, osd.Start())
	t.Cleanup(func() {
		osd.Process.Kill()
		osd.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	return connect(t, "unix://"+socket)
}

// TestRuntime runs the suite of runtimes with the project's own runtime, whose state is an `osd`.
func TestRuntime(t *testing.T) {
	require.NoError(t, protobuf.RegisterResource(controllers.IntResourceType, &controllers.IntResource{}))
	require.NoError(t, protobuf.RegisterResource(controllers.StrResourceType, &controllers.StrResource{}))
	require.NoError(t, protobuf.RegisterResource(controllers.SentenceResourceType, &controllers.SentenceResource{}))

	suite.Run(t, &controllers.RuntimeSuite{
		SetupRuntime: func(tests *controllers.RuntimeSuite) {
			tests.State = start(tests.T())
			var err error
			tests.Runtime, err = runtime.NewRuntime(tests.State, zap.NewNop())
			tests.Require().NoError(err)
		},
	})
}
