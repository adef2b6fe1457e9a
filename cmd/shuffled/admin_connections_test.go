package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/daemontest"
	"shuffled/shuffle"
)

// address returns where a daemon answers HTTP.
func address(d *daemontest.Daemon) string { return strings.TrimPrefix(d.URL, "http://") }

// dialHTTP opens a connection that the end of the test closes.
func dialHTTP(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(daemontest.Patience)))
	return conn
}

// get asks on a connection that stays open.
func get(t *testing.T, conn net.Conn, path string) (status int, body string) {
	t.Helper()
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: shuffled\r\n\r\n", path)
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

func TestThousandsOfHTTPConnectionsCostThemselvesOnly(t *testing.T) {
	d := daemontest.Start(t, daemontest.Options{Env: []string{asProgram, "TEST_NOFILE=256"}})
	before := d.Descriptors()
	var flood []net.Conn
	for i := range 1000 {
		conn := dialHTTP(t, address(d))
		if i%2 == 0 { // half of them begin a request and do not end it
			_, _ = conn.Write([]byte("GET /metrics HTTP/1.1\r\n")) // it may be closed already
		}
		flood = append(flood, conn)
	}
	status, _ := d.Get("/healthz")
	require.Equal(t, http.StatusOK, status)
	require.LessOrEqual(t, d.Descriptors(), before+maxAdminConnections)
	require.GreaterOrEqual(t, d.Metrics()["shuffled_http_connections_closed_total"], float64(1000-maxAdminConnections))

	// Clients of the socket have what they are to have, while the flood holds what it can.
	c := dial(t, d)
	var partitions []shuffle.ResultPartition
	for range (256 - reservedDescriptors - 1) / 2 {
		p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(),
			Subpartitions: 1})
		require.NoError(t, err)
		partitions = append(partitions, p)
	}
	status, _ = d.Get("/healthz")
	require.Equal(t, http.StatusOK, status)
	for _, p := range partitions {
		require.NoError(t, p.Close())
	}
	for _, conn := range flood {
		require.NoError(t, conn.Close())
	}
	eventually(t, "the descriptors are given back", func() bool { return d.Descriptors() <= before+1 })
}

// floodHTTP begins requests as fast as it can, until it is killed. It says when there
// are more than there can be.
func floodHTTP(address string) {
	var held [8 * maxAdminConnections]net.Conn
	for i := 0; ; i++ {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		_, _ = conn.Write([]byte("GET /metrics HTTP/1.1\r\n")) // it may be closed already
		if old := held[i%len(held)]; old != nil {
			_ = old.Close()
		}
		if held[i%len(held)] = conn; i == len(held) {
			fmt.Println("full")
		}
	}
}

func TestProbesAreAnsweredHoweverFastAnotherUserConnects(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	d := start(t)
	program := filepath.Join(t.TempDir(), "flood") // which others may execute
	require.NoError(t, os.Chmod(filepath.Dir(program), 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(program)), 0o755))
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, text, 0o755))
	flood := exec.Command(program)
	flood.Env = daemontest.Environ("TEST_FLOOD=" + address(d))
	flood.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Credential: &syscall.Credential{Uid: 65534,
		Gid: 65534}}
	stdout, err := flood.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, flood.Start())
	defer func() {
		_ = flood.Process.Kill()
		_ = flood.Wait() // killed
	}()
	_, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	for range 1000 {
		status, _ := d.Get("/healthz")
		require.Equal(t, http.StatusOK, status)
	}
}

func TestPeerOnThisHostIsItsUser(t *testing.T) {
	for _, network := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		listener, err := net.Listen("tcp", network)
		if err != nil {
			t.Logf("listen on %s: %v", network, err) // no such protocol here
			continue
		}
		defer listener.Close()
		port := listener.Addr().(*net.TCPAddr).Port
		for _, host := range []string{"127.0.0.1", "::1"} {
			conn, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err != nil {
				continue // not in this one
			}
			accepted, err := listener.Accept()
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("uid %d", os.Geteuid()), tcpPeer(accepted), "%s of %s", host, network)
			require.NoError(t, accepted.Close())
			require.NoError(t, conn.Close())
		}
	}
}

func TestNewHTTPConnectionTakesThePlaceOfTheOneThatIsIdleLongest(t *testing.T) {
	d := start(t)
	served := dialHTTP(t, address(d))
	status, _ := get(t, served, "/healthz")
	require.Equal(t, http.StatusOK, status)
	var idle []net.Conn
	for range maxAdminConnections - 1 {
		conn := dialHTTP(t, address(d))
		idle = append(idle, conn)
	}
	status, _ = get(t, idle[len(idle)-1], "/healthz") // so that those before it were accepted
	require.Equal(t, http.StatusOK, status)
	// Its last request makes it younger than the others.
	status, _ = get(t, served, "/healthz")
	require.Equal(t, http.StatusOK, status)
	for range 5 {
		conn := dialHTTP(t, address(d))
		status, _ = get(t, conn, "/readyz")
		require.Equal(t, http.StatusOK, status)
	}
	for _, conn := range idle[:5] {
		_, err := conn.Read(make([]byte, 1))
		require.True(t, errors.Is(err, unix.ECONNRESET) || errors.Is(err, io.EOF), "%v", err)
	}
	for _, conn := range append(idle[5:], served) {
		status, _ = get(t, conn, "/healthz")
		require.Equal(t, http.StatusOK, status)
	}
}

func TestScrapesAtOnceAreLimitedAndHealthIsAnswered(t *testing.T) {
	listener, err := listenAdmin("127.0.0.1:0")
	require.NoError(t, err)
	began, may := make(chan struct{}, 2*maxScrapes), make(chan struct{})
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
		began <- struct{}{}
		<-may
		return 1
	}))
	admin := startAdmin(listener, registry, newReadiness(), false)
	defer admin.close()
	var scrapes sync.WaitGroup
	statuses := make(chan int, maxScrapes)
	for range maxScrapes {
		conn := dialHTTP(t, listener.Addr().String())
		scrapes.Go(func() {
			status, _ := get(t, conn, "/metrics")
			statuses <- status
		})
	}
	for range maxScrapes {
		<-began
	}
	status, body := get(t, dialHTTP(t, listener.Addr().String()), "/metrics")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "Limit of concurrent requests reached")
	status, _ = get(t, dialHTTP(t, listener.Addr().String()), "/healthz")
	require.Equal(t, http.StatusOK, status)
	close(may)
	scrapes.Wait()
	for range maxScrapes {
		require.Equal(t, http.StatusOK, <-statuses)
	}
}

func TestConnectionsWhoseUserIsNotKnownAreOfOnePeer(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	peers := make(map[string]int)
	for i := range byte(8) {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2+i)}}
		conn, err := from.Dial("tcp4", listener.Addr().String())
		require.NoError(t, err)
		require.NoError(t, conn.Close()) // its socket is nobody's from now on
		accepted, err := listener.Accept()
		require.NoError(t, err)
		peers[tcpPeer(accepted)]++
		require.NoError(t, accepted.Close())
	}
	require.Len(t, peers, 1, "%v", peers)
}
