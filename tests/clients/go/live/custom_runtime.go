package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// installDefinitions uses the helper that operators' own tests use; it waits
// until discovery shows the resources.
func (s *suite) installDefinitions() bool {
	ctrl.SetLogger(logr.Discard())
	options := envtest.CRDInstallOptions{
		CRDs:         []*apiextensionsv1.CustomResourceDefinition{s.definition("sails.yaml"), s.definition("harbours.yaml")},
		PollInterval: 20 * time.Millisecond, MaxTime: patience,
	}
	installed, err := envtest.InstallCRDs(s.config, options)
	if !s.noError(err, "install definitions") {
		return false
	}
	s.equal("installed", len(installed), 2)
	// What is there already is updated.
	_, err = envtest.InstallCRDs(s.config, options)
	return s.noError(err, "install definitions again")
}

func (s *suite) uninstallDefinitions() {
	definitions := []*apiextensionsv1.CustomResourceDefinition{s.definition("sails.yaml"), s.definition("harbours.yaml")}
	s.noError(envtest.UninstallCRDs(s.config, envtest.CRDInstallOptions{CRDs: definitions}), "uninstall definitions")
	s.served("v1")
}

// runtimeClient knows sails as types; nil when it cannot be made.
func (s *suite) runtimeClient() client.WithWatch {
	kinds, err := sailScheme(s.group)
	if !s.noError(err, "scheme") {
		return nil
	}
	result, err := client.NewWithWatch(s.config, client.Options{Scheme: kinds})
	s.noError(err, "runtime client")
	return result
}

func (s *suite) typedSail(name string, spec SailSpec) *Sail {
	return &Sail{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}, Spec: spec}
}

func (s *suite) looseSail(version string) *unstructured.Unstructured {
	result := &unstructured.Unstructured{}
	result.SetGroupVersionKind(schema.GroupVersionKind{Group: s.group, Version: version, Kind: "Sail"})
	return result
}

