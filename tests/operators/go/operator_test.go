package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func TestWebhookFillsInDefaults(t *testing.T) {
	fleet := newFleet(newNamespace(t), "plain")
	must(t, admin.Create(ctx, fleet))
	must(t, want("ships", *fleet.Spec.Ships, defaultShips))
	must(t, want("image", fleet.Spec.Image, defaultImage))
	chosen := newFleet(fleet.Namespace, "chosen")
	chosen.Spec.Ships, chosen.Spec.Image = new(int32(4)), "registry.example.com/sloop:2"
	must(t, admin.Create(ctx, chosen, client.DryRunAll))
	must(t, want("chosen ships", *chosen.Spec.Ships, 4))
	must(t, want("chosen image", chosen.Spec.Image, "registry.example.com/sloop:2"))
	must(t, gone(chosen)())
}

func TestFleetsThatAreRefused(t *testing.T) {
	namespace := newNamespace(t)
	forbidden, invalid := apierrors.IsForbidden, apierrors.IsInvalid

	many := newFleet(namespace, "many")
	many.Spec.Ships = new(int32(mostShips + 1))
	refused(t, admin.Create(ctx, many), forbidden,
		`admission webhook "validate.fleets.harbour.example.com" denied the request: no harbour takes 11 ships`)
	negative := newFleet(namespace, "negative")
	negative.Spec.Ships = new(int32(-1))
	refused(t, admin.Create(ctx, negative), invalid, "spec.ships: Invalid value: -1")
	homeless := newFleet(namespace, "homeless")
	homeless.Spec.Port = ""
	refused(t, admin.Create(ctx, homeless), invalid, "spec.port")

	fleet := anchored(t, namespace, "kept")
	moved := fleet.deepCopy()
	moved.Spec.Port = "Toulon"
	refused(t, admin.Patch(ctx, moved, client.MergeFrom(fleet)), invalid, "a fleet does not change its home port")
	grown := fleet.deepCopy()
	grown.Spec.Ships = new(int32(99))
	refused(t, admin.Patch(ctx, grown, client.MergeFrom(fleet)), forbidden, "no harbour takes 99 ships")

	kept := fleet.deepCopy()
	kept.Annotations = map[string]string{keepAnnotation: "yes"}
	must(t, admin.Patch(ctx, kept, client.MergeFrom(fleet)))
	refused(t, admin.Delete(ctx, kept), forbidden, "fleet kept is to be kept")
	refused(t, admin.DeleteAllOf(ctx, &Fleet{}, client.InNamespace(namespace)), forbidden, "fleet kept is to be kept")
	must(t, admin.Get(ctx, client.ObjectKeyFromObject(kept), kept))
}

type warnings struct {
	sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.Lock()
	defer w.Unlock()
	w.texts = append(w.texts, text)
}

func TestWebhookWarns(t *testing.T) {
	heard := &warnings{}
	config := rest.CopyConfig(environment.Config)
	config.WarningHandlerWithContext = heard
	listening, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	must(t, err)
	fleet := newFleet(newNamespace(t), "empty")
	fleet.Spec.Ships = new(int32)
	must(t, listening.Create(ctx, fleet))
	if !slices.Contains(heard.texts, "a fleet without ships") {
		t.Errorf("warnings: %q", heard.texts)
	}
}

