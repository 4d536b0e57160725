package main

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// checkTyped runs every verb on a dozen kinds with the typed clients, which
// speak protobuf, and reads each object once more as JSON: the two must agree.
func (s *suite) checkTyped() {
	plain := kubernetes.NewForConfigOrDie(s.config)
	meta := metav1.ObjectMeta{Name: "typed"}
	labels := map[string]string{"app": "typed"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	pod := corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "c", Image: "nginx:1.27",
			Env:   []corev1.EnvVar{{Name: "A", Value: "b"}},
			Ports: []corev1.ContainerPort{{ContainerPort: 80, Name: "http"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("0.5"), corev1.ResourceMemory: resource.MustParse("1024Mi")}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
		}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	once := *pod.DeepCopy()
	once.RestartPolicy = corev1.RestartPolicyNever
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod}
	half := intstr.FromString("50%")
	port := intstr.FromInt32(80)
	limit := int32(15)

	core, apps := s.client.CoreV1(), s.client.AppsV1()
	verbs(s, "ConfigMap", core.ConfigMaps(s.namespace), plain.CoreV1().ConfigMaps(s.namespace),
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"bin": {0, 1, 255}}})
	verbs(s, "Secret", core.Secrets(s.namespace), plain.CoreV1().Secrets(s.namespace),
		&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"a": []byte("b")}})
	verbs(s, "ServiceAccount", core.ServiceAccounts(s.namespace), plain.CoreV1().ServiceAccounts(s.namespace),
		&corev1.ServiceAccount{ObjectMeta: meta})
	verbs(s, "Service", core.Services(s.namespace), plain.CoreV1().Services(s.namespace),
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}})
	verbs(s, "Pod", core.Pods(s.namespace), plain.CoreV1().Pods(s.namespace), &corev1.Pod{ObjectMeta: meta, Spec: pod})
	verbs(s, "PersistentVolumeClaim", core.PersistentVolumeClaims(s.namespace), plain.CoreV1().PersistentVolumeClaims(s.namespace),
		&corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi")}}}})
	verbs(s, "Deployment", apps.Deployments(s.namespace), plain.AppsV1().Deployments(s.namespace),
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}})
	verbs(s, "StatefulSet", apps.StatefulSets(s.namespace), plain.AppsV1().StatefulSets(s.namespace),
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template, ServiceName: "s"}})
	verbs(s, "DaemonSet", apps.DaemonSets(s.namespace), plain.AppsV1().DaemonSets(s.namespace),
		&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}})
	verbs(s, "ControllerRevision", apps.ControllerRevisions(s.namespace), plain.AppsV1().ControllerRevisions(s.namespace),
		&appsv1.ControllerRevision{ObjectMeta: meta, Revision: 3, Data: runtime.RawExtension{Raw: []byte(`{"a":{"b":[1,"two",null]}}`)}})
	verbs(s, "Job", s.client.BatchV1().Jobs(s.namespace), plain.BatchV1().Jobs(s.namespace),
		&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: once}}})
	verbs(s, "CronJob", s.client.BatchV1().CronJobs(s.namespace), plain.BatchV1().CronJobs(s.namespace),
		&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "*/5 * * * *",
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: once}}}}})
	verbs(s, "Ingress", s.client.NetworkingV1().Ingresses(s.namespace), plain.NetworkingV1().Ingresses(s.namespace),
		&networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}}}})
	verbs(s, "NetworkPolicy", s.client.NetworkingV1().NetworkPolicies(s.namespace), plain.NetworkingV1().NetworkPolicies(s.namespace),
		&networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{PodSelector: *selector,
			Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}}}}})
	verbs(s, "Role", s.client.RbacV1().Roles(s.namespace), plain.RbacV1().Roles(s.namespace),
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}})
	verbs(s, "PodDisruptionBudget", s.client.PolicyV1().PodDisruptionBudgets(s.namespace), plain.PolicyV1().PodDisruptionBudgets(s.namespace),
		&policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &half, Selector: selector}})
	now := metav1.NowMicro()
	verbs(s, "Lease", s.client.CoordinationV1().Leases(s.namespace), plain.CoordinationV1().Leases(s.namespace),
		&coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &limit, RenewTime: &now}})
	verbs(s, "HorizontalPodAutoscaler", s.client.AutoscalingV2().HorizontalPodAutoscalers(s.namespace), plain.AutoscalingV2().HorizontalPodAutoscalers(s.namespace),
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "d", APIVersion: "apps/v1"}, MaxReplicas: 3}})
}

type object interface {
	metav1.Object
	runtime.Object
}