func (s *suite) checkCustomRuntimeClient() {
	direct := s.runtimeClient()
	if direct == nil {
		return
	}
	mapping, err := direct.RESTMapper().RESTMapping(schema.GroupKind{Group: s.group, Kind: "Sail"})
	if s.noError(err, "mapping") {
		s.equal("mapping", []any{mapping.Resource.Resource, mapping.Scope.Name()}, []any{"sails", meta.RESTScopeNameNamespace})
	}
	namespaced, err := direct.IsObjectNamespaced(&Sail{})
	s.check(err == nil && namespaced, "sails are not namespaced: %v", err)

	opening := intstr.FromString("30%")
	raised := metav1.NewTime(time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC))
	made := s.typedSail("typed", SailSpec{Area: 5, Opening: &opening, RaisedAt: &raised, Reefs: []Reef{{Name: "a"}}, Tags: []string{"x"}})
	made.Labels = map[string]string{"typed": "yes"}
	made.Status.Replicas = 9
	if !s.noError(direct.Create(s.ctx, made), "create") {
		return
	}
	s.check(made.UID != "" && made.Generation == 1, "create fills in: %v", made.ObjectMeta)
	s.equal("defaults", []any{made.Spec.Colour, *made.Spec.Replicas, made.Spec.Reefs}, []any{"white", 1, []Reef{{"a", 1}}})
	s.equal("no status from a create", made.Status.Replicas, 0)
	read := &Sail{}
	s.noError(direct.Get(s.ctx, s.key("typed"), read), "get")
	s.equal("opening", read.Spec.Opening.String(), "30%")
	s.check(read.Spec.RaisedAt.Equal(&raised), "time: %v", read.Spec.RaisedAt)
	stale := read.DeepCopy()
	read.Spec.Area = 6
	s.noError(direct.Update(s.ctx, read), "update")
	s.equal("generation", read.Generation, 2)
	stale.Spec.Area = 7
	err = direct.Update(s.ctx, stale)
	s.check(apierrors.IsConflict(err), "stale update: %v", err)
	err = direct.Create(s.ctx, s.typedSail("typed", SailSpec{Area: 1}))
	s.check(apierrors.IsAlreadyExists(err), "create again: %v", err)
	err = direct.Create(s.ctx, s.typedSail("invalid", SailSpec{Area: 2000, Colour: "red"}))
	s.check(apierrors.IsInvalid(err) && strings.Contains(err.Error(), "no red sail is larger than 1000"), "rule: %v", err)
	err = direct.Create(s.ctx, s.typedSail("invalid", SailSpec{}))
	s.check(apierrors.IsInvalid(err), "minimum: %v", err)

	s.noError(direct.Create(s.ctx, s.typedSail("other", SailSpec{Area: 1, Colour: "red"})), "create other")
	count := func(options ...client.ListOption) int {
		list := &SailList{}
		s.noError(direct.List(s.ctx, list, append(options, client.InNamespace(s.namespace))...), "list")
		return len(list.Items)
	}
	s.equal("list", count(), 2)
	s.equal("list by label", count(client.MatchingLabels{"typed": "yes"}), 1)
	s.equal("list by field", count(client.MatchingFields{"spec.colour": "red"}), 1)
	err = direct.List(s.ctx, &SailList{}, client.MatchingFields{"spec.material": "flax"})
	s.check(apierrors.IsBadRequest(err), "list by another field: %v", err)
	page := &SailList{}
	s.noError(direct.List(s.ctx, page, client.InNamespace(s.namespace), client.Limit(1)), "page")
	s.check(len(page.Items) == 1 && page.Continue != "", "page: %d items", len(page.Items))
	s.noError(direct.List(s.ctx, page, client.InNamespace(s.namespace), client.Limit(1), client.Continue(page.Continue)), "next page")
	s.check(len(page.Items) == 1 && page.Continue == "", "next page: %d items", len(page.Items))

	watching, err := direct.Watch(s.ctx, &SailList{}, client.InNamespace(s.namespace), client.MatchingFields{"metadata.name": "typed"})
	if s.noError(err, "watch") {
		event, _ := s.next(watching)
		first, isSail := event.Object.(*Sail)
		s.check(isSail && event.Type == watch.Added && first.Spec.Area == 6, "watch: %s %v", event.Type, event.Object)
		watching.Stop()
	}
	strict := client.WithFieldValidation(direct, metav1.FieldValidationStrict)
	loose := s.looseSail("v1")
	loose.SetName("strict")
	loose.SetNamespace(s.namespace)
	loose.Object["spec"] = map[string]any{"area": int64(1), "weight": int64(2)}
	err = strict.Create(s.ctx, loose)
	s.check(apierrors.IsBadRequest(err), "strict: %v", err)
	s.noError(direct.Create(s.ctx, s.typedSail("unreal", SailSpec{Area: 1}), client.DryRunAll), "dry run")
	s.check(apierrors.IsNotFound(direct.Get(s.ctx, s.key("unreal"), read)), "dry run left an object")
	s.noError(direct.Delete(s.ctx, made, client.Preconditions{UID: &made.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground)), "delete")
	s.noError(direct.DeleteAllOf(s.ctx, &Sail{}, client.InNamespace(s.namespace)), "delete all of")
	s.equal("after delete all of", count(), 0)
}

