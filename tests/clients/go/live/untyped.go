package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func (s *suite) checkDynamic() {
	client := dynamic.NewForConfigOrDie(s.config).Resource(configMaps).Namespace(s.namespace)
	body := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "dynamic", "labels": map[string]any{"dynamic": "yes"}},
		"data":     map[string]any{"a": "1"},
	}}
	made, err := client.Create(s.ctx, body, metav1.CreateOptions{})
	if !s.noError(err, "dynamic create") {
		return
	}
	s.noError(unstructured.SetNestedField(made.Object, "2", "data", "a"), "set field")
	updated, err := client.Update(s.ctx, made, metav1.UpdateOptions{})
	if s.noError(err, "dynamic update") {
		value, _, _ := unstructured.NestedString(updated.Object, "data", "a")
		s.equal("dynamic update", value, "2")
	}
	list, err := client.List(s.ctx, metav1.ListOptions{LabelSelector: "dynamic=yes"})
	if s.noError(err, "dynamic list") {
		s.equal("dynamic list kind", list.GetKind(), "ConfigMapList")
		s.equal("dynamic list", len(list.Items), 1)
		if len(list.Items) == 1 {
			s.equal("kind of an item", list.Items[0].GetKind(), "ConfigMap")
		}
	}
	s.noError(client.Delete(s.ctx, "dynamic", metav1.DeleteOptions{}), "dynamic delete")
	_, err = client.Get(s.ctx, "dynamic", metav1.GetOptions{})
	s.check(apierrors.IsNotFound(err), "dynamic get deleted: %v", err)
}

// checkMetadata reads PartialObjectMetadata, which the server makes.
func (s *suite) checkMetadata() {
	made := s.mustCreate("metadata", map[string]string{"meta": "yes"})
	client := metadata.NewForConfigOrDie(s.protobuf).Resource(configMaps).Namespace(s.namespace)
	read, err := client.Get(s.ctx, "metadata", metav1.GetOptions{})
	if s.noError(err, "metadata get") {
		s.equal("metadata uid", read.UID, made.UID)
	}
	list, err := client.List(s.ctx, metav1.ListOptions{LabelSelector: "meta=yes"})
	if s.noError(err, "metadata list") {
		s.equal("metadata list", len(list.Items), 1)
		s.check(list.ResourceVersion != "", "metadata list has no version")
	}
	watching, err := client.Watch(s.ctx, metav1.ListOptions{LabelSelector: "meta=yes", ResourceVersion: list.ResourceVersion})
	if !s.noError(err, "metadata watch") {
		return
	}
	defer watching.Stop()
	s.noError(client.Delete(s.ctx, "metadata", metav1.DeleteOptions{}), "metadata delete")
	event, ok := s.next(watching)
	if s.check(ok, "metadata watch: no event") {
		partial, isPartial := event.Object.(*metav1.PartialObjectMetadata)
		s.check(isPartial && event.Type == watch.Deleted && partial.Name == "metadata", "metadata watch: %s %T", event.Type, event.Object)
	}
}

func (s *suite) next(watching watch.Interface) (watch.Event, bool) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	select {
	case event, ok := <-watching.ResultChan():
		return event, ok
	case <-ctx.Done():
		return watch.Event{}, false
	}
}

// checkPager reads a collection in pieces.
func (s *suite) checkPager() {
	const count = 25
	for i := range count {
		s.mustCreate(fmt.Sprintf("page-%02d", i), map[string]string{"paged": "yes"})
	}
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	requests := 0
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		requests++
		return maps.List(ctx, options)
	})
	pages.PageSize = 10
	names := []string{}
	err := pages.EachListItem(s.ctx, metav1.ListOptions{LabelSelector: "paged=yes"}, func(item runtime.Object) error {
		accessor, err := meta.Accessor(item)
		if err == nil {
			names = append(names, accessor.GetName())
		}
		return err
	})
	if s.noError(err, "pager") {
		s.equal("pager items", len(names), count)
		s.equal("pager requests", requests, 3)
		for i, name := range names {
			s.equal("pager order", name, fmt.Sprintf("page-%02d", i))
		}
	}
	whole, paged, err := pages.List(s.ctx, metav1.ListOptions{LabelSelector: "paged=yes"})
	if s.noError(err, "pager list") {
		s.check(paged, "pager list was not in pages")
		s.equal("pager list", meta.LenList(whole), count)
	}
}

// checkWatch follows one object through its life, in protobuf and in JSON.
func (s *suite) checkWatch() {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	list, err := maps.List(s.ctx, metav1.ListOptions{})
	if !s.noError(err, "list before watch") {
		return
	}
	options := metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "life=yes", AllowWatchBookmarks: true}
	typed, err := maps.Watch(s.ctx, options)
	if !s.noError(err, "watch") {
		return
	}
	defer typed.Stop()
	untyped, err := dynamic.NewForConfigOrDie(s.config).Resource(configMaps).Namespace(s.namespace).Watch(s.ctx, options)
	if !s.noError(err, "dynamic watch") {
		return
	}
	defer untyped.Stop()
	made := s.mustCreate("life", map[string]string{"life": "yes"})
	made.Data["key"] = "changed"
	_, err = maps.Update(s.ctx, made, metav1.UpdateOptions{})
	s.noError(err, "update watched")
	s.noError(maps.Delete(s.ctx, "life", metav1.DeleteOptions{}), "delete watched")
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		a, _ := s.next(typed)
		b, _ := s.next(untyped)
		s.equal("typed event", a.Type, want)
		s.equal("dynamic event", b.Type, want)
		first, errA := meta.Accessor(a.Object)
		second, errB := meta.Accessor(b.Object)
		if s.check(errA == nil && errB == nil, "event objects: %v %v", errA, errB) {
			s.equal("both watches", first.GetResourceVersion(), second.GetResourceVersion())
		}
	}
	old, err := maps.Watch(s.ctx, metav1.ListOptions{ResourceVersion: "1"})
	if s.noError(err, "watch from version 1") {
		defer old.Stop()
		if event, ok := s.next(old); s.check(ok, "watch from version 1: nothing") && event.Type == watch.Error {
			err := apierrors.FromObject(event.Object)
			s.check(apierrors.IsResourceExpired(err) || apierrors.IsGone(err), "watch from version 1: %v", err)
		}
	}
}
