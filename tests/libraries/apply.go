package main

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

const epoch = "1970-01-01T00:00:00Z"

var kind = schema.GroupVersionKind{Group: "t.example", Version: "v1", Kind: "X"}

// fieldSets reads FieldsV1 and writes it again, or puts two sets together.
func fieldSets(line json.RawMessage) (any, error) {
	var question struct {
		Op     string          `json:"op"`
		Fields json.RawMessage `json:"fields"`
		A      json.RawMessage `json:"a"`
		B      json.RawMessage `json:"b"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	if question.Op != "setops" {
		set, err := setOf(question.Fields)
		if err != nil {
			return map[string]any{"error": err.Error()}, nil
		}
		paths := []string{}
		set.Iterate(func(path fieldpath.Path) { paths = append(paths, path.String()) })
		return map[string]any{"fields": text(set), "leaves": text(set.Leaves()), "paths": paths}, nil
	}
	a, err := setOf(question.A)
	if err != nil {
		return nil, err
	}
	b, err := setOf(question.B)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"union": text(a.Union(b)), "intersection": text(a.Intersection(b)),
		"difference": text(a.Difference(b)), "recursive": text(a.RecursiveDifference(b)),
	}, nil
}

// typedObjects compares, merges and takes apart two objects of a schema.
func typedObjects(line json.RawMessage) (any, error) {
	var question struct {
		A      map[string]any          `json:"a"`
		B      map[string]any          `json:"b"`
		Fields json.RawMessage         `json:"fields"`
		Schema map[string]*spec.Schema `json:"schema"`
	}
	if err := utiljson.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	types, err := converter(question.Schema)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{}
	a, err := types.ObjectToTyped(&unstructured.Unstructured{Object: question.A}, typed.AllowDuplicates)
	if err != nil {
		answer["aerror"] = err.Error()
		return answer, nil
	}
	b, err := types.ObjectToTyped(&unstructured.Unstructured{Object: question.B}, typed.AllowDuplicates)
	if err != nil {
		answer["berror"] = err.Error()
		return answer, nil
	}
	for name, object := range map[string]*typed.TypedValue{"aset": a, "bset": b} {
		set, err := object.ToFieldSet()
		if err != nil {
			return nil, err
		}
		answer[name] = text(set)
	}
	comparison, err := a.Compare(b)
	if err != nil {
		return nil, err
	}
	answer["added"], answer["modified"], answer["removed"] = text(comparison.Added), text(comparison.Modified), text(comparison.Removed)
	if unique, err := types.ObjectToTyped(&unstructured.Unstructured{Object: question.B}); err != nil {
		answer["bduperror"] = err.Error()
	} else {
		merged, err := a.Merge(unique)
		if err != nil {
			return nil, err
		}
		answer["merged"] = merged.AsValue().Unstructured()
	}
	if question.Fields != nil {
		set, err := setOf(question.Fields)
		if err != nil {
			return nil, err
		}
		answer["without"] = a.RemoveItems(set).AsValue().Unstructured()
		reconciled, err := typed.ReconcileFieldSetWithSchema(set, a)
		if err != nil {
			return nil, err
		}
		if reconciled != nil {
			answer["reconciled"] = text(reconciled)
		}
	}
	return answer, nil
}

// sequence is what several managers write, one after another.
func sequence(line json.RawMessage) (any, error) {
	var question struct {
		Schema map[string]*spec.Schema `json:"schema"`
		Steps  []struct {
			Op      string         `json:"op"`
			Manager string         `json:"manager"`
			Force   bool           `json:"force"`
			Object  map[string]any `json:"object"`
		} `json:"steps"`
	}
	if err := utiljson.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	types, err := converter(question.Schema)
	if err != nil {
		return nil, err
	}
	manager := managedfieldstest.NewTestFieldManager(types, kind)
	steps := []any{}
	for _, step := range question.Steps {
		object := &unstructured.Unstructured{Object: step.Object}
		if step.Op == "apply" {
			err = manager.Apply(object, step.Manager, step.Force)
		} else {
			err = manager.Update(object, step.Manager)
		}
		live := manager.Live().(*unstructured.Unstructured)
		entries, _, _ := unstructured.NestedSlice(live.Object, "metadata", "managedFields")
		for _, entry := range entries {
			if fields := entry.(map[string]any); fields["time"] != nil {
				fields["time"] = epoch
			}
		}
		if entries != nil {
			if err := unstructured.SetNestedSlice(live.Object, entries, "metadata", "managedFields"); err != nil {
				return nil, err
			}
		}
		answer := map[string]any{"live": live.Object}
		if err != nil {
			answer["error"] = err.Error()
		}
		steps = append(steps, answer)
	}
	return map[string]any{"steps": steps}, nil
}

// converter has the types of a schema, or without one deduces them.
func converter(schemas map[string]*spec.Schema) (managedfields.TypeConverter, error) {
	if schemas == nil {
		return managedfields.NewDeducedTypeConverter(), nil
	}
	return managedfields.NewTypeConverter(schemas, false)
}

func setOf(fields json.RawMessage) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	return set, set.FromJSON(bytes.NewReader(fields))
}

func text(set *fieldpath.Set) string {
	written, err := set.ToJSON()
	if err != nil {
		panic(err)
	}
	return string(written)
}