// checkCustomRuntimeUntyped uses unstructured and partial objects, also of
// another version and of the cluster.
func (s *suite) checkCustomRuntimeUntyped() {
	direct := s.runtimeClient()
	if direct == nil {
		return
	}
	made := s.looseSail("v1")
	made.SetName("loose")
	made.SetNamespace(s.namespace)
	made.SetLabels(map[string]string{"loose": "yes"})
	made.Object["spec"] = map[string]any{"area": int64(5), "weight": int64(1), "settings": map[string]any{"any": []any{"thing"}}}
	if !s.noError(direct.Create(s.ctx, made), "unstructured create") {
		return
	}
	s.equal("pruned", made.Object["spec"], map[string]any{"area": 5, "colour": "white", "replicas": 1, "settings": map[string]any{"any": []any{"thing"}}})
	read := s.looseSail("v1")
	s.noError(direct.Get(s.ctx, s.key("loose"), read), "unstructured get")
	before := read.DeepCopy()
	s.noError(unstructured.SetNestedField(read.Object, "red", "spec", "colour"), "set field")
	s.noError(direct.Patch(s.ctx, read, client.MergeFrom(before)), "unstructured patch")
	s.equal("generation", read.GetGeneration(), 2)
	s.noError(unstructured.SetNestedField(read.Object, int64(1), "status", "replicas"), "set status")
	s.noError(direct.Status().Update(s.ctx, read), "unstructured status")
	typed := &Sail{}
	s.noError(direct.Get(s.ctx, s.key("loose"), typed), "typed get")
	s.equal("typed", []any{typed.Spec.Colour, typed.Status.Replicas}, []any{"red", 1})
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: s.group, Version: "v1", Kind: "SailList"})
	s.noError(direct.List(s.ctx, list, client.InNamespace(s.namespace), client.MatchingFields{"spec.colour": "red"}), "unstructured list")
	s.equal("unstructured list", len(list.Items), 1)
	old := s.looseSail("v1beta1")
	s.noError(direct.Get(s.ctx, s.key("loose"), old), "get in the other version")
	s.equal("other version", []any{old.GetAPIVersion(), old.GetUID()}, []any{s.group + "/v1beta1", made.GetUID()})
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(read.GroupVersionKind())
	s.noError(direct.Get(s.ctx, s.key("loose"), partial), "partial get")
	s.equal("partial", partial.UID, made.GetUID())
	original := partial.DeepCopy()
	partial.Annotations = map[string]string{"a": "b"}
	s.noError(direct.Patch(s.ctx, partial, client.MergeFrom(original)), "partial patch")
	partials := &metav1.PartialObjectMetadataList{}
	partials.SetGroupVersionKind(list.GroupVersionKind())
	s.noError(direct.List(s.ctx, partials, client.InNamespace(s.namespace), client.HasLabels{"loose"}), "partial list")
	s.check(len(partials.Items) == 1 && partials.Items[0].Annotations["a"] == "b", "partial list: %v", partials.Items)

	harbour := &unstructured.Unstructured{Object: map[string]any{"depth": int64(12)}}
	harbour.SetGroupVersionKind(schema.GroupVersionKind{Group: s.group, Version: "v1", Kind: "Harbour"})
	harbour.SetName(s.namespace)
	result, err := controllerutil.CreateOrUpdate(s.ctx, direct, harbour, func() error { return nil })
	s.noError(err, "create or update")
	s.equal("create or update", result, controllerutil.OperationResultCreated)
	result, err = controllerutil.CreateOrUpdate(s.ctx, direct, harbour, func() error {
		harbour.Object["depth"] = int64(13)
		return nil
	})
	s.noError(err, "create or update")
	s.equal("create or update", []any{result, harbour.GetGeneration()}, []any{controllerutil.OperationResultUpdated, 2})
	s.noError(direct.Delete(s.ctx, harbour), "delete harbour")
	s.noError(direct.Delete(s.ctx, made), "unstructured delete")
	s.check(meta.IsNoMatchError(direct.Get(s.ctx, s.key("x"), s.looseSail("v9"))), "a version that is not there")
}

