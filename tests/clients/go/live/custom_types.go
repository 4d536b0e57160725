package main

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

// Sail is the kind of custom/sails.yaml, as an operator would write it.
type Sail struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SailSpec   `json:"spec"`
	Status            SailStatus `json:"status,omitempty"`
}

type SailSpec struct {
	Area     int32               `json:"area"`
	Colour   string              `json:"colour,omitempty"`
	Replicas *int32              `json:"replicas,omitempty"`
	RaisedAt *metav1.Time        `json:"raisedAt,omitempty"`
	Opening  *intstr.IntOrString `json:"opening,omitempty"`
	Reefs    []Reef              `json:"reefs,omitempty"`
	Tags     []string            `json:"tags,omitempty"`
	Marks    map[string]string   `json:"marks,omitempty"`
}

type Reef struct {
	Name  string `json:"name"`
	Depth int32  `json:"depth,omitempty"`
}

type SailStatus struct {
	Replicas   int32           `json:"replicas,omitempty"`
	Selector   string          `json:"selector,omitempty"`
	Observed   int64           `json:"observedGeneration,omitempty"`
	Conditions []SailCondition `json:"conditions,omitempty"`
}

type SailCondition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

type SailList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Sail `json:"items"`
}

func (s *Sail) DeepCopy() *Sail {
	result := &Sail{TypeMeta: s.TypeMeta, ObjectMeta: *s.ObjectMeta.DeepCopy(), Spec: s.Spec, Status: s.Status}
	if s.Spec.Replicas != nil {
		result.Spec.Replicas = new(*s.Spec.Replicas)
	}
	if s.Spec.Opening != nil {
		result.Spec.Opening = new(*s.Spec.Opening)
	}
	result.Spec.RaisedAt = s.Spec.RaisedAt.DeepCopy()
	result.Spec.Reefs = slices.Clone(s.Spec.Reefs)
	result.Spec.Tags = slices.Clone(s.Spec.Tags)
	result.Spec.Marks = maps.Clone(s.Spec.Marks)
	result.Status.Conditions = slices.Clone(s.Status.Conditions)
	return result
}

func (s *Sail) DeepCopyObject() runtime.Object { return s.DeepCopy() }

func (l *SailList) DeepCopyObject() runtime.Object {
	result := &SailList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, item := range l.Items {
		result.Items = append(result.Items, *item.DeepCopy())
	}
	return result
}

// sailScheme knows the built-in kinds and sails of a group.
func sailScheme(group string) (*runtime.Scheme, error) {
	result := runtime.NewScheme()
	if err := clientscheme.AddToScheme(result); err != nil {
		return nil, err
	}
	builder := &scheme.Builder{GroupVersion: schema.GroupVersion{Group: group, Version: "v1"}}
	return result, builder.Register(&Sail{}, &SailList{}).AddToScheme(result)
}
