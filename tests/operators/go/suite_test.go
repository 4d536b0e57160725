package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	patience = 30 * time.Second
	pause    = 50 * time.Millisecond
	// How long something is watched that must not happen.
	glance = 2 * time.Second
)

var (
	ctx            = context.Background()
	environment    *envtest.Environment
	admin          client.Client
	operatorConfig *rest.Config
	metricsAddress string
)

// One control plane and one operator for all tests; each test has its namespace.
func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	if os.Getenv("OPERATOR_LOG") != "" {
		ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	} else {
		ctrl.SetLogger(zap.New(zap.WriteTo(&strings.Builder{})))
	}
	environment = &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("config", "crd.yaml")},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{filepath.Join("config", "webhooks.yaml")}},
	}
	config, err := environment.Start()
	if err != nil {
		return 1, err
	}
	defer environment.Stop()
	scheme, err := newScheme()
	if err != nil {
		return 1, err
	}
	if admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	if err := installRole(); err != nil {
		return 1, err
	}
	// Not as the administrator: with no more than its role allows.
	user, err := environment.AddUser(envtest.User{Name: "fleet-operator"}, nil)
	if err != nil {
		return 1, err
	}
	operatorConfig = user.Config()
	stop, err := startOperator()
	if err != nil {
		return 1, err
	}
	code := m.Run()
	return code, stop()
}

func installRole() error {
	file, err := os.Open(filepath.Join("config", "role.yaml"))
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for _, object := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		if err := decoder.Decode(object); err != nil {
			return err
		}
		if err := admin.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func startOperator() (func() error, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	metricsAddress = address
	serving := environment.WebhookInstallOptions
	manager, err := newOperator(operatorConfig, operatorOptions{
		leaseNamespace: "default",
		metrics:        metricsAddress,
		webhooks: webhook.Options{
			Host: serving.LocalServingHost, Port: serving.LocalServingPort, CertDir: serving.LocalServingCertDir,
		},
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	stop := func() error { cancel(); return <-ended }
	// The webhook server is up before the leader is elected.
	select {
	case <-manager.Elected():
		return stop, nil
	case err := <-ended:
		cancel()
		return nil, fmt.Errorf("the operator ended: %w", err)
	case <-time.After(patience):
		return nil, fmt.Errorf("no leader: %w", stop())
	}
}

func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "harbour-"}}
	must(t, admin.Create(ctx, namespace))
	return namespace.Name
}

func newFleet(namespace, name string) *Fleet {
	return &Fleet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       FleetSpec{Port: "Brest", Orders: map[string]string{"course": "west"}},
	}
}

// anchored creates a fleet and waits until the operator has seen to it.
func anchored(t *testing.T, namespace, name string) *Fleet {
	t.Helper()
	fleet := newFleet(namespace, name)
	must(t, admin.Create(ctx, fleet))
	eventually(t, "status of "+name, func() error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(fleet), fleet); err != nil {
			return err
		}
		return want("observedGeneration", fleet.Status.ObservedGeneration, fleet.Generation)
	})
	return fleet
}

func gone(object client.Object) func() error {
	return func() error {
		err := admin.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s is still there (%v): finalizers %v", object.GetName(), err, object.GetFinalizers())
	}
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(pause) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not in %s: %v", what, patience, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want[T comparable](what string, got, wanted T) error {
	if got != wanted {
		return fmt.Errorf("%s: got %v, want %v", what, got, wanted)
	}
	return nil
}

// refused wants an error of this kind that says this.
func refused(t *testing.T, err error, kind func(error) bool, words string) {
	t.Helper()
	if err == nil || !kind(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v (%s), want a refusal that says %q", err, apierrors.ReasonForError(err), words)
	}
}