// checkCustomRuntimeChanges patches, applies and writes subresources.
func (s *suite) checkCustomRuntimeChanges() {
	direct := s.runtimeClient()
	if direct == nil {
		return
	}
	made := s.typedSail("changing", SailSpec{Area: 5, Tags: []string{"a"}})
	if !s.noError(direct.Create(s.ctx, made), "create") {
		return
	}
	before := made.DeepCopy()
	made.Spec.Marks = map[string]string{"luff": "red"}
	s.noError(direct.Patch(s.ctx, made, client.MergeFrom(before)), "merge patch")
	s.equal("merge patch", []any{made.Spec.Marks["luff"], made.Generation}, []any{"red", 2})
	stale := before.DeepCopy()
	stale.Spec.Area = 8
	err := direct.Patch(s.ctx, stale, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	s.check(apierrors.IsConflict(err), "optimistic lock: %v", err)
	s.noError(direct.Patch(s.ctx, made, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/marks"}]`))), "JSON patch")
	err = direct.Patch(s.ctx, made.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"area":6}}`)))
	s.check(apierrors.IsUnsupportedMediaType(err), "strategic patch: %v", err)

	before = made.DeepCopy()
	made.Status.Conditions = []SailCondition{{Type: "Ready", Status: "True"}}
	s.noError(direct.Status().Patch(s.ctx, made, client.MergeFrom(before)), "status patch")
	made.Status.Replicas, made.Status.Selector = 1, "mast=main"
	made.Spec.Area = 99
	s.noError(direct.Status().Update(s.ctx, made), "status update")
	s.equal("only the status", []any{made.Spec.Area, made.Status.Replicas, made.Generation}, []any{5, 1, 3})
	made.Status.Conditions = []SailCondition{{Type: "Ready", Status: "Perhaps"}}
	err = direct.Status().Update(s.ctx, made.DeepCopy())
	s.check(apierrors.IsInvalid(err), "invalid status: %v", err)

	scaling := &autoscalingv1.Scale{}
	s.noError(direct.SubResource("scale").Get(s.ctx, made, scaling), "get scale")
	s.equal("scale", []any{scaling.Spec.Replicas, scaling.Status.Replicas, scaling.Status.Selector}, []any{1, 1, "mast=main"})
	scaling.Spec.Replicas = 4
	s.noError(direct.SubResource("scale").Update(s.ctx, made, client.WithSubResourceBody(scaling)), "update scale")
	s.noError(direct.Get(s.ctx, s.key("changing"), made), "get scaled")
	s.equal("scaled", []any{*made.Spec.Replicas, made.Generation}, []any{4, 4})
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`))
	s.noError(direct.SubResource("scale").Patch(s.ctx, made, patch, client.WithSubResourceBody(scaling)), "patch scale")
	s.equal("patch scale", scaling.Spec.Replicas, 5)

	loose := func(spec, status map[string]any) *unstructured.Unstructured {
		result := s.looseSail("v1")
		result.SetName("applied")
		result.SetNamespace(s.namespace)
		if spec != nil {
			result.Object["spec"] = spec
		}
		if status != nil {
			result.Object["status"] = status
		}
		return result
	}
	apply := func(spec map[string]any, options ...client.ApplyOption) error {
		return direct.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(loose(spec, nil)), options...)
	}
	s.noError(apply(map[string]any{"area": int64(5), "reefs": []any{map[string]any{"name": "a", "depth": int64(2)}}}, client.FieldOwner("one")), "apply")
	s.noError(apply(map[string]any{"reefs": []any{map[string]any{"name": "b"}}}, client.FieldOwner("two")), "apply another key")
	err = apply(map[string]any{"area": int64(6)}, client.FieldOwner("two"))
	s.check(apierrors.IsConflict(err), "conflict: %v", err)
	s.noError(apply(map[string]any{"area": int64(6), "reefs": []any{map[string]any{"name": "b"}}}, client.FieldOwner("two"), client.ForceOwnership), "force")
	shown := client.ApplyConfigurationFromUnstructured(loose(nil, map[string]any{"observedGeneration": int64(3)}))
	s.noError(direct.Status().Apply(s.ctx, shown, client.FieldOwner("controller")), "apply a status")
	applied := &Sail{}
	s.noError(direct.Get(s.ctx, s.key("applied"), applied), "get applied")
	s.equal("applied", []any{applied.Spec.Area, applied.Spec.Reefs, applied.Status.Observed}, []any{6, []Reef{{"a", 2}, {"b", 1}}, 3})
	managers := []string{}
	for _, entry := range applied.ManagedFields {
		managers = append(managers, entry.Manager+" "+string(entry.Operation)+" "+entry.Subresource)
	}
	slices.Sort(managers)
	s.equal("managers", managers, []string{"controller Apply status", "one Apply ", "two Apply "})

	result, err := controllerutil.CreateOrPatch(s.ctx, direct, applied, func() error {
		applied.Spec.Tags = []string{"t"}
		applied.Status.Replicas = 2
		return nil
	})
	s.noError(err, "create or patch")
	s.equal("create or patch", []any{result, applied.Spec.Tags, applied.Status.Replicas}, []any{controllerutil.OperationResultUpdatedStatus, []string{"t"}, 2})
	s.noError(direct.DeleteAllOf(s.ctx, &Sail{}, client.InNamespace(s.namespace)), "delete all of")
}

