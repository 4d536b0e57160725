// Writes, reads and watches objects the way Go controllers do: client-go's
// typed (protobuf), dynamic and metadata clients, informers, pager, leader
// election and event recorder, and controller-runtime on top of them. With
// -definitions they do so with custom resources, which that folder defines.
//
//	go run ./live -kubeconfig FILE [-controllers] [-definitions FOLDER]
//
// Prints one FAIL line per deviation and `checks N failed M` at the end.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long anything that must happen may take.
const patience = 20 * time.Second

func main() {
	// controller-runtime has taken -kubeconfig in the common set.
	flags := flag.NewFlagSet("live", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "how to reach the server")
	controllers := flags.Bool("controllers", false, "run controller-runtime instead of client-go")
	definitions := flags.String("definitions", "", "use the custom resources that this folder defines")
	_ = flags.Parse(os.Args[1:])

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Println("FAIL kubeconfig:", err)
		os.Exit(1)
	}
	config.QPS, config.Burst = 1000, 1000
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()

	s := &suite{config: config, ctx: ctx, definitions: *definitions}
	s.protobuf = rest.CopyConfig(config)
	s.protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	s.protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	s.client = kubernetes.NewForConfigOrDie(s.protobuf)
	s.namespace = fmt.Sprintf("go-%08x", rand.Uint32())
	s.group = s.namespace + ".example.com"
	if s.createNamespace() {
		switch {
		case *definitions != "" && *controllers:
			if s.installDefinitions() {
				s.checkCustomRuntimeClient()
				s.checkCustomRuntimeUntyped()
				s.checkCustomRuntimeChanges()
				s.checkCustomRuntimeCache()
				s.checkCustomManager()
			}
			s.uninstallDefinitions()
		case *definitions != "":
			if s.checkDefinitions() {
				s.checkCustomDiscovery()
				s.checkCustomDynamic()
				s.checkCustomChanges()
				s.checkCustomSubresources()
				s.checkCustomMetadata()
				s.checkCustomSelectors()
				s.checkCustomWatch()
				s.checkCustomInformer()
				s.checkChangedDefinition()
			}
			s.removeDefinitions()
		case *controllers:
			s.checkRuntimeClient()
			s.checkRuntimeCache()
			s.checkRuntimeChanges()
			s.checkManager()
		default:
			s.checkTyped()
			s.checkStatusAndScale()
			s.checkConflicts()
			s.checkChanges()
			s.checkDynamic()
			s.checkMetadata()
			s.checkPager()
			s.checkWatch()
			s.checkInformers()
			s.checkMetadataInformer()
			s.checkDeleteCollection()
			s.checkLeaderElection()
			s.checkEvents()
		}
		s.removeNamespace()
	}

	fmt.Printf("checks %d failed %d\n", s.checks, s.failed)
	if s.failed > 0 {
		os.Exit(1)
	}
}

type suite struct {
	ctx              context.Context
	config, protobuf *rest.Config
	client           kubernetes.Interface
	namespace        string
	definitions      string
	group            string
	checks, failed   int
}

// check counts one check and reports whether it held.
func (s *suite) check(ok bool, format string, args ...any) bool {
	s.checks++
	if !ok {
		s.failed++
		fmt.Printf("FAIL "+format+"\n", args...)
	}
	return ok
}

// noError is check for calls that must succeed.
func (s *suite) noError(err error, what string) bool {
	return s.check(err == nil, "%s: %v", what, err)
}

// equal compares two values by how they print.
func (s *suite) equal(what string, got, want any) bool {
	a, b := fmt.Sprintf("%v", got), fmt.Sprintf("%v", want)
	return s.check(a == b, "%s: %s, expected %s", what, a, b)
}

// eventually waits until a condition holds.
func (s *suite) eventually(what string, condition func() bool) bool {
	err := wait.PollUntilContextTimeout(s.ctx, 20*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return condition(), nil })
	return s.check(err == nil, "%s: not in %s", what, patience)
}

func (s *suite) createNamespace() bool {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	made, err := s.client.CoreV1().Namespaces().Create(s.ctx, namespace, metav1.CreateOptions{})
	return s.noError(err, "create namespace") && s.equal("namespace phase", made.Status.Phase, corev1.NamespaceActive)
}

// removeNamespace leaves nothing, even on a server without a namespace controller.
func (s *suite) removeNamespace() {
	core := s.client.CoreV1()
	all := metav1.ListOptions{}
	now := *metav1.NewDeleteOptions(0)
	s.noError(core.ConfigMaps(s.namespace).DeleteCollection(s.ctx, now, all), "remove config maps")
	s.noError(core.Events(s.namespace).DeleteCollection(s.ctx, now, all), "remove events")
	s.noError(s.client.CoordinationV1().Leases(s.namespace).DeleteCollection(s.ctx, now, all), "remove leases")
	s.noError(core.Namespaces().Delete(s.ctx, s.namespace, metav1.DeleteOptions{}), "delete namespace")
	namespace, err := core.Namespaces().Get(s.ctx, s.namespace, metav1.GetOptions{})
	if s.noError(err, "get namespace") {
		s.equal("namespace phase", namespace.Status.Phase, corev1.NamespaceTerminating)
		namespace.Spec.Finalizers = nil
		_, err = core.Namespaces().Finalize(s.ctx, namespace, metav1.UpdateOptions{})
		s.noError(err, "finalize namespace")
	}
	_, err = core.Namespaces().Get(s.ctx, s.namespace, metav1.GetOptions{})
	s.check(apierrors.IsNotFound(err), "namespace after finalize: %v", err)
}

func (s *suite) configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: labels},
		Data:       map[string]string{"key": "value"},
	}
}

func (s *suite) mustCreate(name string, labels map[string]string) *corev1.ConfigMap {
	made, err := s.client.CoreV1().ConfigMaps(s.namespace).Create(s.ctx, s.configMap(name, labels), metav1.CreateOptions{})
	s.noError(err, "create "+name)
	return made
}
