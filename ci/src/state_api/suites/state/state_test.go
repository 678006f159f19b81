package state

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/stretchr/testify/suite"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/conformance"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
)

func TestState(t *testing.T) {
	path := conformance.PathResourceType
	require.NoError(t, protobuf.RegisterResource(path, &conformance.PathResource{}))

	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	conn, err := grpc.NewClient(os.Getenv("OSD_STATE"), plain)
	require.NoError(t, err)

	suite.Run(t, &conformance.StateSuite{
		State:      state.WrapCore(client.NewAdapter(v1alpha1.NewStateClient(conn))),
		Namespaces: []resource.Namespace{"default", "controller", "system", "runtime"},
	})
}
