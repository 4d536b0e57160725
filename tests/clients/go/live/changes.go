package main

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingapply "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// checkChanges patches and applies with client-go's typed and dynamic clients.
func (s *suite) checkChanges() {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	s.mustCreate("patched", nil)
	for kind, body := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"add","path":"/data/json","value":"1"}]`,
		types.MergePatchType:          `{"data":{"merge":"1"}}`,
		types.StrategicMergePatchType: `{"data":{"strategic":"1"}}`,
	} {
		_, err := maps.Patch(s.ctx, "patched", kind, []byte(body), metav1.PatchOptions{})
		s.noError(err, "patch "+string(kind))
	}
	read, err := maps.Get(s.ctx, "patched", metav1.GetOptions{})
	if s.noError(err, "patched") {
		s.equal("patched", []string{read.Data["json"], read.Data["merge"], read.Data["strategic"]}, []string{"1", "1", "1"})
	}
	_, err = maps.Patch(s.ctx, "missing", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	s.check(apierrors.IsNotFound(err), "patch of nothing: %v", err)

	mine := metav1.ApplyOptions{FieldManager: "mine"}
	applied, err := maps.Apply(s.ctx, coreapply.ConfigMap("applied", s.namespace).WithData(map[string]string{"a": "1", "b": "1"}), mine)
	if !s.noError(err, "apply") {
		return
	}
	again, err := maps.Apply(s.ctx, coreapply.ConfigMap("applied", s.namespace).WithData(map[string]string{"a": "1", "b": "1"}), mine)
	if s.noError(err, "apply again") {
		s.equal("nothing new", again.ResourceVersion, applied.ResourceVersion)
	}
	theirs := coreapply.ConfigMap("applied", s.namespace).WithData(map[string]string{"a": "2"})
	_, err = maps.Apply(s.ctx, theirs, metav1.ApplyOptions{FieldManager: "theirs"})
	s.check(apierrors.IsConflict(err), "conflict: %v", err)
	s.check(apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict), "cause of the conflict: %v", err)
	_, err = maps.Apply(s.ctx, theirs, metav1.ApplyOptions{FieldManager: "theirs", Force: true})
	s.noError(err, "force")

	// What was applied comes back from managedFields.
	read, err = maps.Get(s.ctx, "applied", metav1.GetOptions{})
	if s.noError(err, "get") {
		extracted, err := coreapply.ExtractConfigMap(read, "mine")
		s.noError(err, "extract")
		s.equal("extracted", extracted.Data, map[string]string{"b": "1"})
	}

	labels := map[string]string{"app": "applied"}
	deployment := appsapply.Deployment("applied", s.namespace).WithSpec(appsapply.DeploymentSpec().
		WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).WithSpec(coreapply.PodSpec().
			WithContainers(coreapply.Container().WithName("c").WithImage("nginx")))))
	deployments := s.client.AppsV1().Deployments(s.namespace)
	made, err := deployments.Apply(s.ctx, deployment, mine)
	if s.noError(err, "apply a deployment") {
		s.equal("defaults", *made.Spec.Replicas, int32(1))
	}
	scale, err := deployments.ApplyScale(s.ctx, "applied", autoscalingapply.Scale().WithName("applied").
		WithSpec(autoscalingapply.ScaleSpec().WithReplicas(3)), metav1.ApplyOptions{FieldManager: "scaler", Force: true})
	if s.noError(err, "apply a scale") {
		s.equal("scale", scale.Spec.Replicas, int32(3))
	}
	status, err := deployments.ApplyStatus(s.ctx, appsapply.Deployment("applied", s.namespace).
		WithStatus(appsapply.DeploymentStatus().WithObservedGeneration(2)), metav1.ApplyOptions{FieldManager: "controller"})
	if s.noError(err, "apply a status") {
		s.equal("status", status.Status.ObservedGeneration, int64(2))
	}

	loose := dynamic.NewForConfigOrDie(s.config).Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(s.namespace)
	body := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "loose"}, "data": map[string]any{"a": "1"},
	}}
	_, err = loose.Apply(s.ctx, "loose", body, mine)
	s.noError(err, "dynamic apply")
	unknown := body.DeepCopy()
	unknown.Object["colour"] = "blue"
	_, err = loose.Apply(s.ctx, "loose", unknown, mine)
	s.check(err != nil, "an unknown field was applied")
}

// checkRuntimeChanges patches and applies with controller-runtime.
func (s *suite) checkRuntimeChanges() {
	direct, err := client.New(s.config, client.Options{Scheme: scheme.Scheme})
	if !s.noError(err, "runtime client") {
		return
	}
	made := s.configMap("changing", nil)
	s.noError(direct.Create(s.ctx, made), "create")
	before := made.DeepCopy()
	made.Data["merged"] = "yes"
	s.noError(direct.Patch(s.ctx, made, client.MergeFrom(before)), "merge patch")
	before = made.DeepCopy()
	made.Labels = map[string]string{"a": "b"}
	s.noError(direct.Patch(s.ctx, made, client.StrategicMergeFrom(before)), "strategic patch")
	stale := before.DeepCopy()
	stale.Data["late"] = "yes"
	err = direct.Patch(s.ctx, stale, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	s.check(apierrors.IsConflict(err), "optimistic lock: %v", err)
	s.noError(direct.Patch(s.ctx, made, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/data/merged"}]`))), "JSON patch")
	s.equal("patched", []any{made.Data["merged"], made.Labels["a"]}, []any{"", "b"})

	configuration := coreapply.ConfigMap("applied-here", s.namespace).WithData(map[string]string{"a": "1"})
	s.noError(direct.Apply(s.ctx, configuration, client.FieldOwner("one")), "apply")
	other := coreapply.ConfigMap("applied-here", s.namespace).WithData(map[string]string{"a": "2"})
	err = direct.Apply(s.ctx, other, client.FieldOwner("two"))
	s.check(apierrors.IsConflict(err), "conflict: %v", err)
	s.noError(direct.Apply(s.ctx, other, client.FieldOwner("two"), client.ForceOwnership), "force")

	// Operators also apply whole objects as patches.
	whole := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "whole"},
		Data:       map[string]string{"a": "1"},
	}
	text, err := json.Marshal(whole)
	s.noError(err, "marshal")
	s.noError(direct.Patch(s.ctx, whole, client.RawPatch(types.ApplyPatchType, text), client.FieldOwner("one")), "apply as a patch")
	s.check(whole.UID != "", "the answer of an apply fills in the object")

	labels := map[string]string{"app": "status"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "status"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
			},
		},
	}
	s.noError(direct.Create(s.ctx, deployment), "create a deployment")
	original := deployment.DeepCopy()
	deployment.Status.ObservedGeneration = 1
	s.noError(direct.Status().Patch(s.ctx, deployment, client.MergeFrom(original)), "status patch")
	result, err := controllerutil.CreateOrPatch(s.ctx, direct, deployment, func() error {
		deployment.Spec.Paused = true
		deployment.Status.Replicas = 1
		return nil
	})
	s.noError(err, "create or patch")
	s.equal("create or patch", result, controllerutil.OperationResultUpdatedStatus)
	s.equal("both parts", []any{deployment.Spec.Paused, deployment.Status.Replicas}, []any{true, int32(1)})
}
