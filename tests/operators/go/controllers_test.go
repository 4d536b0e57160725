package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// needControllers skips what an envtest of kube-apiserver and etcd cannot do.
func needControllers(t *testing.T) {
	t.Helper()
	if os.Getenv("OPERATOR_CONTROLLERS") != "true" {
		t.Skip("OPERATOR_CONTROLLERS is not true: nobody collects garbage or ends namespaces")
	}
}

func owned(fleet *Fleet) []client.Object {
	meta := metav1.ObjectMeta{Namespace: fleet.Namespace, Name: fleet.Name}
	return []client.Object{&corev1.ConfigMap{ObjectMeta: meta}, &appsv1.Deployment{ObjectMeta: meta}}
}

func TestOwnedObjectsGoWithTheirFleet(t *testing.T) {
	needControllers(t)
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			fleet := anchored(t, newNamespace(t), "going")
			must(t, admin.Delete(ctx, fleet, client.PropagationPolicy(policy)))
			eventually(t, "end of the fleet", gone(fleet))
			for _, object := range owned(fleet) {
				eventually(t, fmt.Sprintf("end of %T", object), gone(object))
			}
		})
	}
}

func TestForegroundDeletionWaitsForWhatBlocksIt(t *testing.T) {
	needControllers(t)
	fleet := anchored(t, newNamespace(t), "waiting")
	orders := &corev1.ConfigMap{}
	must(t, admin.Get(ctx, client.ObjectKeyFromObject(fleet), orders))
	held := orders.DeepCopy()
	held.Finalizers = []string{"harbour.example.com/held"}
	must(t, admin.Patch(ctx, held, client.MergeFrom(orders)))
	must(t, admin.Delete(ctx, fleet, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	eventually(t, "deletion of the orders", func() error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(fleet), orders); err != nil {
			return err
		}
		return want("being deleted", orders.DeletionTimestamp.IsZero(), false)
	})
	time.Sleep(glance)
	must(t, admin.Get(ctx, client.ObjectKeyFromObject(fleet), fleet))
	must(t, want("finalizers left", fmt.Sprint(fleet.Finalizers), "[foregroundDeletion]"))
	free := orders.DeepCopy()
	free.Finalizers = nil
	must(t, admin.Patch(ctx, free, client.MergeFrom(orders)))
	eventually(t, "end of the fleet", gone(fleet))
	must(t, gone(orders)())
}

func TestOrphansStay(t *testing.T) {
	needControllers(t)
	fleet := anchored(t, newNamespace(t), "leaving")
	must(t, admin.Delete(ctx, fleet, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	eventually(t, "end of the fleet", gone(fleet))
	time.Sleep(glance)
	for _, object := range owned(fleet) {
		must(t, admin.Get(ctx, client.ObjectKeyFromObject(object), object))
		must(t, want("owners", len(object.GetOwnerReferences()), 0))
	}
}

func TestNamespaceEndsWithAllInIt(t *testing.T) {
	needControllers(t)
	name := newNamespace(t)
	fleets := []*Fleet{anchored(t, name, "one"), anchored(t, name, "two")}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	must(t, admin.Delete(ctx, namespace))
	eventually(t, "end of the namespace", gone(namespace))
	logbook := &corev1.ConfigMap{}
	must(t, admin.Get(ctx, types.NamespacedName{Namespace: logbookNamespace, Name: logbookName}, logbook))
	for _, fleet := range fleets {
		must(t, gone(fleet)())
		for _, object := range owned(fleet) {
			must(t, gone(object)())
		}
		if logbook.Data[name+"."+fleet.Name] == "" {
			t.Errorf("the finalizer of %s did not run: %v", fleet.Name, logbook.Data)
		}
	}
}
