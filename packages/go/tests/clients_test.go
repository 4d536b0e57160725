package tests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"sternpost.dev/go"
	"sternpost.dev/go/restconfig"
)

func TestClientGo(t *testing.T) {
	server := sternpost.Start(t)
	clients, err := kubernetes.NewForConfig(restconfig.Of(server))
	if err != nil {
		t.Fatal(err)
	}
	namespace := server.Namespace(t)
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"b": "c"}}
	if _, err := clients.CoreV1().ConfigMaps(namespace).Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	found, err := clients.CoreV1().ConfigMaps(namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || found.Data["b"] != "c" {
		t.Errorf("found %v: %v", found, err)
	}
}

func TestTheKubeconfigSaysTheSame(t *testing.T) {
	server := sternpost.Start(t)
	read, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config := restconfig.Of(server)
	if read.Host != config.Host || read.BearerToken != config.BearerToken || string(read.CAData) != string(config.CAData) {
		t.Errorf("%v is not %v", read, config)
	}
}

func TestEnvtest(t *testing.T) {
	environment := &envtest.Environment{BinaryAssetsDirectory: sternpost.Assets(t)}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	reader, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
		t.Error(err)
	}
}