// checkCustomRuntimeCache fills caches with types, unstructured and partial
// objects, and finds them by an index.
func (s *suite) checkCustomRuntimeCache() {
	direct := s.runtimeClient()
	if direct == nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	store, err := cache.New(s.config, cache.Options{Scheme: direct.Scheme(), DefaultNamespaces: map[string]cache.Config{s.namespace: {}}})
	if !s.noError(err, "cache") {
		return
	}
	s.noError(store.IndexField(ctx, &Sail{}, "spec.tags", func(object client.Object) []string { return object.(*Sail).Spec.Tags }), "index")
	_, err = store.GetInformer(ctx, s.looseSail("v1"), cache.BlockUntilSynced(false))
	s.noError(err, "unstructured informer")
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(s.looseSail("v1").GroupVersionKind())
	_, err = store.GetInformer(ctx, partial, cache.BlockUntilSynced(false))
	s.noError(err, "partial informer")
	ended := make(chan error, 1)
	go func() { ended <- store.Start(ctx) }()
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	s.check(store.WaitForCacheSync(waiting), "cache: no sync")
	s.noError(direct.Create(ctx, s.typedSail("cached", SailSpec{Area: 1, Tags: []string{"x", "y"}})), "create cached")
	s.noError(direct.Create(ctx, s.typedSail("uncached", SailSpec{Area: 1, Tags: []string{"z"}})), "create uncached")
	s.eventually("cache: index", func() bool {
		list := &SailList{}
		err := store.List(ctx, list, client.InNamespace(s.namespace), client.MatchingFields{"spec.tags": "y"})
		return err == nil && len(list.Items) == 1 && list.Items[0].Name == "cached"
	})
	s.eventually("cache: unstructured", func() bool { return store.Get(ctx, s.key("cached"), s.looseSail("v1")) == nil })
	s.eventually("cache: partial", func() bool { return store.Get(ctx, s.key("cached"), partial) == nil })
	s.noError(direct.DeleteAllOf(ctx, &Sail{}, client.InNamespace(s.namespace)), "delete all of")
	s.eventually("cache: deletion", func() bool { return apierrors.IsNotFound(store.Get(ctx, s.key("cached"), &Sail{})) })
	cancel()
	s.noError(<-ended, "cache: end")
}

