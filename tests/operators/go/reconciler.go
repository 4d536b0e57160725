package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	fleetFinalizer = "harbour.example.com/logbook"
	fieldOwner     = client.FieldOwner("fleet-operator")
	// The logbook outlives fleets and their namespaces.
	logbookNamespace = "default"
	logbookName      = "logbook"
)

// fleetReconciler keeps a ConfigMap with the orders and a Deployment of ships for
// every Fleet, and writes into the logbook before one goes.
type fleetReconciler struct {
	client.Client
	// Reads past the cache.
	live     client.Reader
	recorder events.EventRecorder
}

func (r *fleetReconciler) setUp(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		For(&Fleet{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.Deployment{}).
		Complete(r)
}

func (r *fleetReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	fleet := &Fleet{}
	if err := r.Get(ctx, request.NamespacedName, fleet); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !fleet.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finish(ctx, fleet)
	}
	if controllerutil.AddFinalizer(fleet, fleetFinalizer) {
		if err := r.Update(ctx, fleet); err != nil {
			return ctrl.Result{}, ignoreConflict(err)
		}
	}
	if err := r.orders(ctx, fleet); err != nil {
		return ctrl.Result{}, ignoreConflict(err)
	}
	deployment, err := r.ships(ctx, fleet)
	if err != nil {
		return ctrl.Result{}, ignoreConflict(err)
	}
	return ctrl.Result{}, ignoreConflict(r.status(ctx, fleet, deployment))
}

func (r *fleetReconciler) orders(ctx context.Context, fleet *Fleet) error {
	orders := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fleet.Name, Namespace: fleet.Namespace}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, orders, func() error {
		if err := r.mayAdopt(ctx, fleet, orders); err != nil {
			return err
		}
		orders.Data = fleet.Spec.Orders
		return controllerutil.SetControllerReference(fleet, orders, r.Scheme())
	})
	if err == nil && result == controllerutil.OperationResultCreated {
		r.recorder.Eventf(fleet, orders, corev1.EventTypeNormal, "OrdersGiven", "Create", "orders for %s", fleet.Spec.Port)
	}
	return err
}

func (r *fleetReconciler) ships(ctx context.Context, fleet *Fleet) (*appsv1.Deployment, error) {
	existing := &appsv1.Deployment{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(fleet), existing); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err := r.mayAdopt(ctx, fleet, existing); err != nil {
		return nil, err
	}
	labels := map[string]string{"fleet": fleet.Name}
	owner := metaapply.OwnerReference().
		WithAPIVersion(groupVersion.String()).WithKind("Fleet").WithName(fleet.Name).WithUID(fleet.UID).
		WithController(true).WithBlockOwnerDeletion(true)
	ships := coreapply.Container().WithName("ship").WithImage(fleet.Spec.Image)
	wanted := appsapply.Deployment(fleet.Name, fleet.Namespace).
		WithOwnerReferences(owner).
		WithSpec(appsapply.DeploymentSpec().
			WithReplicas(*fleet.Spec.Ships).
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).
				WithSpec(coreapply.PodSpec().WithContainers(ships))))
	if existing.ResourceVersion != "" {
		wanted.WithResourceVersion(existing.ResourceVersion)
	}
	if err := r.Apply(ctx, wanted, fieldOwner, client.ForceOwnership); err != nil {
		return nil, err
	}
	deployment := &appsv1.Deployment{}
	err := r.Get(ctx, client.ObjectKeyFromObject(fleet), deployment)
	return deployment, client.IgnoreNotFound(err)
}

// mayAdopt refuses an object that is there without an owner while its fleet is going: the garbage
// collector has let it go, and the cache may know of that before it knows of the deletion. The write that
// follows is bound to the version looked at, so that what is let go later is not adopted again either.
func (r *fleetReconciler) mayAdopt(ctx context.Context, fleet *Fleet, object client.Object) error {
	if object.GetResourceVersion() == "" || metav1.IsControlledBy(object, fleet) {
		return nil
	}
	now := &Fleet{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(fleet), now); err != nil {
		return err
	}
	if now.UID != fleet.UID || !now.DeletionTimestamp.IsZero() {
		return fmt.Errorf("fleet %s is being deleted and adopts nothing", fleet.Name)
	}
	return nil
}

func (r *fleetReconciler) status(ctx context.Context, fleet *Fleet, deployment *appsv1.Deployment) error {
	before := fleet.deepCopy()
	fleet.Status.Ships = deployment.Status.ReadyReplicas
	fleet.Status.Selector = "fleet=" + fleet.Name
	fleet.Status.ObservedGeneration = fleet.Generation
	condition := metav1.Condition{
		Type: "AtSea", Status: metav1.ConditionFalse, Reason: "ShipsMissing", Message: "not all ships are there",
		ObservedGeneration: fleet.Generation,
	}
	if fleet.Status.Ships == *fleet.Spec.Ships {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "AllShips", "all ships are there"
	}
	meta.SetStatusCondition(&fleet.Status.Conditions, condition)
	return r.Status().Patch(ctx, fleet, client.MergeFrom(before))
}

func (r *fleetReconciler) finish(ctx context.Context, fleet *Fleet) error {
	if !controllerutil.ContainsFinalizer(fleet, fleetFinalizer) {
		return nil
	}
	logbook := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: logbookName, Namespace: logbookNamespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, logbook, func() error {
		if logbook.Data == nil {
			logbook.Data = map[string]string{}
		}
		logbook.Data[fleet.Namespace+"."+fleet.Name] = time.Now().UTC().Format(time.RFC3339)
		return nil
	})
	if err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(fleet, fleetFinalizer)
	return client.IgnoreNotFound(r.Update(ctx, fleet))
}

// Somebody was faster; the change that he made brings the next turn.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