func TestOwnedObjectsAreMadeAndKept(t *testing.T) {
	fleet := anchored(t, newNamespace(t), "west")
	key := client.ObjectKeyFromObject(fleet)
	orders, ships := &corev1.ConfigMap{}, &appsv1.Deployment{}
	must(t, admin.Get(ctx, key, orders))
	must(t, admin.Get(ctx, key, ships))
	must(t, want("orders", orders.Data["course"], "west"))
	must(t, want("replicas", *ships.Spec.Replicas, 1))
	must(t, want("image", ships.Spec.Template.Spec.Containers[0].Image, defaultImage))
	for _, owned := range []client.Object{orders, ships} {
		owner := metav1.GetControllerOf(owned)
		if owner == nil || owner.UID != fleet.UID || owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion {
			t.Errorf("owner of %T: %v", owned, owner)
		}
	}
	if !slices.Contains(fleet.Finalizers, fleetFinalizer) {
		t.Errorf("finalizers: %v", fleet.Finalizers)
	}

	// What somebody takes away or changes comes back.
	must(t, admin.Delete(ctx, orders.DeepCopy()))
	eventually(t, "new orders", func() error {
		again := &corev1.ConfigMap{}
		if err := admin.Get(ctx, key, again); err != nil {
			return err
		}
		if again.UID == orders.UID {
			return fmt.Errorf("still the old ones")
		}
		return nil
	})
	changed := ships.DeepCopy()
	changed.Spec.Replicas = new(int32(7))
	must(t, admin.Patch(ctx, changed, client.MergeFrom(ships)))
	eventually(t, "old number of ships", func() error {
		if err := admin.Get(ctx, key, ships); err != nil {
			return err
		}
		return want("replicas", *ships.Spec.Replicas, 1)
	})
}

func TestStatusFollowsTheShips(t *testing.T) {
	fleet := anchored(t, newNamespace(t), "north")
	key := client.ObjectKeyFromObject(fleet)
	must(t, want("condition", fleet.Status.Conditions[0].Reason, "ShipsMissing"))
	ships := &appsv1.Deployment{}
	must(t, admin.Get(ctx, key, ships))
	ready := ships.DeepCopy()
	ready.Status.Replicas, ready.Status.ReadyReplicas = 1, 1
	must(t, admin.Status().Patch(ctx, ready, client.MergeFrom(ships)))
	generation := fleet.Generation
	eventually(t, "ships at sea", func() error {
		if err := admin.Get(ctx, key, fleet); err != nil {
			return err
		}
		return want("condition", fleet.Status.Conditions[0].Reason, "AllShips")
	})
	must(t, want("generation", fleet.Generation, generation))
	must(t, want("ships", fleet.Status.Ships, 1))
}

func TestScaleSubresource(t *testing.T) {
	fleet := anchored(t, newNamespace(t), "south")
	scale := &autoscalingv1.Scale{}
	must(t, admin.SubResource("scale").Get(ctx, fleet, scale))
	must(t, want("replicas", scale.Spec.Replicas, 1))
	must(t, want("selector", scale.Status.Selector, "fleet=south"))
	scale.Spec.Replicas = 3
	must(t, admin.SubResource("scale").Update(ctx, fleet, client.WithSubResourceBody(scale)))
	eventually(t, "three ships", func() error {
		ships := &appsv1.Deployment{}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(fleet), ships); err != nil {
			return err
		}
		return want("replicas", *ships.Spec.Replicas, 3)
	})
}

func TestEventsTellOfOrders(t *testing.T) {
	fleet := anchored(t, newNamespace(t), "east")
	eventually(t, "event", func() error {
		list := &eventsv1.EventList{}
		if err := admin.List(ctx, list, client.InNamespace(fleet.Namespace)); err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.Reason == "OrdersGiven" && event.Regarding.UID == fleet.UID && event.Note == "orders for Brest" &&
				event.Related != nil && event.Related.Kind == "ConfigMap" {
				return nil
			}
		}
		return fmt.Errorf("%d events, none of them right", len(list.Items))
	})
}

func TestFinalizerWritesTheLogbook(t *testing.T) {
	fleet := anchored(t, newNamespace(t), "old")
	must(t, admin.Delete(ctx, fleet, client.Preconditions{UID: &fleet.UID}))
	eventually(t, "end of the fleet", gone(fleet))
	logbook := &corev1.ConfigMap{}
	must(t, admin.Get(ctx, types.NamespacedName{Namespace: logbookNamespace, Name: logbookName}, logbook))
	if logbook.Data[fleet.Namespace+".old"] == "" {
		t.Errorf("logbook: %v", logbook.Data)
	}
}

