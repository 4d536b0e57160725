//go:build unix

package sternpost_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sternpost.dev/go"
)

const (
	fixtures = "../fixtures"
	patience = time.Minute
)

// With it set, the test program only starts a server, says where it is, and ends as the variable tells.
const endVariable = "STERNPOST_TEST_END"

func TestMain(m *testing.M) {
	if end := os.Getenv(endVariable); end != "" {
		startAndEnd(end)
	}
	os.Exit(m.Run())
}

func startAndEnd(end string) {
	server, err := sternpost.New()
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	fmt.Println(server.Kubeconfig)
	if end == "kill" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	panic("as asked")
}

func waitUntil(t *testing.T, condition func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(end) {
			t.Fatal("it did not come to pass")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestAServerAnswersAndLeavesNothingBehind(t *testing.T) {
	server, err := sternpost.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Request(http.MethodGet, "/readyz", nil, nil); err != nil {
		t.Error(err)
	}
	if !exists(server.Kubeconfig) {
		t.Error("there is no kubeconfig")
	}
	server.Stop()
	server.Stop()
	if exists(filepath.Dir(server.Kubeconfig)) {
		t.Error("its folder is left")
	}
	if err := server.Request(http.MethodGet, "/readyz", nil, nil); err == nil {
		t.Error("it still answers")
	}
}

func TestErrorsHaveTheStatus(t *testing.T) {
	server := sternpost.Start(t)
	err := server.Request(http.MethodGet, "/api/v1/namespaces/nowhere", nil, nil)
	var status *sternpost.StatusError
	if !errors.As(err, &status) || status.Code != 404 || status.Reason != "NotFound" {
		t.Errorf("it says %v", err)
	}
}

func TestWhatIsLoadedIsThere(t *testing.T) {
	server := sternpost.Start(t, sternpost.Load(fixtures))
	var boat struct{ Spec struct{ Masts int } }
	if err := server.Request(http.MethodGet, "/apis/example.com/v1/namespaces/harbour/boats/loaded", nil, &boat); err != nil {
		t.Fatal(err)
	}
	if boat.Spec.Masts != 2 {
		t.Errorf("it has %d masts", boat.Spec.Masts)
	}
}

func TestWrongUsesFailTheStart(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\ndata:\n  a: [1]\n"
	if err := os.WriteFile(wrong, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		option sternpost.Option
		says   string
	}{
		{sternpost.Load(wrong), "wrong.yaml:7:"},
		{sternpost.Flags("--nonsense"), "--nonsense"},
		{sternpost.Timeout(time.Nanosecond), "was not ready in 1ns"},
	} {
		if _, err := sternpost.New(test.option); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("want %q in %v", test.says, err)
		}
	}
	t.Setenv("STERNPOST_BINARY", "/nowhere")
	if _, err := sternpost.New(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it says %v", err)
	}
}

func TestControllersAreASwitch(t *testing.T) {
	phase := func(server *sternpost.Server) (string, error) {
		var namespace struct{ Status struct{ Phase string } }
		err := server.Request(http.MethodGet, "/api/v1/namespaces/ending", nil, &namespace)
		return namespace.Status.Phase, err
	}
	end := func(server *sternpost.Server) {
		body := map[string]any{"metadata": map[string]any{"name": "ending"}}
		if err := server.Request(http.MethodPost, "/api/v1/namespaces", body, nil); err != nil {
			t.Fatal(err)
		}
		if err := server.Request(http.MethodDelete, "/api/v1/namespaces/ending", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	bare := sternpost.Start(t, sternpost.WithoutControllers())
	end(bare)
	if phase, err := phase(bare); err != nil || phase != "Terminating" {
		t.Errorf("it is %s: %v", phase, err)
	}
	whole := sternpost.Start(t)
	end(whole)
	waitUntil(t, func() bool {
		_, err := phase(whole)
		var status *sternpost.StatusError
		return errors.As(err, &status) && status.Code == 404
	})
}

func TestANamespaceOfItsOwn(t *testing.T) {
	server := sternpost.Start(t, sternpost.Flags("--log-level=debug"))
	one, other := server.Namespace(t), server.Namespace(t)
	if one == other || !strings.HasPrefix(one, "test-") {
		t.Errorf("they are %s and %s", one, other)
	}
	waitUntil(t, func() bool { return strings.Contains(server.Log(), "/api/v1/namespaces") })
}

func TestAServerEndsWithTheProcessThatStartedIt(t *testing.T) {
	for _, end := range []string{"kill", "panic"} {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), endVariable+"="+end)
		output, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		kubeconfig, err := bufio.NewReader(output).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Wait(); err == nil {
			t.Errorf("%s: it ended well", end)
		}
		kubeconfig = strings.TrimSpace(kubeconfig)
		if !strings.HasSuffix(kubeconfig, "kubeconfig") {
			t.Fatalf("%s: it says %q", end, kubeconfig)
		}
		waitUntil(t, func() bool { return !exists(filepath.Dir(kubeconfig)) })
	}
}

func TestSettingsOfTheEnvironmentAreNotForIt(t *testing.T) {
	t.Setenv("STERNPOST_LOG_FORMAT", "json")
	server := sternpost.Start(t)
	if err := server.Request(http.MethodGet, "/version", nil, nil); err != nil {
		t.Error(err)
	}
}

func TestAssets(t *testing.T) {
	folder := sternpost.Assets(t)
	version, err := exec.Command(filepath.Join(folder, "kube-apiserver"), "--version").Output()
	if err != nil || !strings.HasPrefix(string(version), "Kubernetes v1.") {
		t.Errorf("it says %s: %v", version, err)
	}
}