// typedClient is what all generated clients have in common.
type typedClient[T object, L runtime.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

func verbs[T object, L runtime.Object](s *suite, kind string, client, plain typedClient[T, L], body T) {
	made, err := client.Create(s.ctx, body, metav1.CreateOptions{})
	if !s.noError(err, kind+" create") {
		return
	}
	s.check(made.GetUID() != "" && made.GetResourceVersion() != "", "%s create: no uid or version", kind)
	read, err := client.Get(s.ctx, body.GetName(), metav1.GetOptions{})
	if s.noError(err, kind+" get") {
		s.check(apiequality.Semantic.DeepEqual(made, read), "%s get is not what was made:\n  %v\n  %v", kind, made, read)
	}
	asJSON, err := plain.Get(s.ctx, body.GetName(), metav1.GetOptions{})
	if s.noError(err, kind+" get as JSON") {
		s.check(apiequality.Semantic.DeepEqual(asJSON, read), "%s is another as JSON:\n  %v\n  %v", kind, asJSON, read)
	}
	_, err = client.Create(s.ctx, body, metav1.CreateOptions{})
	s.check(apierrors.IsAlreadyExists(err), "%s create again: %v", kind, err)

	changed := read.DeepCopyObject().(T)
	changed.SetLabels(map[string]string{"changed": "yes"})
	updated, err := client.Update(s.ctx, changed, metav1.UpdateOptions{})
	if s.noError(err, kind+" update") {
		s.equal(kind+" update", updated.GetLabels()["changed"], "yes")
		s.check(updated.GetResourceVersion() != read.GetResourceVersion(), "%s update: same version", kind)
	}
	changed.SetLabels(nil)
	_, err = client.Update(s.ctx, changed, metav1.UpdateOptions{})
	s.check(apierrors.IsConflict(err), "%s stale update: %v", kind, err)

	list, err := client.List(s.ctx, metav1.ListOptions{LabelSelector: "changed=yes"})
	if s.noError(err, kind+" list") {
		s.equal(kind+" list", reflect.ValueOf(list).Elem().FieldByName("Items").Len(), 1)
	}
	if !s.noError(client.Delete(s.ctx, body.GetName(), metav1.DeleteOptions{}), kind+" delete") {
		return
	}
	gone, err := client.Get(s.ctx, body.GetName(), metav1.GetOptions{})
	if err == nil && len(gone.GetFinalizers()) > 0 {
		// Protection and orphaning are taken back by controllers.
		gone.SetFinalizers(nil)
		_, err = client.Update(s.ctx, gone, metav1.UpdateOptions{})
		s.noError(err, kind+" without finalizers")
		_, err = client.Get(s.ctx, body.GetName(), metav1.GetOptions{})
	}
	s.check(apierrors.IsNotFound(err), "%s get deleted: %v", kind, err)
}

func (s *suite) checkStatusAndScale() {
	deployments := s.client.AppsV1().Deployments(s.namespace)
	replicas := int32(2)
	labels := map[string]string{"app": "status"}
	made, err := deployments.Create(s.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "status"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
			},
		},
	}, metav1.CreateOptions{})
	if !s.noError(err, "deployment") {
		return
	}
	made.Status.ReadyReplicas, made.Status.Replicas = 2, 2
	made.Labels = map[string]string{"ignored": "yes"}
	status, err := deployments.UpdateStatus(s.ctx, made, metav1.UpdateOptions{})
	if s.noError(err, "update status") {
		s.equal("status", status.Status.ReadyReplicas, 2)
		s.equal("generation after status", status.Generation, 1)
	}
	scale, err := deployments.GetScale(s.ctx, "status", metav1.GetOptions{})
	if s.noError(err, "get scale") {
		s.equal("scale", []int32{scale.Spec.Replicas, scale.Status.Replicas}, []int32{2, 2})
		s.equal("scale selector", scale.Status.Selector, "app=status")
		scale.Spec.Replicas = 7
		scale, err = deployments.UpdateScale(s.ctx, "status", scale, metav1.UpdateOptions{})
		if s.noError(err, "update scale") {
			s.equal("scale", scale.Spec.Replicas, 7)
		}
	}
	background := metav1.DeletePropagationBackground
	s.noError(deployments.Delete(s.ctx, "status", metav1.DeleteOptions{PropagationPolicy: &background}), "delete deployment")
}

// checkConflicts lets several writers count in one object.
func (s *suite) checkConflicts() {
	const writers, rounds = 4, 5
	s.mustCreate("counter", nil)
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	var conflicts atomic.Int32
	done := make(chan error, writers)
	for range writers {
		go func() {
			for range rounds {
				// More patient than RetryOnConflict: no writer may give up.
				backoff := wait.Backoff{Steps: 100, Duration: time.Millisecond, Jitter: 1}
				err := retry.OnError(backoff, apierrors.IsConflict, func() error {
					current, err := maps.Get(s.ctx, "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					current.Data["key"] += "x"
					_, err = maps.Update(s.ctx, current, metav1.UpdateOptions{})
					if apierrors.IsConflict(err) {
						conflicts.Add(1)
					}
					return err
				})
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range writers {
		s.noError(<-done, "counting")
	}
	counter, err := maps.Get(s.ctx, "counter", metav1.GetOptions{})
	if s.noError(err, "counter") {
		s.equal(fmt.Sprintf("no update is lost, %d conflicts", conflicts.Load()), len(counter.Data["key"])-len("value"), writers*rounds)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := maps.Get(s.ctx, "counter", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Data = map[string]string{"key": "done"}
		_, err = maps.Update(s.ctx, current, metav1.UpdateOptions{})
		return err
	})
	s.noError(err, "retry on conflict")
}