func TestOperatorMayDoNoMoreThanItsRole(t *testing.T) {
	fleet := anchored(t, newNamespace(t), "bounds")
	operator, err := client.New(operatorConfig, client.Options{Scheme: admin.Scheme()})
	must(t, err)
	must(t, operator.Get(ctx, client.ObjectKeyFromObject(fleet), &Fleet{}))
	refused(t, operator.Delete(ctx, fleet), apierrors.IsForbidden,
		`User "fleet-operator" cannot delete resource "fleets" in API group "harbour.example.com" in the namespace "`+fleet.Namespace+`"`)
	refused(t, operator.List(ctx, &corev1.SecretList{}), apierrors.IsForbidden,
		`User "fleet-operator" cannot list resource "secrets" in API group "" at the cluster scope`)
	stranger, err := environment.AddUser(envtest.User{Name: "stranger", Groups: []string{"strangers"}}, nil)
	must(t, err)
	strange, err := client.New(stranger.Config(), client.Options{Scheme: admin.Scheme()})
	must(t, err)
	refused(t, strange.Create(ctx, newFleet(fleet.Namespace, "strange")), apierrors.IsForbidden, `User "stranger" cannot create`)
}

func TestSecondOperatorTakesOverWhenTheFirstEnds(t *testing.T) {
	lease := &coordinationv1.Lease{}
	must(t, admin.Get(ctx, types.NamespacedName{Namespace: "default", Name: leaseName}, lease))
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Fatal("nobody holds the lease of the operator that runs")
	}
	namespace := newNamespace(t)
	first, endFirst := candidate(t, namespace)
	wait(t, first, patience)
	second, endSecond := candidate(t, namespace)
	select {
	case <-second:
		t.Fatal("two leaders")
	case <-time.After(glance):
	}
	endFirst()
	wait(t, second, patience)
	endSecond()
}

// candidate is an operator that wants the lease of a namespace; it reconciles nothing
// while it is not elected, and both have finished before the test ends.
func candidate(t *testing.T, namespace string) (<-chan struct{}, func()) {
	t.Helper()
	manager, err := newOperator(operatorConfig, operatorOptions{
		leaseNamespace: namespace, metrics: "0", notAlone: true,
		webhooks: webhook.Options{Host: "127.0.0.1", Port: freePort(t), CertDir: environment.WebhookInstallOptions.LocalServingCertDir},
	})
	must(t, err)
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	var once sync.Once
	end := func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(end)
	return manager.Elected(), end
}

func wait(t *testing.T, elected <-chan struct{}, limit time.Duration) {
	t.Helper()
	select {
	case <-elected:
	case <-time.After(limit):
		t.Fatalf("not elected in %s", limit)
	}
}

// The metrics are for those whom the API server knows and lets read them.
func TestMetricsAskWhoReadsThem(t *testing.T) {
	namespace := newNamespace(t)
	reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"}}
	must(t, admin.Create(ctx, reader))
	request := &authenticationv1.TokenRequest{}
	must(t, admin.SubResource("token").Create(ctx, reader, request))

	status, _ := metrics(t, "")
	must(t, want("without a token", status, http.StatusUnauthorized))
	status, _ = metrics(t, "nonsense")
	// What controller-runtime makes of a review with an error in it.
	must(t, want("with a wrong token", status, http.StatusInternalServerError))
	// An answer is kept for a while, so the second account is asked about only when it may.
	status, _ = metrics(t, request.Status.Token)
	must(t, want("without a role", status, http.StatusForbidden))

	allowed := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "allowed"}}
	must(t, admin.Create(ctx, allowed))
	name := namespace + "-metrics"
	must(t, admin.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}))
	must(t, admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "allowed"}},
	}))
	eventually(t, "metrics with a role", func() error {
		request := &authenticationv1.TokenRequest{}
		if err := admin.SubResource("token").Create(ctx, allowed, request); err != nil {
			return err
		}
		status, body := metrics(t, request.Status.Token)
		if len(body) == 0 {
			return fmt.Errorf("no metrics, status %d", status)
		}
		return want("status", status, http.StatusOK)
	})
}

func metrics(t *testing.T, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, "https://"+metricsAddress+"/metrics", nil)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The metrics server makes a certificate of its own.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func freePort(t *testing.T) int {
	t.Helper()
	address, err := freeAddress()
	must(t, err)
	resolved, err := net.ResolveTCPAddr("tcp", address)
	must(t, err)
	return resolved.Port
}