// checkCustomManager runs a controller that makes a ConfigMap for every sail,
// reports in the status, and lets go of a deleted sail when its map is gone.
func (s *suite) checkCustomManager() {
	const finalizer = "example.com/furled"
	direct := s.runtimeClient()
	if direct == nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	manager, err := ctrl.NewManager(s.config, ctrl.Options{
		Scheme: direct.Scheme(), Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
	})
	if !s.noError(err, "manager") {
		return
	}
	seen := &journal{}
	reconciler := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		sail := &Sail{}
		if err := manager.GetClient().Get(ctx, request.NamespacedName, sail); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: sail.Name, Namespace: sail.Namespace}}
		if !sail.DeletionTimestamp.IsZero() {
			if err := client.IgnoreNotFound(manager.GetClient().Delete(ctx, child)); err != nil {
				return reconcile.Result{}, err
			}
			if controllerutil.RemoveFinalizer(sail, finalizer) {
				return reconcile.Result{}, client.IgnoreNotFound(manager.GetClient().Update(ctx, sail))
			}
			return reconcile.Result{}, nil
		}
		if controllerutil.AddFinalizer(sail, finalizer) {
			if err := manager.GetClient().Update(ctx, sail); err != nil {
				return reconcile.Result{}, err
			}
		}
		_, err := controllerutil.CreateOrUpdate(ctx, manager.GetClient(), child, func() error {
			child.Data = map[string]string{"colour": sail.Spec.Colour}
			return controllerutil.SetControllerReference(sail, child, direct.Scheme())
		})
		if err != nil {
			return reconcile.Result{}, err
		}
		sail.Status = SailStatus{Replicas: *sail.Spec.Replicas, Observed: sail.Generation, Conditions: []SailCondition{{Type: "Ready", Status: "True", Reason: "Raised"}}}
		return reconcile.Result{}, manager.GetClient().Status().Update(ctx, sail)
	})
	noted := predicate.NewPredicateFuncs(func(object client.Object) bool {
		if object.GetLabels()["ignored"] == "yes" {
			seen.add(object.GetName())
			return false
		}
		return true
	})
	err = ctrl.NewControllerManagedBy(manager).Named("rigger").
		For(&Sail{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}, noted)).
		Owns(&corev1.ConfigMap{}).Complete(reconciler)
	if !s.noError(err, "controller") {
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()

	ready := func(colour string, generation int64) func() bool {
		return func() bool {
			sail, child := &Sail{}, &corev1.ConfigMap{}
			if direct.Get(ctx, s.key("managed"), sail) != nil || direct.Get(ctx, s.key("managed"), child) != nil {
				return false
			}
			return child.Data["colour"] == colour && sail.Status.Observed == generation && len(sail.Status.Conditions) == 1
		}
	}
	ignored := s.typedSail("ignored", SailSpec{Area: 1})
	ignored.Labels = map[string]string{"ignored": "yes"}
	s.noError(direct.Create(ctx, ignored), "create ignored")
	s.noError(direct.Create(ctx, s.typedSail("managed", SailSpec{Area: 1})), "create managed")
	s.eventually("manager: first", ready("white", 1))
	sail, child := &Sail{}, &corev1.ConfigMap{}
	s.noError(direct.Get(ctx, s.key("managed"), sail), "managed")
	s.noError(direct.Get(ctx, s.key("managed"), child), "child")
	s.equal("manager: finalizer", sail.Finalizers, []string{finalizer})
	s.check(metav1.IsControlledBy(child, sail), "manager: owner %v", child.OwnerReferences)
	if s.equal("manager: owners", len(child.OwnerReferences), 1) {
		s.equal("manager: kind of the owner", []string{child.OwnerReferences[0].APIVersion, child.OwnerReferences[0].Kind}, []string{s.group + "/v1", "Sail"})
	}
	before := sail.DeepCopy()
	sail.Spec.Colour = "red"
	s.noError(direct.Patch(ctx, sail, client.MergeFrom(before)), "change managed")
	s.eventually("manager: changed", ready("red", 2))
	s.noError(direct.Delete(ctx, child), "delete child")
	s.eventually("manager: child comes back", ready("red", 2))
	s.noError(direct.Delete(ctx, sail), "delete managed")
	s.eventually("manager: both are gone", func() bool {
		return apierrors.IsNotFound(direct.Get(ctx, s.key("managed"), &Sail{})) && apierrors.IsNotFound(direct.Get(ctx, s.key("managed"), &corev1.ConfigMap{}))
	})
	s.check(seen.has("ignored"), "manager: ignored %v", seen.lines)
	s.check(apierrors.IsNotFound(direct.Get(ctx, s.key("ignored"), &corev1.ConfigMap{})), "manager: an ignored sail has a child")
	s.noError(direct.Delete(ctx, ignored), "delete ignored")
	cancel()
	s.noError(<-ended, "manager: end")
}
