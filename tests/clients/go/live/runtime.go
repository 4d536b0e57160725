package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func (s *suite) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: name}
}

func (s *suite) checkRuntimeClient() {
	direct, err := client.New(s.config, client.Options{Scheme: scheme.Scheme})
	if !s.noError(err, "runtime client") {
		return
	}
	made := s.configMap("runtime", map[string]string{"runtime": "yes"})
	s.noError(direct.Create(s.ctx, made), "runtime create")
	s.check(made.UID != "", "runtime create fills in the uid")
	read := &corev1.ConfigMap{}
	s.noError(direct.Get(s.ctx, s.key("runtime"), read), "runtime get")
	read.Data["key"] = "changed"
	s.noError(direct.Update(s.ctx, read), "runtime update")
	err = direct.Update(s.ctx, made)
	s.check(apierrors.IsConflict(err), "runtime stale update: %v", err)

	list := &corev1.ConfigMapList{}
	s.noError(direct.List(s.ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"runtime": "yes"}, client.Limit(1)), "runtime list")
	s.equal("runtime list", len(list.Items), 1)
	loose := &unstructured.Unstructured{}
	loose.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	s.noError(direct.Get(s.ctx, s.key("runtime"), loose), "runtime unstructured")
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	s.noError(direct.Get(s.ctx, s.key("runtime"), partial), "runtime partial")
	s.equal("runtime partial", partial.UID, made.UID)

	result, err := controllerutil.CreateOrUpdate(s.ctx, direct, s.configMap("created", nil), func() error { return nil })
	s.noError(err, "create or update")
	s.equal("create or update", result, controllerutil.OperationResultCreated)
	target := s.configMap("created", nil)
	result, err = controllerutil.CreateOrUpdate(s.ctx, direct, target, func() error {
		target.Data["key"] = "updated"
		return controllerutil.SetControllerReference(read, target, scheme.Scheme)
	})
	s.noError(err, "create or update")
	s.equal("create or update", result, controllerutil.OperationResultUpdated)
	s.check(metav1.IsControlledBy(target, read), "owner: %v", target.OwnerReferences)

	s.noError(direct.Create(s.ctx, s.configMap("unreal", nil), client.DryRunAll), "runtime dry run")
	err = direct.Get(s.ctx, s.key("unreal"), read)
	s.check(apierrors.IsNotFound(err), "runtime dry run left an object: %v", err)
	s.noError(direct.DeleteAllOf(s.ctx, &corev1.ConfigMap{}, client.InNamespace(s.namespace)), "delete all of")
	s.noError(direct.List(s.ctx, list, client.InNamespace(s.namespace)), "runtime list")
	s.equal("after delete all of", len(list.Items), 0)
}

func (s *suite) checkRuntimeCache() {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	store, err := cache.New(s.config, cache.Options{
		Scheme: scheme.Scheme, DefaultNamespaces: map[string]cache.Config{s.namespace: {}},
	})
	if !s.noError(err, "cache") {
		return
	}
	s.noError(store.IndexField(ctx, &corev1.ConfigMap{}, "data.key", func(object client.Object) []string {
		return []string{object.(*corev1.ConfigMap).Data["key"]}
	}), "cache index")
	ended := make(chan error, 1)
	go func() { ended <- store.Start(ctx) }()
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	s.check(store.WaitForCacheSync(waiting), "cache: no sync")
	s.mustCreate("cached", nil)
	list := &corev1.ConfigMapList{}
	s.eventually("cache: indexed list", func() bool {
		err := store.List(ctx, list, client.InNamespace(s.namespace), client.MatchingFields{"data.key": "value"})
		return err == nil && len(list.Items) == 1
	})
	s.noError(s.client.CoreV1().ConfigMaps(s.namespace).Delete(s.ctx, "cached", metav1.DeleteOptions{}), "delete cached")
	s.eventually("cache: deletion", func() bool {
		return apierrors.IsNotFound(store.Get(ctx, s.key("cached"), &corev1.ConfigMap{}))
	})
	cancel()
	s.noError(<-ended, "cache: end")
}

// checkManager runs a controller, elected as leader, that copies every marked
// ConfigMap into a Secret it owns and holds it with a finalizer until then.
func (s *suite) checkManager() {
	const finalizer = "example.com/copied"
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	manager, err := ctrl.NewManager(s.config, ctrl.Options{
		Scheme:                        scheme.Scheme,
		Logger:                        logr.Discard(),
		Metrics:                       server.Options{BindAddress: "0"},
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
		LeaderElection:                true,
		LeaderElectionID:              "suite.example.com",
		LeaderElectionNamespace:       s.namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if !s.noError(err, "manager") {
		return
	}
	reconciler := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		source := &corev1.ConfigMap{}
		if err := manager.GetClient().Get(ctx, request.NamespacedName, source); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if source.Labels["copy"] != "yes" {
			return reconcile.Result{}, nil
		}
		if !source.DeletionTimestamp.IsZero() {
			if !controllerutil.RemoveFinalizer(source, finalizer) {
				return reconcile.Result{}, nil
			}
			err := manager.GetClient().Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}})
			return reconcile.Result{}, errors.Join(client.IgnoreNotFound(err), client.IgnoreNotFound(manager.GetClient().Update(ctx, source)))
		}
		if controllerutil.AddFinalizer(source, finalizer) {
			return reconcile.Result{}, manager.GetClient().Update(ctx, source)
		}
		copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
		_, err := controllerutil.CreateOrUpdate(ctx, manager.GetClient(), copied, func() error {
			copied.Data = map[string][]byte{"key": []byte(source.Data["key"])}
			return controllerutil.SetControllerReference(source, copied, scheme.Scheme)
		})
		return reconcile.Result{}, err
	})
	err = ctrl.NewControllerManagedBy(manager).Named("copier").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(reconciler)
	if !s.noError(err, "controller") {
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	select {
	case <-manager.Elected():
	case <-time.After(patience):
		s.check(false, "manager: not elected in %s", patience)
		return
	}

	secrets, maps := s.client.CoreV1().Secrets(s.namespace), s.client.CoreV1().ConfigMaps(s.namespace)
	copied := func(want string) func() bool {
		return func() bool {
			secret, err := secrets.Get(ctx, "copied", metav1.GetOptions{})
			return err == nil && string(secret.Data["key"]) == want
		}
	}
	s.mustCreate("copied", map[string]string{"copy": "yes"})
	s.eventually("manager: copy", copied("value"))
	source, err := maps.Get(ctx, "copied", metav1.GetOptions{})
	if s.noError(err, "manager: source") {
		s.equal("manager: finalizer", source.Finalizers, []string{finalizer})
		source.Data["key"] = "changed"
		_, err = maps.Update(ctx, source, metav1.UpdateOptions{})
		s.noError(err, "manager: change")
	}
	s.eventually("manager: changed copy", copied("changed"))
	s.noError(secrets.Delete(ctx, "copied", metav1.DeleteOptions{}), "manager: delete copy")
	s.eventually("manager: copy comes back", copied("changed"))
	s.noError(maps.Delete(ctx, "copied", metav1.DeleteOptions{}), "manager: delete source")
	s.eventually("manager: both are gone", func() bool {
		_, first := maps.Get(ctx, "copied", metav1.GetOptions{})
		_, second := secrets.Get(ctx, "copied", metav1.GetOptions{})
		return apierrors.IsNotFound(first) && apierrors.IsNotFound(second)
	})
	cancel()
	s.noError(<-ended, "manager: end")
}
