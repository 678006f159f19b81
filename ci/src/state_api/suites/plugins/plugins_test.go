package plugins

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
)

func dial(t *testing.T, path string) *grpc.ClientConn {
	require.Eventually(t, func() bool {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	conn, err := grpc.Dial("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	return conn
}

func TestRuntime(t *testing.T) {
	require.NoError(t, protobuf.RegisterResource(conformance.IntResourceType, &conformance.IntResource{}))
	require.NoError(t, protobuf.RegisterResource(conformance.StrResourceType, &conformance.StrResource{}))
	require.NoError(t, protobuf.RegisterResource(conformance.SentenceResourceType, &conformance.SentenceResource{}))

	tests := &conformance.RuntimeSuite{OutputTrackerNotImplemented: true, MetricsNotImplemented: true}
	var osd *exec.Cmd
	var conns []*grpc.ClientConn
	tests.SetupRuntime = func() {
		folder := t.TempDir()
		socket := filepath.Join(folder, "socket")
		osd = exec.Command(os.Getenv("OSD"), "--socket", socket, "--plugins", folder,
			"--accept-any-type", "--test-plugin", "test")
		osd.Stderr = os.Stderr
		require.NoError(t, osd.Start())
		conns = []*grpc.ClientConn{dial(t, socket), dial(t, filepath.Join(folder, "test", "socket"))}
		tests.State = state.WrapCore(client.NewAdapter(v1alpha1.NewStateClient(conns[0])))
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
		osd.Process.Kill()
		osd.Wait()
	}
	suite.Run(t, tests)
}
