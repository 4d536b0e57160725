package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// checkTypeConverter builds client-go's server-side-apply types from all
// documents: every kind must be known, and the field sets of the objects in
// objects.yaml (which depend on list and map topology) must be the recorded
// ones.
func (s *suite) checkTypeConverter() {
	converter, err := openapi.NewTypeConverter(s.client.OpenAPIV3(), false)
	if !s.noError(err, "client-go type converter") {
		return
	}
	for _, gvk := range s.sortedKinds() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(gvk)
		_, err := converter.ObjectToTyped(object)
		s.noError(err, "typed "+gvk.String())
	}

	sets := []string{}
	for _, object := range s.objects() {
		name := object.GetKind() + " " + object.GetName()
		typed, err := converter.ObjectToTyped(object)
		if !s.noError(err, "typed "+name) {
			continue
		}
		set, err := typed.ToFieldSet()
		if !s.noError(err, "field set of "+name) {
			continue
		}
		text, err := set.ToJSON()
		if s.noError(err, "field set of "+name) {
			sets = append(sets, fmt.Sprintf("%s %s %s", object.GetAPIVersion(), name, text))
		}
	}
	s.matchesRecorded("field-sets.txt", sets)

	wrong := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": []any{"not", "a", "map"},
	}}
	_, err = converter.ObjectToTyped(wrong)
	s.check(err != nil, "the type converter takes a list for ConfigMap.data")
}

// checkApplyMetadata makes the three-way patch of kubectl apply once from the
// v3 document and once from the Go types.
func (s *suite) checkApplyMetadata() {
	root := openapi3.NewRoot(s.client.OpenAPIV3())
	for _, object := range s.objects() {
		var goType any
		switch object.GetKind() {
		case "Deployment":
			goType = appsv1.Deployment{}
		case "Pod":
			goType = corev1.Pod{}
		case "Service":
			goType = corev1.Service{}
		case "ConfigMap":
			goType = corev1.ConfigMap{}
		default:
			continue
		}
		name := object.GetKind() + " " + object.GetName()
		document, err := root.GVSpec(object.GroupVersionKind().GroupVersion())
		if !s.noError(err, "document of "+name) {
			continue
		}
		fromDocument := strategicpatch.PatchMetaFromOpenAPIV3{
			SchemaList: document.Components.Schemas,
			Schema:     schemaOf(document.Components.Schemas, object.GroupVersionKind()),
		}
		fromType, err := strategicpatch.NewPatchMetaFromStruct(goType)
		if !s.noError(err, "Go type of "+name) {
			continue
		}
		original, _ := json.Marshal(object)
		modified, _ := json.Marshal(changed(object))
		current := original
		want, err := strategicpatch.CreateThreeWayMergePatch(original, modified, current, fromType, true)
		s.noError(err, "patch of "+name+" from the Go type")
		got, err := strategicpatch.CreateThreeWayMergePatch(original, modified, current, fromDocument, true)
		if s.noError(err, "patch of "+name+" from the document") {
			s.check(string(got) == string(want), "patch of %s:\n  document: %s\n  Go type:  %s", name, got, want)
			s.check(len(got) > 2, "patch of %s is empty", name)
		}
	}
}

// objects reads the documents of objects.yaml.
func (s *suite) objects() []*unstructured.Unstructured {
	data, err := os.ReadFile(s.objectsFile)
	if !s.noError(err, "objects.yaml") {
		return nil
	}
	objects := []*unstructured.Unstructured{}
	for _, document := range strings.Split(string(data), "\n---\n") {
		content := map[string]any{}
		if s.noError(yaml.Unmarshal([]byte(document), &content), "objects.yaml") {
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
	return objects
}

// changed returns a copy with other images, values and addresses, and without
// the first item of every list of several objects: what a patch says about both
// depends on the merge keys.
func changed(object *unstructured.Unstructured) *unstructured.Unstructured {
	result := object.DeepCopy()
	for _, field := range []string{"spec", "data"} {
		if content, ok := result.Object[field]; ok {
			result.Object[field] = change(content)
		}
	}
	return result
}

func change(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			if key != "selector" {
				value[key] = change(item)
			}
			if text, ok := item.(string); ok && (key == "image" || key == "value" || key == "ip") {
				value[key] = text + "-changed"
			}
		}
		return value
	case []any:
		kept := []any{}
		for i, item := range value {
			if _, isObject := item.(map[string]any); !isObject || i > 0 || len(value) == 1 {
				kept = append(kept, change(item))
			}
		}
		return kept
	}
	return value
}

func schemaOf(schemas map[string]*spec.Schema, gvk schema.GroupVersionKind) *spec.Schema {
	for _, component := range schemas {
		for _, found := range groupVersionKinds(component) {
			if found == gvk {
				return component
			}
		}
	}
	return nil
}
