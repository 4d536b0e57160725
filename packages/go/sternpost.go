// Package sternpost starts throw-away servers of the Kubernetes API for tests.
//
//	server := sternpost.Start(t, sternpost.Load("../config/crd"))
//	config := restconfig.Of(server) // a *rest.Config; package sternpost.dev/go/restconfig
//
// The program is the one that STERNPOST_BINARY names, else the one on the PATH.
package sternpost

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Version is the version of this module and of the program it is made for.
const Version = "0.1.0"

const (
	binaryVariable = "STERNPOST_BINARY"
	// How long a server may take to be ready, and then to end once it is asked to.
	readyTimeout = time.Minute
	endTimeout   = 10 * time.Second
	// How many lines of a log are kept for failures.
	logLines = 10_000
)

var (
	ready     = regexp.MustCompile(`^sternpost is ready on (\S+) in \d+ ms; kubeconfig: (.+)$`)
	token     = regexp.MustCompile(`(?m)^ *token: "([^"]*)"$`)
	authority = regexp.MustCompile(`(?m)^ *certificate-authority-data: (\S+)$`)
)

// Option changes how a server is started.
type Option func(*settings)

type settings struct {
	flags   []string
	timeout time.Duration
}

// Load has the objects of files, directories and kustomizations there from the beginning.
func Load(paths ...string) Option {
	return func(s *settings) {
		for _, path := range paths {
			s.flags = append(s.flags, "--load", path)
		}
	}
}

// Controllers says which controllers run, as the flag --controllers does. Without this option all do.
func Controllers(names ...string) Option {
	return Flags("--controllers=" + strings.Join(names, ","))
}

// WithoutControllers has none run: namespaces do not finish deleting, and garbage stays, as with a bare envtest.
func WithoutControllers() Option { return Controllers("-*") }

// Flags adds flags of "sternpost serve".
func Flags(flags ...string) Option {
	return func(s *settings) { s.flags = append(s.flags, flags...) }
}

// Timeout is how long the server may take to be ready; a minute if nothing is said.
func Timeout(timeout time.Duration) Option {
	return func(s *settings) { s.timeout = timeout }
}

// Server is a process of its own. It ends with Stop, and with this process at the latest.
type Server struct {
	// URL is where it is, as https://127.0.0.1:PORT.
	URL string
	// Kubeconfig is the path of a kubeconfig whose user may do everything.
	Kubeconfig string
	// Token is that user's.
	Token string
	// CA is the certificate of the server's authority, as PEM.
	CA []byte

	command *exec.Cmd
	ended   chan struct{}
	stop    sync.Once
	// Guards what follows.
	mutex sync.Mutex
	log   []string
}

// Start gives a server that ends with the test. If the test has failed by then, the server's log is in its output.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	server, err := New(options...)
	if err != nil {
		t.Fatalf("sternpost: %v", err)
	}
	t.Cleanup(func() {
		server.Stop()
		if t.Failed() {
			t.Logf("log of sternpost:\n%s", server.Log())
		}
	})
	return server
}

// New is Start for TestMain and programs, which call Stop.
func New(options ...Option) (*Server, error) {
	chosen := settings{timeout: readyTimeout}
	for _, option := range options {
		option(&chosen)
	}
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	words := []string{"serve", "--in-memory", "--listen", "127.0.0.1:0", "--exit-with-parent"}
	command := exec.Command(binary, append(words, chosen.flags...)...)
	// What a test starts is what the test says, not what variables add to it.
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "STERNPOST_")
	})
	prepare(command)
	lines, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", binary, err)
	}
	server := &Server{command: command, ended: make(chan struct{})}
	found := make(chan []string, 1)
	go server.read(lines, found)
	timeout := time.NewTimer(chosen.timeout)
	defer timeout.Stop()
	select {
	case match := <-found:
		server.URL, server.Kubeconfig = match[1], match[2]
	case <-server.ended:
		return nil, fmt.Errorf("the server ended: %v; its log:\n%s", command.ProcessState, server.Log())
	case <-timeout.C:
		server.Stop()
		return nil, fmt.Errorf("the server was not ready in %v; its log:\n%s", chosen.timeout, server.Log())
	}
	if err := server.readCredentials(); err != nil {
		server.Stop()
		return nil, err
	}
	return server, nil
}

