// A device plugin for tests: it gives the kubelet of its node devices that are nothing but names,
// each with a NUMA node as its hint.
//
//	device-plugin RESOURCE NUMA_NODE...
//
// One device for each NUMA node that is named. A container that gets some finds their names in
// PRETENDED_DEVICES. It is started once its kubelet is, and again after that was.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const endpoint = "lockstep-test.sock"

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// The list never changes: it is told once, and then the stream is kept.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		names := strings.Join(container.DevicesIds, ",")
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"PRETENDED_DEVICES": names}})
	}
	return answer, nil
}

func devices(nodes []string) (list []*api.Device) {
	for i, text := range nodes {
		node, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			log.Fatal(err)
		}
		list = append(list, &api.Device{
			ID: fmt.Sprintf("device-%d", i), Health: api.Healthy,
			Topology: &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: node}}}})
	}
	return list
}

// A kubelet that starts empties the folder of sockets before it listens.
func awaitKubelet() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		connection, err := net.Dial("unix", api.KubeletSocket)
		if err == nil {
			return connection.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

func register(resource string) error {
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: endpoint, ResourceName: resource}, grpc.WaitForReady(true))
	return err
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("device-plugin RESOURCE NUMA_NODE...")
	}
	if err := awaitKubelet(); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", api.DevicePluginPath+endpoint)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, &plugin{devices: devices(os.Args[2:])})
	go func() {
		if err := register(os.Args[1]); err != nil {
			log.Fatal(err)
		}
	}()
	log.Fatal(server.Serve(listener))
}