// Binary is the path of the program.
func Binary() (string, error) {
	if chosen := os.Getenv(binaryVariable); chosen != "" {
		if _, err := os.Stat(chosen); err != nil {
			return "", fmt.Errorf("%s: %w", binaryVariable, err)
		}
		return chosen, nil
	}
	found, err := exec.LookPath("sternpost")
	if err != nil {
		return "", fmt.Errorf("there is no sternpost on the PATH, and %s is not set", binaryVariable)
	}
	return found, nil
}

func (s *Server) read(lines io.Reader, found chan<- []string) {
	reader := bufio.NewReader(lines)
	waiting := true
	for {
		line, err := reader.ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line != "" || err == nil {
			s.mutex.Lock()
			s.log = append(s.log, line)
			if len(s.log) > 2*logLines {
				s.log = append([]string(nil), s.log[logLines:]...)
			}
			s.mutex.Unlock()
			if match := ready.FindStringSubmatch(line); waiting && match != nil {
				waiting = false
				found <- match
			}
		}
		if err != nil {
			break
		}
	}
	// How it ended is in its ProcessState.
	_ = s.command.Wait()
	close(s.ended)
}

// The server has written the file: one cluster and one user, a line for each value.
func (s *Server) readCredentials() error {
	text, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		return err
	}
	user, cluster := token.FindSubmatch(text), authority.FindSubmatch(text)
	if user == nil || cluster == nil {
		return fmt.Errorf("%s has no token or no authority", s.Kubeconfig)
	}
	s.Token = string(user[1])
	s.CA, err = base64.StdEncoding.DecodeString(string(cluster[1]))
	return err
}

// Stop ends the server. Nothing is left of it.
func (s *Server) Stop() {
	s.stop.Do(func() {
		terminate(s.command.Process)
		select {
		case <-s.ended:
		case <-time.After(endTimeout):
			_ = s.command.Process.Kill()
			<-s.ended
		}
	})
}

// Log is what the server has written so far, or the last of it.
func (s *Server) Log() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return strings.Join(s.log, "\n")
}

// Environ is the environment of this process with KUBECONFIG, for programs that tests start.
func (s *Server) Environ() []string {
	return append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
}

// Namespace gives the name of a namespace that only this test has.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	var made struct {
		Metadata struct{ Name string }
	}
	body := map[string]any{"metadata": map[string]any{"generateName": "test-"}}
	if err := s.Request(http.MethodPost, "/api/v1/namespaces", body, &made); err != nil {
		t.Fatalf("cannot make a namespace: %v", err)
	}
	t.Cleanup(func() {
		// Nobody waits for its end, and the server may have ended before it.
		_ = s.Request(http.MethodDelete, "/api/v1/namespaces/"+made.Metadata.Name, nil, nil)
	})
	return made.Metadata.Name
}

// StatusError is an answer that is no success.
type StatusError struct {
	Code            int
	Reason, Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Code, e.Reason, e.Message)
}

// Request is one request as admin: body is sent, and the answer read, as JSON where they are not nil.
func (s *Server) Request(method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, s.URL+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.Token)
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		failure := &StatusError{Code: response.StatusCode}
		if json.Unmarshal(text, failure) != nil {
			failure.Message = string(text)
		}
		return failure
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// MakeAssets makes folder one for envtest: kube-apiserver and etcd there are links to the program.
func MakeAssets(folder string) error {
	binary, err := Binary()
	if err != nil {
		return err
	}
	if _, err := exec.Command(binary, "envtest", folder).Output(); err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return fmt.Errorf("sternpost envtest: %w: %s", err, failed.Stderr)
		}
		return err
	}
	return nil
}

// Assets gives a folder for envtest's BinaryAssetsDirectory or KUBEBUILDER_ASSETS that is there as long as the test.
func Assets(t testing.TB) string {
	t.Helper()
	folder := t.TempDir()
	if err := MakeAssets(folder); err != nil {
		t.Fatal(err)
	}
	return folder
}
